// Members of a shard whose slots are in etcd, which get their orders from the test in place of a keeper: K19
// of server/cluster/keeper.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/async_client.h"
#include "client/client.h"
#include "client/cluster/cluster_client.h"
#include "client/cluster/topology_reader.h"
#include "client/cluster/topology_source.h"
#include "store/base/clock.h"
#include "store/base/moved.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/shard_identity.h"
#include "store/format/cluster/slot.h"
#include "tests/conformance/membership_fixture.h"

namespace remora {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

constexpr std::uint32_t kHalf = kSlots / 2;

class MemberSlotsTest : public MembershipFixture {
 protected:
  MemberSlotsTest() { slots_ = SlotsTo(kSlots); }
  static std::shared_ptr<const ClusterSlots> SlotsTo(std::uint32_t end) {
    ClusterSlots slots;
    slots.Add(0, end - 1);
    return std::make_shared<const ClusterSlots>(slots);
  }
  void LeadWithSlots(Node& node, std::uint64_t epoch, MemberOrders::Lead lead, std::uint32_t end) {
    lead.epoch = epoch;
    lead.slots = SlotsTo(end);
    node.orders.min_epoch = epoch;
    node.orders.counts.assign(lead.followers.size(), true);
    node.orders.lead = std::move(lead);
    node.orders.has_minimum = true;
    node.Await([](const MemberReport& report) { return report.is_open; }, "it is open");
  }
  std::unique_ptr<Client> Connect(const Node& node, bool is_admin = false) {
    auto client = Client::Connect(
        node.server->address(),
        {.connect_timeout = seconds(30), .timeout = seconds(30), .admin_connection = is_admin});
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }
  static std::string KeyIn(bool is_first_half) {
    for (int i = 0;; ++i) {
      std::string key = "key" + std::to_string(i);
      if ((SlotOf(key) < kHalf) == is_first_half) return key;
    }
  }
  static std::uint64_t SlotsOf(Client& client) {
    const auto stats = client.Stats();
    EXPECT_TRUE(stats.ok()) << stats.status();
    for (const auto& [name, value] : *stats) {
      if (name == "slots") return value;
    }
    return 0;
  }
};

TEST_F(MemberSlotsTest, APrimaryServesTheSlotsOfItsOrdersAlone) {  // K19
  Start(primary_, "p", 1);
  Start(follower_, "f", 2);
  follower_.orders.min_epoch = 1;
  follower_.Order();
  LeadWithSlots(primary_, 1, {.followers = {To(follower_)}}, kHalf);
  const std::string own = KeyIn(true), other = KeyIn(false);
  const auto client = Connect(primary_);
  EXPECT_EQ(SlotsOf(*client), kHalf);
  EXPECT_TRUE(client->Put(own, "1").ok());
  EXPECT_TRUE(IsMoved(client->Put(other, "1")));
  EXPECT_TRUE(IsMoved(client->Get(other).status()));
  // The follower has each slot, and serves nobody. As a primary, it has those of its own orders.
  EXPECT_EQ(SlotsOf(*Connect(follower_, /*is_admin=*/true)), kSlots);
  primary_.server.reset();
  LeadWithSlots(follower_, 2, {}, kHalf);
  const auto successor = Connect(follower_);
  EXPECT_EQ(SlotsOf(*successor), kHalf);
  EXPECT_EQ(*successor->Get(own), "1");
  EXPECT_TRUE(IsMoved(successor->Get(other).status()));
  EXPECT_TRUE(IsMoved(successor->Put(other, "1")));
}

TEST_F(MemberSlotsTest, EachMemberTellsTheTopology) {
  Start(primary_, "p", 1);
  Start(follower_, "f", 2);
  follower_.orders.min_epoch = 1;
  const std::string text(10'000, 't');
  follower_.orders.topology = std::make_shared<const std::string>(text);
  follower_.Order();
  LeadWithSlots(primary_, 1, {.followers = {To(follower_)}}, kHalf);
  EXPECT_EQ(*Connect(follower_, /*is_admin=*/true)->ReadTopology(), text);
  const auto client = Connect(primary_);
  const absl::Status none = client->ReadTopology().status();
  EXPECT_TRUE(absl::IsUnavailable(none)) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr("has not read it in etcd yet"));
  primary_.orders.topology = std::make_shared<const std::string>("another");
  primary_.Order();
  EXPECT_EQ(*client->ReadTopology(), "another");
}

TEST_F(MemberSlotsTest, AClientTakesALaterTopologyAlone) {
  Start(primary_, "p", 1);
  const std::string address = primary_.server->address(), nobody = NewAddress().ToString();
  const auto tell = [&](int revision, const std::string& addresses) {
    primary_.orders.topology = std::make_shared<const std::string>(
        absl::StrCat("remora-topology 2\ncluster ", ClusterText(shard_.cluster), "\n# revision ", revision,
                     "\nshard one 0-16383 ", addresses, "\n"));
    primary_.Order();
  };
  tell(2, address);
  LeadWithSlots(primary_, 1, {}, kSlots);
  const SteadyClock clock;
  const ClientOptions options{.connect_timeout = seconds(30), .timeout = seconds(30)};
  const auto topology = ReadTopology("cluster://" + nobody + "," + address, options, clock);
  ASSERT_TRUE(topology.ok()) << topology.status();
  const auto client = ClusterClient::Connect(*topology, options, clock);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE((*client)->Put("key", "1").ok());
  // A count looks at the topology.
  tell(1, nobody);
  EXPECT_EQ(*(*client)->Count(), 1u);
  EXPECT_EQ((*client)->topology().revision(), 2u);
  tell(3, absl::StrCat(nobody, ",", address));
  EXPECT_EQ(*(*client)->Count(), 1u);
  EXPECT_EQ((*client)->topology().revision(), 3u);
  EXPECT_EQ((*client)->topology().shards()[0].addresses, absl::StrCat(nobody, ",", address));
  EXPECT_EQ(*(*client)->Get("key"), "1");
}

TEST_F(MemberSlotsTest, ATopologyReaderTakesTheGreatestOfAllShards) {
  Start(primary_, "p", 1);
  shard_ = IdentityOf(shard_.cluster, "two");
  Start(follower_, "f", 2);
  const std::string one = primary_.server->address(), two = follower_.server->address();
  const std::string nobody = NewAddress().ToString();
  const auto tell = [&](Node& node, int revision, const std::string& second, const std::string& of_two) {
    node.orders.topology = std::make_shared<const std::string>(
        absl::StrCat("remora-topology 2\ncluster ", ClusterText(shard_.cluster), "\n# revision ", revision,
                     "\nshard one 0-8191 ", one, "\nshard ", second, " 8192-16383 ", of_two, "\n"));
    node.Order();
  };
  tell(primary_, 2, "two", two);
  tell(follower_, 3, "two", two);
  LeadWithSlots(primary_, 1, {}, kHalf);
  LeadWithSlots(follower_, 1, {}, kHalf);
  const SteadyClock clock;
  const ClientOptions options{.connect_timeout = seconds(30), .timeout = seconds(30)};
  const auto first = ReadTopology("cluster://" + one, options, clock);
  ASSERT_TRUE(first.ok()) << first.status();
  TopologyReader reader(*first, options, clock);
  EXPECT_EQ(reader.latest().revision(), 2u);
  EXPECT_EQ(reader.Read()->revision(), 3u);  // T2
  tell(follower_, 1, "two", two);
  EXPECT_EQ(reader.Read()->revision(), 3u);  // T1
  EXPECT_EQ(reader.latest().revision(), 3u);
  tell(primary_, 4, "two", absl::StrCat(nobody, ",", two));
  EXPECT_EQ(reader.Read()->shards()[1].addresses, absl::StrCat(nobody, ",", two));
  tell(primary_, 5, "other", two);
  EXPECT_TRUE(absl::IsFailedPrecondition(reader.Read().status()));  // T3
  EXPECT_EQ(reader.latest().revision(), 4u);
  // The other shard is asked once the first one is gone.
  primary_.server.reset();
  tell(follower_, 6, "two", two);
  EXPECT_EQ(reader.Read()->revision(), 6u);
}

TEST_F(MemberSlotsTest, AnAsyncClientGoesOnWhereItIsTold) {
  Start(primary_, "p", 1);
  Start(follower_, "f", 2);
  LeadWithSlots(primary_, 1, {}, kSlots);
  LeadWithSlots(follower_, 1, {}, kSlots);
  const SteadyClock clock;
  const ClientOptions options{.connect_timeout = seconds(30), .timeout = seconds(30)};
  const auto client = AsyncClient::Connect(primary_.server->address(), options, {}, clock);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE(absl::IsInvalidArgument((*client)->SetAddresses("nowhere")));
  ASSERT_TRUE((*client)->SetAddresses(follower_.server->address()).ok());
  const auto exists = [&] {
    absl::Status status;
    EXPECT_TRUE((*client)->Exists("key", [&](const AsyncResult& got) { status = got.status; }).ok());
    EXPECT_TRUE((*client)->WaitAll(clock.Now() + seconds(30)).ok());
    return status;
  };
  EXPECT_TRUE(Connect(primary_)->Put("key", "1").ok());
  EXPECT_TRUE(exists().ok()) << "the present connection stays";
  primary_.server.reset();
  EXPECT_TRUE(absl::IsNotFound(exists())) << "the other server answers, which has no such key";
}

TEST_F(MemberSlotsTest, AMemberWithoutADivisionHasNoTopology) {
  slots_ = nullptr;
  StartPair();
  const absl::Status none = Connect(primary_)->ReadTopology().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(none)) << none;
}

}  // namespace
}  // namespace remora
