// The swap that gives slots to another shard: K20 to K22 of server/cluster/division_swap.h, with a real etcd,
// whose transactions a relay loses, or hands on late.
#include "server/cluster/division_swap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/cluster/config_store.h"
#include "server/cluster/division.h"
#include "server/cluster/keeper.h"
#include "server/cluster/shard_configuration.h"
#include "server/main/etcd_division.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/shard_identity.h"
#include "tests/support/etcd_process.h"
#include "tests/support/etcd_relay.h"

namespace remora {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kSwapCluster = 0x5f0c;
constexpr std::uint64_t kOwnEpoch = 4, kToEpoch = 7;

class DivisionSwapTest : public testing::Test {
 protected:
  DivisionSwapTest() {
    config_ = Open(etcd_.endpoint());
    Put(DivisionKey(kSwapCluster),
        absl::StrCat("remora-topology 2\ncluster ", ClusterText(kSwapCluster),
                     "\nshard one 0-99 local:///one\nshard two 100-16383 local:///two\n"));
    PutEpoch(one_, kOwnEpoch);
    PutEpoch(two_, kToEpoch);
  }
  static std::unique_ptr<ConfigStore> Open(const std::string& endpoint) {
    auto store = ConfigStore::Create({.endpoints = {endpoint}, .timeout = std::chrono::seconds(30)});
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  void Put(const std::string& key, const std::string& text) {
    const auto before = config_->Read(key);
    ASSERT_TRUE(before.ok()) << before.status();
    ASSERT_TRUE(config_->Swap(key, before->revision, text).ok());
  }
  static std::string KeyOf(const ShardIdentity& shard) { return ShardKey(IdentityText(shard)); }
  /// Has the shard begin this epoch, as after a takeover.
  void PutEpoch(const ShardIdentity& shard, std::uint64_t epoch) {
    ShardConfiguration configuration = *FirstConfiguration({{.id = "x", .address = "local:///x"}}, 1);
    configuration.epoch = epoch;
    configuration.primary = "x";
    configuration.in_sync = {{.id = "x", .life = 5}};
    configuration.lineage = {{.epoch = epoch, .first = 1}};
    configuration.change = ++changes_;
    Put(KeyOf(shard), EncodeConfiguration(configuration));
  }
  ConfigStore::Revision Own() {
    const std::string key = KeyOf(one_);
    return {.key = key, .revision = config_->Read(key)->revision};
  }
  /// Returns how many slots shard one has in etcd.
  std::uint32_t Left() {
    const auto view = format_->Read(config_->Read(DivisionKey(kSwapCluster))->text, one_);
    EXPECT_TRUE(view.ok()) << view.status();
    return view.ok() ? view->own.count() : 0;
  }
  DivisionSwap Swap() {
    ClusterSlots slots;
    slots.Add(10, 19);
    return DivisionSwap(format_, one_, {.move = 1, .slots = slots, .to = two_, .to_epoch = kToEpoch});
  }
  /// Has a relay decide the outcomes of transactions, one after the other. Those behind them are done.
  void RelayBy(std::vector<Relayed> outcomes) {
    relay_ = std::make_unique<EtcdRelay>(etcd_.endpoint(), [outcomes = std::move(outcomes)](int number) {
      const auto at = static_cast<std::size_t>(number) - 1;
      return at < outcomes.size() ? outcomes[at] : Relayed::kDone;
    });
    relayed_ = Open(relay_->endpoint());
  }

  const EtcdProcess etcd_;
  const ShardIdentity one_ = IdentityOf(kSwapCluster, "one"), two_ = IdentityOf(kSwapCluster, "two");
  const std::shared_ptr<const DivisionFormat> format_ = std::make_shared<const TopologyFormat>();
  std::unique_ptr<ConfigStore> config_;
  std::unique_ptr<EtcdRelay> relay_;
  std::unique_ptr<ConfigStore> relayed_;
  std::uint64_t changes_ = 0;
};

TEST_F(DivisionSwapTest, GivesSlotsAway) {
  DivisionSwap swap = Swap();
  ASSERT_TRUE(swap.Step(*config_, Own()).ok());
  EXPECT_EQ(Left(), 90u);
  EXPECT_THAT(config_->Read(DivisionKey(kSwapCluster))->text, HasSubstr("# revision 1\n"));
}

TEST_F(DivisionSwapTest, IsNotDoneOnceTheSourceHasAnotherPrimary) {  // K20
  const ConfigStore::Revision own = Own();
  PutEpoch(one_, kOwnEpoch + 1);
  DivisionSwap swap = Swap();
  EXPECT_TRUE(absl::IsUnavailable(swap.Step(*config_, own)));
  EXPECT_FALSE(swap.was_sent());
  EXPECT_EQ(Left(), 100u);
}

TEST_F(DivisionSwapTest, IsNotDoneOnceTheDestinationHasAnotherPrimary) {  // K21
  PutEpoch(two_, kToEpoch + 1);
  DivisionSwap swap = Swap();
  const absl::Status stays = swap.Step(*config_, Own());
  EXPECT_TRUE(absl::IsFailedPrecondition(stays)) << stays;
  EXPECT_THAT(std::string(stays.message()), HasSubstr("another primary since it confirmed"));
  EXPECT_EQ(Left(), 100u);
}

TEST_F(DivisionSwapTest, ALateSwapIsNotDoneAfterATakeoverOfTheSource) {  // K20
  RelayBy({Relayed::kLate});
  DivisionSwap swap = Swap();
  EXPECT_TRUE(absl::IsUnavailable(swap.Step(*relayed_, Own())));
  EXPECT_TRUE(swap.was_sent());
  PutEpoch(one_, kOwnEpoch + 1);
  EXPECT_EQ(relay_->Deliver(), 1u);
  EXPECT_EQ(Left(), 100u);
}

TEST_F(DivisionSwapTest, ALateSwapIsNotDoneAfterATakeoverOfTheDestination) {  // K20
  RelayBy({Relayed::kLate});
  DivisionSwap swap = Swap();
  EXPECT_TRUE(absl::IsUnavailable(swap.Step(*relayed_, Own())));
  PutEpoch(two_, kToEpoch + 1);
  EXPECT_EQ(relay_->Deliver(), 1u);
  EXPECT_EQ(Left(), 100u);
  EXPECT_TRUE(absl::IsFailedPrecondition(swap.Step(*relayed_, Own())));
}

TEST_F(DivisionSwapTest, ALateSwapIsNotDoneOnceItsSourceHasGivenUp) {  // K22
  RelayBy({Relayed::kLate});
  DivisionSwap swap = Swap();
  EXPECT_TRUE(absl::IsUnavailable(swap.Step(*relayed_, Own())));
  const absl::Status stays = swap.Step(*relayed_, Own());
  EXPECT_TRUE(absl::IsFailedPrecondition(stays)) << stays;
  EXPECT_EQ(relay_->Deliver(), 1u);
  EXPECT_EQ(Left(), 100u) << "the source serves them again";
}

TEST_F(DivisionSwapTest, ASwapWhoseAnswerIsLostIsDone) {  // K22
  RelayBy({Relayed::kAnswerLost});
  DivisionSwap swap = Swap();
  EXPECT_TRUE(absl::IsUnavailable(swap.Step(*relayed_, Own())));
  EXPECT_TRUE(swap.Step(*relayed_, Own()).ok());
  EXPECT_EQ(Left(), 90u);
}

TEST_F(DivisionSwapTest, IsUnknownUntilTheSecondSwapIsAnswered) {  // K22
  RelayBy({Relayed::kLost, Relayed::kLost, Relayed::kLate, Relayed::kAnswerLost});
  DivisionSwap swap = Swap();
  for (int step = 0; step < 4; ++step) {
    EXPECT_TRUE(absl::IsUnavailable(swap.Step(*relayed_, Own()))) << step;
  }
  const absl::Status stays = swap.Step(*relayed_, Own());
  EXPECT_TRUE(absl::IsFailedPrecondition(stays)) << stays;
  EXPECT_EQ(relay_->Deliver(), 1u);
  EXPECT_EQ(Left(), 100u);
}

TEST_F(DivisionSwapTest, ALateSwapMayOvertakeTheSecondOne) {  // K22
  RelayBy({Relayed::kLate, Relayed::kLost});
  DivisionSwap swap = Swap();
  EXPECT_TRUE(absl::IsUnavailable(swap.Step(*relayed_, Own())));
  EXPECT_TRUE(absl::IsUnavailable(swap.Step(*relayed_, Own())));
  EXPECT_EQ(relay_->Deliver(), 1u);
  EXPECT_TRUE(swap.Step(*relayed_, Own()).ok());
  EXPECT_EQ(Left(), 90u);
}

TEST_F(DivisionSwapTest, IsTriedAgainWhenAnotherShardHasSwapped) {
  DivisionSwap swap = Swap();
  std::string text = config_->Read(DivisionKey(kSwapCluster))->text;
  relay_ = std::make_unique<EtcdRelay>(etcd_.endpoint(), [&](int number) {
    if (number == 1) Put(DivisionKey(kSwapCluster), text);  // another change, behind the read of this one
    return Relayed::kDone;
  });
  relayed_ = Open(relay_->endpoint());
  EXPECT_TRUE(absl::IsUnavailable(swap.Step(*relayed_, Own())));
  EXPECT_FALSE(swap.was_sent());
  EXPECT_TRUE(swap.Step(*relayed_, Own()).ok());
  EXPECT_EQ(Left(), 90u);
}

TEST_F(DivisionSwapTest, GivesNoSlotsThatTheShardDoesNotHave) {
  ClusterSlots slots;
  slots.Add(90, 110);
  DivisionSwap swap(format_, one_, {.move = 1, .slots = slots, .to = two_, .to_epoch = kToEpoch});
  EXPECT_TRUE(absl::IsFailedPrecondition(swap.Step(*config_, Own())));
  slots = ClusterSlots();
  slots.Add(0, 99);
  DivisionSwap all(format_, one_, {.move = 1, .slots = slots, .to = two_, .to_epoch = kToEpoch});
  EXPECT_TRUE(absl::IsFailedPrecondition(all.Step(*config_, Own()))) << "a shard keeps a slot";
  EXPECT_EQ(Left(), 100u);
}

TEST_F(DivisionSwapTest, NothingIsSentWhileEtcdIsAway) {
  const auto nobody = ConfigStore::Create({.endpoints = {absl::StrCat("http://127.0.0.1:", FreePort())}});
  DivisionSwap swap = Swap();
  EXPECT_TRUE(absl::IsUnavailable(swap.Step(**nobody, Own())));
  EXPECT_FALSE(swap.was_sent());
}

}  // namespace
}  // namespace remora
