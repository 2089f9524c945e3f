#include "server/main/descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <vector>

#include "rdma/address.h"

namespace remora {
namespace {

const std::vector<rdma::Address> kLocal = {rdma::ParseAddress("local:///tmp/socket").value()};
const std::vector<rdma::Address> kVerbs = {rdma::ParseAddress("verbs://127.0.0.1:7470").value()};

TEST(DescriptorsTest, ClientsAndStoreTakeNoMoreThanThereAre) {
  for (std::size_t limit = 256; limit < 2'000'000; limit += limit / 3) {
    const auto plan = PlanDescriptors(limit, 5, 1, true, kLocal);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_GT(plan->max_clients, 0u);
    EXPECT_LE(plan->max_clients * plan->each + plan->StoreShare(plan->max_clients) + plan->others, limit);
    EXPECT_GE(plan->StoreShare(plan->max_clients), 64u);
    EXPECT_GT(plan->StoreShare(1), plan->StoreShare(plan->max_clients));
  }
}

TEST(DescriptorsTest, AStoreInMemoryLeavesThemToClients) {
  EXPECT_GT(PlanDescriptors(1024, 5, 1, false, kLocal)->max_clients,
            PlanDescriptors(1024, 5, 1, true, kLocal)->max_clients);
}

TEST(DescriptorsTest, ClientsOverVerbsTakeNone) {
  EXPECT_GT(PlanDescriptors(256, 5, 65536, true, kVerbs)->max_clients, 65536u);
}

TEST(DescriptorsTest, SaysWhatWouldDo) {
  const absl::Status status = PlanDescriptors(1024, 5, 5000, true, kLocal).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  const std::string text(status.message());
  const std::size_t at = text.find("it takes ");
  ASSERT_NE(at, std::string::npos) << text;
  const std::size_t enough = std::stoull(text.substr(at + 9));
  EXPECT_TRUE(PlanDescriptors(enough, 5, 5000, true, kLocal).ok()) << text;
  EXPECT_FALSE(PlanDescriptors(enough - 1, 5, 5000, true, kLocal).ok()) << text;
}

TEST(DescriptorsTest, CountsWhatIsOpen) {
  const std::size_t before = OpenDescriptors();
  const int one = open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(OpenDescriptors(), before + 1);
  close(one);
  EXPECT_EQ(OpenDescriptors(), before);
}

}  // namespace
}  // namespace remora
