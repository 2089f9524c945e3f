// Where a topology comes from, as a text; tests/conformance/member_slots_test.cc asks servers.
#include "client/cluster/topology_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace remora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(TopologySourceTest, ServersAreToldFromFiles) {
  EXPECT_TRUE(IsOfServers("cluster://kv1:7401"));
  EXPECT_FALSE(IsOfServers("/srv/cluster"));
  EXPECT_FALSE(IsOfServers("cluster:/srv/topology"));
  EXPECT_FALSE(IsOfServers(""));
}

TEST(TopologySourceTest, AServerIsOfTcpUnlessItSaysOtherwise) {
  EXPECT_THAT(*SeedsOf("cluster://kv1:7401,tls://kv2:7402,local:///run/a,[::1]:7"),
              ElementsAre("tcp://kv1:7401", "tls://kv2:7402", "local:///run/a", "tcp://[::1]:7"));
}

TEST(TopologySourceTest, FaultsAreNamed) {
  std::string many = "cluster://h:1";
  for (int i = 2; i <= 65; ++i) absl::StrAppend(&many, ",h:", i);
  for (const std::string_view source :
       {std::string_view("cluster://"), std::string_view("cluster://host"),
        std::string_view("cluster://h:1,"), std::string_view("cluster://,h:1"),
        std::string_view("cluster://x://h:1"), std::string_view(many)}) {
    const absl::Status status = SeedsOf(source).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << source << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("cluster://"));
  }
}

TEST(TopologySourceTest, AnAnswerIsChecked) {
  const absl::Status status = TopologyInAnswer("nonsense", "tcp://h:1", "cluster://h:1").status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("tcp://h:1"));
  const auto topology =
      TopologyInAnswer("remora-topology 1\nshard a 0-16383 tcp://h:1\n", "tcp://h:1", "cluster://h:1");
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_EQ(topology->path(), "cluster://h:1");
}

TEST(TopologySourceTest, AReaderOfFilesSaysSo) {
  const absl::Status status = Topology::Read("cluster://h:1").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("cluster topology"));
}

}  // namespace
}  // namespace remora
