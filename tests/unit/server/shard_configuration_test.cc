// The configuration of a shard, and its changes: K5, K7, K8, K9.
#include "server/cluster/shard_configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace remora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<Replica> kReplicas{
    {"a", "tcp://host-a:7400"}, {"b", "tcp://host-b:7400"}, {"c", "local:///c"}};

Member At(std::string_view id, std::uint64_t life = 1) { return {.id = std::string(id), .life = life}; }

/// A configuration whose primary is the first member in sync.
ShardConfiguration With(const std::vector<Member>& in_sync, std::uint32_t min_in_sync,
                        const std::vector<Member>& complete = {}) {
  ShardConfiguration configuration;
  configuration.epoch = 4;
  configuration.primary = in_sync.front().id;
  configuration.in_sync = in_sync;
  configuration.min_in_sync = min_in_sync;
  configuration.complete = complete;
  configuration.replicas = kReplicas;
  configuration.lineage = {{1, 1}, {4, 100}};
  std::ranges::sort(configuration.in_sync, {}, &Member::id);
  EXPECT_TRUE(CheckConfiguration(configuration).ok()) << CheckConfiguration(configuration);
  return configuration;
}

bool IsRejected(const absl::StatusOr<ShardConfiguration>& result) {
  return absl::IsFailedPrecondition(result.status());
}

// --- Text -----------------------------------------------------------------------------------------------

TEST(ShardConfigurationTest, ComesBackFromItsText) {
  ShardConfiguration configuration = With({At("b", 7), At("c", ~std::uint64_t{0})}, 3, {At("a", 9)});
  configuration.change = 0xfedc'ba98'7654'3210;
  const std::string text = EncodeConfiguration(configuration);
  const auto again = DecodeConfiguration(text);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, configuration);
  EXPECT_EQ(EncodeConfiguration(*again), text);
  // A later release may add fields.
  EXPECT_EQ(*DecodeConfiguration("{\"later\":[{}]," + text.substr(1)), configuration);
}

TEST(ShardConfigurationTest, DamagedTextsAreErrors) {
  const std::string good = EncodeConfiguration(With({At("b", 7), At("c", 8)}, 3, {At("a", 9)}));
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeConfiguration(good.substr(0, size)).status())) << size;
  }
  for (const auto& [old_text, new_text] : std::vector<std::pair<std::string, std::string>>{
           {"\"epoch\":4", "\"epoch\":-4"},
           {"\"epoch\":4", "\"epoch\":5"},
           {"\"epoch\":4", "\"epoch\":4.5"},
           {"\"epoch\":4", "\"epoch\":\"4\""},
           {"\"epoch\":4", "\"epoch\":0"},
           {"\"epoch\":4", "\"epoch\":99999999999999999999999"},
           {"\"primary\":\"b\"", "\"primary\":\"a\""},
           {"\"primary\":\"b\"", "\"primary\":\"d\""},
           {"\"primary\":\"b\"", "\"primary\":null"},
           {"\"primary\":\"b\",", ""},
           {"\"min_in_sync\":3", "\"min_in_sync\":0"},
           {"\"min_in_sync\":3", "\"min_in_sync\":4"},
           {"\"min_in_sync\":3", "\"min_in_sync\":2"},
           {"\"min_in_sync\":3", "\"min_in_sync\":4294967299"},
           {"0000000000000007", "0000000000000000"},
           {"0000000000000007", "7"},
           {"0000000000000007", "000000000000000G"},
           {"\"lineage\":[[1,1],[4,100]]", "\"lineage\":[[1,1],[4,100],[5,101]]"},
           {"\"lineage\":[[1,1],[4,100]]", "\"lineage\":[[1,101],[4,100]]"},
           {"\"lineage\":[[1,1],[4,100]]", "\"lineage\":[[4,1],[4,100]]"},
           {"\"lineage\":[[1,1],[4,100]]", "\"lineage\":[[1,1],[4]]"},
           {"\"lineage\":[[1,1],[4,100]]", "\"lineage\":[]"},
           {"\"replicas\":[\"a\",\"b\",\"c\"]", "\"replicas\":[\"a\",\"c\",\"b\"]"},
           {"\"replicas\":[\"a\",\"b\",\"c\"]", "\"replicas\":[\"a\",\"b\"]"},
           {"\"replicas\":[\"a\",\"b\",\"c\"]", "\"replicas\":[\"a\",\"b\",\"c\",\"d\"]"},
           {"\"a\":\"tcp", "\"A\":\"tcp"},
           {"tcp://host-a:7400", ""},
           {"tcp://host-a:7400", "a b"},
       }) {
    std::string bad = good;
    ASSERT_NE(bad.find(old_text), std::string::npos) << old_text;
    bad.replace(bad.find(old_text), old_text.size(), new_text);
    const absl::Status status = DecodeConfiguration(bad).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the value in etcd is damaged, at "));
  }
  for (const std::string& bad :
       {std::string("[]"), std::string("null"), std::string("\xff"), std::string(1 << 16, '[')}) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeConfiguration(bad).status()));
  }
}

TEST(ShardConfigurationTest, TheFirstOneIsChecked) {
  const auto first = FirstConfiguration({kReplicas[2], kReplicas[0], kReplicas[1]}, 2);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->replicas, kReplicas);
  EXPECT_EQ(first->epoch, 0);
  EXPECT_EQ(*DecodeConfiguration(EncodeConfiguration(*first)), *first);
  EXPECT_TRUE(IsRejected(FirstConfiguration(kReplicas, 0)));
  EXPECT_TRUE(IsRejected(FirstConfiguration(kReplicas, 4)));
  EXPECT_TRUE(IsRejected(FirstConfiguration({}, 1)));
  EXPECT_TRUE(IsRejected(FirstConfiguration({kReplicas[0], kReplicas[0]}, 1)));
  EXPECT_TRUE(IsRejected(FirstConfiguration({{"a b", "tcp://host:1"}}, 1)));
  EXPECT_TRUE(IsRejected(FirstConfiguration({{"a", ""}}, 1)));
  EXPECT_TRUE(IsRejected(FirstConfiguration(std::vector<Replica>(17, kReplicas[0]), 1)));
}

// --- Changes --------------------------------------------------------------------------------------------

TEST(ShardConfigurationTest, AReplicaBeginsTheShardOnce) {
  const ShardConfiguration first = *FirstConfiguration(kReplicas, 2);
  const auto begun = BeginShard(first, At("b", 5));
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begun->epoch, 1);
  EXPECT_EQ(begun->primary, "b");
  EXPECT_THAT(begun->in_sync, ElementsAre(At("b", 5)));
  EXPECT_THAT(begun->lineage, ElementsAre(EpochStart{1, 1}));
  EXPECT_TRUE(IsRejected(BeginShard(first, At("d"))));
  EXPECT_TRUE(IsRejected(BeginShard(*begun, At("a"))));
  EXPECT_TRUE(IsRejected(TakeOver(first, At("a"), 1)));
}

TEST(ShardConfigurationTest, ATakeoverBeginsAnEpochWithoutTheOldPrimary) {  // K5
  const auto next = TakeOver(With({At("a"), At("b"), At("c")}, 2), At("b"), 130);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->epoch, 5);
  EXPECT_EQ(next->primary, "b");
  EXPECT_THAT(next->in_sync, ElementsAre(At("b"), At("c")));
  EXPECT_EQ(next->lineage.back(), (EpochStart{5, 130}));
}

TEST(ShardConfigurationTest, APrimaryThatStartsAgainTakesOverFromItself) {  // K5
  const auto next = TakeOver(With({At("a"), At("b")}, 2), At("a"), 130);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->epoch, 5);
  EXPECT_THAT(next->in_sync, ElementsAre(At("a"), At("b")));
}

TEST(ShardConfigurationTest, AMemberWithAnotherLifeDoesNotTakeOver) {  // K7
  EXPECT_TRUE(IsRejected(TakeOver(With({At("a"), At("b")}, 2), At("b", 2), 130)));
  EXPECT_TRUE(IsRejected(TakeOver(With({At("a")}, 2, {At("b")}), At("b", 2), 130)));
  EXPECT_TRUE(IsRejected(TakeOver(With({At("a"), At("b")}, 2), At("c"), 130)));
}

TEST(ShardConfigurationTest, ACompleteMemberTakesOver) {  // K8
  const auto next = TakeOver(With({At("a")}, 2, {At("b")}), At("b"), 130);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_THAT(next->in_sync, ElementsAre(At("b")));
  EXPECT_THAT(next->complete, IsEmpty());
}

TEST(ShardConfigurationTest, NoEpochBeginsBeforeTheOneBefore) {  // K9
  const ShardConfiguration now = With({At("a"), At("b")}, 2);
  EXPECT_TRUE(IsRejected(TakeOver(now, At("b"), 99)));
  EXPECT_TRUE(TakeOver(now, At("b"), 100).ok());
  EXPECT_TRUE(IsRejected(Switch(now, "a", "b", 99)));
}

TEST(ShardConfigurationTest, ALineageForgetsItsOldest) {
  ShardConfiguration now = With({At("a"), At("b")}, 2);
  for (int i = 0; i < 200; ++i) now = *TakeOver(now, At("b"), 200);
  EXPECT_EQ(now.lineage.size(), kMaxLineage);
  EXPECT_EQ(now.epoch, 204);
  EXPECT_TRUE(CheckConfiguration(now).ok());
}

TEST(ShardConfigurationTest, AMemberThatLeavesAtTheMinimumIsComplete) {  // K8
  const ShardConfiguration three = With({At("a"), At("b"), At("c")}, 2);
  const ShardConfiguration two = *Shrink(three, "a", true, "c");
  EXPECT_THAT(two.complete, IsEmpty());
  const ShardConfiguration one = *Shrink(two, "a", true, "b");
  EXPECT_THAT(one.in_sync, ElementsAre(At("a")));
  EXPECT_THAT(one.complete, ElementsAre(At("b")));
  EXPECT_THAT(Shrink(two, "a", false, "b")->complete, IsEmpty());
  EXPECT_THAT(Join(one, "a", At("c"))->complete, IsEmpty());
  // Below the minimum, with a complete member, nobody else leaves.
  EXPECT_TRUE(IsRejected(Shrink(With({At("a"), At("c")}, 3, {At("b")}), "a", true, "c")));
}

TEST(ShardConfigurationTest, ThePrimaryAloneShrinksJoinsAndSwitches) {
  const ShardConfiguration now = With({At("a"), At("b")}, 2);
  EXPECT_TRUE(IsRejected(Shrink(now, "b", true, "a")));
  EXPECT_TRUE(IsRejected(Shrink(now, "a", true, "a")));
  EXPECT_TRUE(IsRejected(Shrink(now, "a", true, "c")));
  EXPECT_TRUE(IsRejected(Join(now, "b", At("c"))));
  EXPECT_TRUE(IsRejected(Join(now, "a", At("b", 2))));
  EXPECT_TRUE(IsRejected(Join(now, "a", At("d"))));
  EXPECT_TRUE(IsRejected(Switch(now, "b", "a", 200)));
  EXPECT_TRUE(IsRejected(Switch(now, "a", "a", 200)));
  EXPECT_TRUE(IsRejected(Switch(now, "a", "c", 200)));
  EXPECT_TRUE(IsRejected(Switch(With({At("a"), At("b")}, 3, {At("c")}), "a", "b", 200)));
  const auto next = Switch(now, "a", "b", 200);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->primary, "b");
  EXPECT_THAT(next->in_sync, ElementsAre(At("a"), At("b")));
}

// --- Changes of an operator -----------------------------------------------------------------------------

TEST(ShardConfigurationTest, ARemovedMemberIsNowhere) {  // K12
  const ShardConfiguration now = With({At("a"), At("b"), At("c")}, 2);
  const auto next = RemoveReplica(now, "c", 0);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_THAT(next->in_sync, ElementsAre(At("a"), At("b")));
  EXPECT_THAT(next->replicas, ElementsAre(kReplicas[0], kReplicas[1]));
  EXPECT_EQ(std::pair(next->epoch, next->primary), std::pair(now.epoch, now.primary));
  EXPECT_EQ(next->lineage, now.lineage);
  EXPECT_TRUE(IsRejected(TakeOver(*next, At("c"), 130)));
  EXPECT_TRUE(IsRejected(Join(*next, "a", At("c"))));
  EXPECT_THAT(RemoveReplica(With({At("a")}, 2, {At("b")}), "b", 0)->complete, IsEmpty());
}

TEST(ShardConfigurationTest, SomeMembersStay) {
  const ShardConfiguration now = With({At("a"), At("b")}, 2);
  const auto primary = RemoveReplica(now, "a", 0);
  EXPECT_TRUE(IsRejected(primary));
  EXPECT_THAT(std::string(primary.status().message()), HasSubstr("kvctl cluster switch"));
  EXPECT_TRUE(IsRejected(RemoveReplica(now, "d", 0)));
  EXPECT_TRUE(IsRejected(RemoveReplica(now, "b", 0))) << "writes would wait";
  EXPECT_TRUE(RemoveReplica(now, "b", 1).ok());
  EXPECT_TRUE(RemoveReplica(now, "c", 0).ok());
  EXPECT_TRUE(IsRejected(RemoveReplica(now, "c", 3))) << "more than there are";
  const ShardConfiguration first = *FirstConfiguration({kReplicas[0]}, 1);
  EXPECT_TRUE(IsRejected(RemoveReplica(first, "a", 0))) << "the last one";
}

TEST(ShardConfigurationTest, ALowerMinimumLeavesNobodyComplete) {  // K8
  const ShardConfiguration now = With({At("a")}, 2, {At("b")});
  const auto next = RemoveReplica(now, "c", 1);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_THAT(next->complete, IsEmpty()) << "writes go on without it";
  EXPECT_THAT(RemoveReplica(now, "c", 0)->complete, ElementsAre(At("b")));
}

TEST(ShardConfigurationTest, AnAddedMemberHasToJoin) {  // K12
  const Replica added{.id = "aa", .address = "tcp://host-d:7400"};
  const ShardConfiguration now = With({At("a"), At("b")}, 2);
  const auto next = AddReplica(now, added, 0);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_THAT(next->replicas, ElementsAre(kReplicas[0], added, kReplicas[1], kReplicas[2]));
  EXPECT_EQ(next->in_sync, now.in_sync);
  EXPECT_EQ(DecodeConfiguration(EncodeConfiguration(*next))->replicas, next->replicas);
  EXPECT_TRUE(IsRejected(TakeOver(*next, At("aa"), 130)));
  EXPECT_TRUE(Join(*next, "a", At("aa")).ok());
  EXPECT_TRUE(IsRejected(AddReplica(now, kReplicas[2], 0)));
  EXPECT_TRUE(IsRejected(AddReplica(now, {.id = "d", .address = kReplicas[2].address}, 0)));
  EXPECT_TRUE(IsRejected(AddReplica(now, {.id = "D", .address = "tcp://host-d:7400"}, 0)));
  EXPECT_TRUE(IsRejected(AddReplica(now, {.id = "d", .address = "a b"}, 0)));
  EXPECT_TRUE(IsRejected(AddReplica(now, added, 3))) << "writes would wait";
  EXPECT_TRUE(AddReplica(With({At("a")}, 2), added, 3).ok()) << "they wait already";
  ShardConfiguration many = now;
  for (int i = 0; many.replicas.size() < kMaxReplicas; ++i) {
    many = *AddReplica(many, {.id = absl::StrCat("x", i), .address = absl::StrCat("tcp://x:", i + 1)}, 0);
  }
  EXPECT_TRUE(IsRejected(AddReplica(many, added, 0)));
}

TEST(ShardConfigurationTest, AForcedTakeoverLeavesTheMemberAlone) {  // K9, K13
  const ShardConfiguration now = With({At("a"), At("b")}, 2);
  const auto next = ForceTakeOver(now, At("c", 8), 130, 1'000'000);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(std::pair(next->epoch, next->primary), std::pair(now.epoch + 1, std::string("c")));
  EXPECT_THAT(next->in_sync, ElementsAre(At("c", 8)));
  EXPECT_THAT(next->lineage, ElementsAre(EpochStart{1, 1}, EpochStart{4, 100}, EpochStart{5, 130}));
  EXPECT_EQ(next->versions_from, 1'000'000);
  EXPECT_EQ(*DecodeConfiguration(EncodeConfiguration(*next)), *next);
  EXPECT_EQ(TakeOver(*next, At("c", 8), 140)->versions_from, 1'000'000) << "it stays";
  EXPECT_EQ(ForceTakeOver(*next, At("a"), 140, 5)->versions_from, 1'000'000);
  EXPECT_TRUE(IsRejected(TakeOver(*next, At("b"), 140))) << "it may have what is lost";
  // The member was away since before epoch 4 began.
  EXPECT_THAT(ForceTakeOver(now, At("c"), 60, 1)->lineage, ElementsAre(EpochStart{1, 1}, EpochStart{5, 60}));
  EXPECT_THAT(ForceTakeOver(With({At("a")}, 2, {At("b")}), At("b"), 130, 1)->complete, IsEmpty());
  EXPECT_TRUE(IsRejected(ForceTakeOver(now, At("d"), 130, 1)));
  EXPECT_TRUE(IsRejected(ForceTakeOver(now, At("c"), 130, kMaxVersionsFrom + 1)));
  EXPECT_TRUE(IsRejected(ForceTakeOver(*FirstConfiguration(kReplicas, 2), At("c"), 1, 1)));
  const std::string text = EncodeConfiguration(*next);
  std::string bad = text;
  bad.replace(bad.find("\"versions_from\":1000000"), 23, "\"versions_from\":-100000");
  EXPECT_TRUE(absl::IsDataLoss(DecodeConfiguration(bad).status()));
}

// --- All configurations that three members reach -------------------------------------------------------

/// A shard: its configuration, whether its primary is open, and the members that have all that was published.
struct Shard {
  ShardConfiguration now;
  bool is_open = false;
  std::vector<Member> full{};                // by ID
  std::vector<std::uint64_t> life{1, 1, 1};  // of the members, in their order

  std::string Key() const {
    std::string key = absl::StrCat(EncodeConfiguration(now), is_open);
    for (const Member& one : full) absl::StrAppend(&key, " ", one.id, one.life);
    for (const std::uint64_t one : life) absl::StrAppend(&key, " ", one);
    return key;
  }
};

/// Goes through all shards that are reached by changes, openings, writes and lost ends of logs.
class AllShards {
 public:
  static constexpr std::uint64_t kLives = 2;

  /// `changes`: an operator changes the members and the minimum, too.
  AllShards(std::uint32_t min_in_sync, bool changes) : epochs_(changes ? 3 : 4), changes_(changes) {
    Visit({.now = *FirstConfiguration(kReplicas, min_in_sync)});
    while (!open_.empty()) {
      const Shard shard = open_.front();
      open_.pop_front();
      for (std::size_t i = 0; i < kReplicas.size(); ++i) Step(shard, i);
      Publish(shard);
    }
  }
  std::size_t count() const { return seen_.size(); }

 private:
  void Visit(const Shard& shard) {
    if (!seen_.insert(shard.Key()).second) return;
    const ShardConfiguration& now = shard.now;
    ASSERT_TRUE(CheckConfiguration(now).ok()) << CheckConfiguration(now) << " " << shard.Key();
    ASSERT_EQ(*DecodeConfiguration(EncodeConfiguration(now)), now);
    // A member that may take over, and lives, has all that was published.
    for (std::size_t i = 0; i < kReplicas.size() && now.epoch > 0; ++i) {
      const Member member = At(kReplicas[i].id, shard.life[i]);
      const bool is_full = std::ranges::find(shard.full, member) != shard.full.end();
      ASSERT_TRUE(!now.MayTakeOver(member) || is_full) << member.id << " in " << shard.Key();
    }
    open_.push_back(shard);
  }

  void Take(Shard shard, const absl::StatusOr<ShardConfiguration>& next, bool is_takeover) {
    if (!next.ok() || next->epoch > epochs_) return;
    EXPECT_EQ(next->epoch, shard.now.epoch + (is_takeover ? 1 : 0));
    shard.now = *next;
    if (is_takeover) shard.is_open = false;
    Visit(shard);
  }

  void Step(const Shard& shard, std::size_t i) {
    const Member member = At(kReplicas[i].id, shard.life[i]);
    const std::string& primary = shard.now.primary;
    if (shard.now.epoch == 0) {
      Shard begun = shard;
      begun.full = {member};
      Take(begun, BeginShard(shard.now, member), true);
    }
    Take(shard, TakeOver(shard.now, member, 1), true);
    Take(shard, Switch(shard.now, primary, member.id, 1), true);
    Take(shard, Shrink(shard.now, primary, shard.is_open, member.id), false);
    if (shard.is_open) {  // it has followed, so it has all groups
      Shard joined = shard;
      std::erase_if(joined.full, [&](const Member& one) { return one.id == member.id; });
      joined.full.push_back(member);
      std::ranges::sort(joined.full, {}, &Member::id);
      Take(joined, Join(shard.now, primary, member), false);
    }
    if (changes_ && shard.now.epoch > 0) {
      for (std::uint32_t minimum = 0; minimum <= 3; ++minimum) {
        Take(shard, RemoveReplica(shard.now, member.id, minimum), false);
        Take(shard, AddReplica(shard.now, kReplicas[i], minimum), false);
      }
      // With all that was published, a member that is forced keeps what the others promise.
      const bool is_full = std::ranges::find(shard.full, member) != shard.full.end();
      if (is_full) Take(shard, ForceTakeOver(shard.now, member, 1, 1), true);
    }
    if (shard.life[i] < kLives) {  // it loses the end of its log
      Shard torn = shard;
      ++torn.life[i];
      std::erase_if(torn.full, [&](const Member& one) { return one.id == member.id; });
      if (primary == member.id) torn.is_open = false;
      Visit(torn);
    }
  }

  /// The primary opens, or writes: then the members in sync have all, and others may lack something.
  void Publish(const Shard& shard) {
    if (shard.now.epoch == 0) return;
    const auto lives = [&](const Member& one) {
      const auto found = std::ranges::find(kReplicas, one.id, &Replica::id);
      return shard.life[static_cast<std::size_t>(found - kReplicas.begin())] == one.life;
    };
    if (!std::ranges::all_of(shard.now.in_sync, lives)) return;  // one does not acknowledge
    if (shard.is_open && !shard.now.has_minimum()) return;
    Shard next = shard;
    next.is_open = true;
    next.full = shard.now.in_sync;
    Visit(next);
  }

  const std::uint64_t epochs_;
  const bool changes_;
  std::set<std::string> seen_;
  std::deque<Shard> open_;
};

TEST(ShardConfigurationTest, WhereverThreeMembersComeNobodyTakesOverWithoutAllThatWasPublished) {
  std::size_t count = 0;
  for (std::uint32_t min_in_sync = 1; min_in_sync <= 3; ++min_in_sync)
    count += AllShards(min_in_sync, /*changes=*/false).count();
  EXPECT_GT(count, 1000);
  RecordProperty("shards", std::to_string(count));
}

TEST(ShardConfigurationTest, WhateverAnOperatorChangesNobodyTakesOverWithoutAllThatWasPublished) {  // K12
  const std::size_t count = AllShards(2, /*changes=*/true).count();
  EXPECT_GT(count, 1000);
  RecordProperty("shards", std::to_string(count));
}

}  // namespace
}  // namespace remora
