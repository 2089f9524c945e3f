// A keeper whose slots are in etcd: K19 of server/cluster/keeper.h, with a real etcd.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "keeper_fixture.h"
#include "server/cluster/division.h"
#include "server/cluster/kept_division.h"
#include "server/main/etcd_division.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/shard_identity.h"

namespace remora {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kCluster = 0x5f0c;

class KeeperDivisionTest : public KeeperFixture {
 protected:
  KeeperDivisionTest() {
    shard_ = IdentityOf(kCluster, "one");
    division_ = std::make_shared<const TopologyFormat>();
  }
  /// Writes the division in which the member's shard has the slots below `end`.
  void PutDivision(std::uint32_t end) {
    PutText(absl::StrCat("remora-topology 2\ncluster ", ClusterText(kCluster), "\nshard one 0-", end - 1,
                         " local:///seed\nshard two ", end, "-16383 local:///other\n"));
  }
  void PutText(const std::string& text) {
    const auto before = config_->Read(DivisionKey(kCluster));
    ASSERT_TRUE(before.ok()) << before.status();
    const auto put = config_->Swap(DivisionKey(kCluster), before->revision, text);
    ASSERT_TRUE(put.ok()) << put.status();
  }
  void PutInSync() { Put(With("b", {self(), {.id = "b", .life = kLifeOfB}})); }
  static std::uint32_t SlotsIn(const MemberOrders& orders) {
    return orders.lead && orders.lead->slots != nullptr ? orders.lead->slots->count() : 0;
  }
};

TEST_F(KeeperDivisionTest, AMemberLeadsWithTheSlotsAsOfItsEpoch) {  // K19
  PutDivision(100);
  PutInSync();
  on_order_ = [&, is_changed = false](const MemberOrders& orders) mutable {
    if (orders.min_epoch != 4 || orders.lead || is_changed) return;  // sealed, before its swap
    is_changed = true;
    PutDivision(200);
  };
  Start();
  AwaitLead();
  EXPECT_EQ(SlotsIn(server_->orders()), 200u);
  EXPECT_EQ(Now().first.epoch, 4u);
}

TEST_F(KeeperDivisionTest, NobodyLeadsWithoutADivision) {  // K19
  PutInSync();
  Start();
  AwaitOrders(40);
  EXPECT_FALSE(server_->orders().lead);
  PutText("no topology");
  AwaitOrders(40);
  EXPECT_FALSE(server_->orders().lead);
  EXPECT_EQ(Now().first.epoch, 3u) << "it begins no epoch in which it could not serve";
  EXPECT_THAT(ended(), IsEmpty());
}

TEST_F(KeeperDivisionTest, AMemberThatWasNotToldOfTheDivisionEnds) {  // K19
  division_ = nullptr;
  PutDivision(100);
  PutInSync();
  Start();
  Await([&] { return !ended().empty(); }, "it ends");
  EXPECT_THAT(ended(), HasSubstr("start the server with --slots=etcd"));
  EXPECT_FALSE(server_->orders().lead);
}

TEST_F(KeeperDivisionTest, APrimaryWhoseSlotsChangeEnds) {  // K19
  PutDivision(100);
  PutInSync();
  Start();
  AwaitLead();
  AwaitOrders(10);
  EXPECT_THAT(ended(), IsEmpty());
  PutDivision(200);
  Await([&] { return !ended().empty(); }, "it ends");
  EXPECT_THAT(ended(), HasSubstr("gives this shard other slots"));
}

/// A keeper whose slots move, and in whose shard the slots below 100 are.
class KeeperMovesTest : public KeeperDivisionTest {
 protected:
  KeeperMovesTest() {
    kept_ = std::make_shared<KeptDivision>(shard_, dir_.path());
    PutDivision(100);
    PutInSync();
    Put(ShardKey(IdentityText(other_)), 7);
  }
  /// Has the shard of this key begin an epoch.
  void Put(const std::string& key, std::uint64_t epoch) {
    ShardConfiguration configuration = *FirstConfiguration({{.id = "x", .address = "local:///x"}}, 1);
    configuration.epoch = epoch;
    configuration.primary = "x";
    configuration.in_sync = {{.id = "x", .life = 5}};
    configuration.lineage = {{.epoch = epoch, .first = 1}};
    configuration.change = epoch;
    const auto before = config_->Read(key);
    ASSERT_TRUE(config_->Swap(key, before->revision, EncodeConfiguration(configuration)).ok());
  }
  static ClusterSlots Slots(std::uint32_t first, std::uint32_t last) {
    ClusterSlots slots;
    slots.Add(first, last);
    return slots;
  }
  void Give(std::uint64_t confirmed_in) {
    ASSERT_TRUE(kept_->Find("two").ok());
    ASSERT_TRUE(kept_->Prepare(Slots(50, 59), other_).ok());
    kept_->SetConfirmed(1, confirmed_in);
    EXPECT_TRUE(absl::IsUnavailable(kept_->Swap()));
    Await([&] { return kept_->Own().ok(); }, "the swap ends");
  }

  const ShardIdentity other_ = IdentityOf(kCluster, "two");
};

TEST_F(KeeperMovesTest, APrimaryGivesSlotsAway) {
  Start();
  AwaitLead();
  Give(7);
  EXPECT_EQ(kept_->Own()->count(), 90u);
  Await([&] { return server_->orders().topology->find("# revision 1") != std::string::npos; },
        "it tells clients");
  EXPECT_EQ(SlotsIn(server_->orders()), 90u);
  AwaitOrders(20);
  EXPECT_THAT(ended(), IsEmpty());
}

TEST_F(KeeperMovesTest, APrimaryKeepsSlotsWhoseCopyIsOfAnotherEpoch) {  // K21
  Start();
  AwaitLead();
  Give(6);
  EXPECT_EQ(kept_->Own()->count(), 100u);
  AwaitOrders(20);
  EXPECT_THAT(ended(), IsEmpty());
}

TEST_F(KeeperMovesTest, APrimaryTakesTheSlotsThatItExpects) {  // K23
  Start();
  AwaitLead();
  kept_->Expect(Slots(100, 199));
  PutDivision(200);
  Await([&] { return kept_->Own().ok() && kept_->Own()->count() == 200; }, "it has them");
  // The server gets its orders at the end of that step of the keeper.
  Await([&] { return SlotsIn(server_->orders()) == 200; }, "it serves them");
  EXPECT_THAT(ended(), IsEmpty());
}

TEST_F(KeeperMovesTest, APrimaryTakesNoSlotsBesidesThoseThatItExpects) {  // K23
  Start();
  AwaitLead();
  kept_->Expect(Slots(100, 198));
  PutDivision(200);
  Await([&] { return !ended().empty(); }, "it ends");
  EXPECT_THAT(ended(), HasSubstr("gives this shard other slots"));
}

TEST_F(KeeperMovesTest, ASwapThatCannotBeSentIsGivenUp) {
  Start();
  AwaitLead();
  ASSERT_EQ(etcd_.Control(absl::StrCat("del ", ShardKey(IdentityText(other_)))), 0);
  Give(7);
  EXPECT_EQ(kept_->Own()->count(), 100u);
}

TEST_F(KeeperDivisionTest, ThePrimaryGoesOnWhenTheDivisionIsGone) {
  PutDivision(100);
  PutInSync();
  Start();
  AwaitLead();
  ASSERT_EQ(etcd_.Control(absl::StrCat("del ", DivisionKey(kCluster))), 0);
  AwaitOrders(40);
  EXPECT_THAT(ended(), IsEmpty());
  EXPECT_EQ(SlotsIn(server_->orders()), 100u);
}

TEST_F(KeeperDivisionTest, ClientsGetTheAddressesOfTheConfigurations) {
  PutDivision(100);
  PutInSync();
  // The keeper finds its own configuration elsewhere here, so this one stands for that of another shard.
  ShardConfiguration other = *FirstConfiguration({{.id = "x", .address = "local:///x"}}, 1);
  const std::string key = ShardKey(IdentityText(IdentityOf(kCluster, "two")));
  ASSERT_TRUE(config_->Swap(key, 0, EncodeConfiguration(other)).ok());
  Start();
  const auto shows = [&](std::string_view text) {
    const auto topology = server_->orders().topology;
    return topology != nullptr && topology->find(text) != std::string::npos;
  };
  Await([&] { return shows("shard two 100-16383 local:///x\n"); }, "it names the member");
  EXPECT_TRUE(shows("shard one 0-99 local:///seed\n"));
  // The same address of two shards is none.
  other.replicas[0].address = "local:///seed";
  const auto revision = config_->Read(key)->revision;
  ASSERT_TRUE(config_->Swap(key, revision, EncodeConfiguration(other)).ok());
  AwaitOrders(40);
  EXPECT_TRUE(shows("shard two 100-16383 local:///x\n"));
  EXPECT_THAT(ended(), IsEmpty());
}

}  // namespace
}  // namespace remora
