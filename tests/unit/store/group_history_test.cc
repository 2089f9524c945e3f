// ServerStore::ReadGroups: the groups of a history, out of the commit log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "replicated_fixture.h"

namespace remora {
namespace {

class GroupHistoryTest : public ReplicatedTest {
 protected:
  void Put(ServerStore& store, std::string_view key, std::string_view value) {
    Write write{.key = key, .value = value, .status = {}};
    SubmitPatiently(store, write);
    ASSERT_TRUE(store.Acknowledge(store.last_group()).ok());
  }
  /// Expects that the log has the groups from `from` on that the sink got, and no more.
  static void ExpectSame(ServerStore& store, const KeptGroups& groups, std::uint64_t from) {
    auto history = store.ReadGroups(from);
    ASSERT_TRUE(history.ok()) << history.status();
    for (std::uint64_t number = from; number <= groups.last(); ++number) {
      ASSERT_TRUE(*(*history)->Next());
      ASSERT_EQ((*history)->number(), number);
      const auto read = ReadShippedGroup(number, (*history)->bytes());
      ASSERT_TRUE(read.ok()) << read.status();
      const ShippedGroup sent = groups.Read(number);
      ASSERT_EQ(read->entries.size(), sent.entries.size());
      for (std::size_t i = 0; i < sent.entries.size(); ++i) {
        EXPECT_EQ(read->entries[i].key, sent.entries[i].key);
        EXPECT_EQ(read->entries[i].value, sent.entries[i].value);
        EXPECT_EQ(read->entries[i].version, sent.entries[i].version);
        EXPECT_EQ(read->entries[i].expiry_ms, sent.entries[i].expiry_ms);
      }
    }
    EXPECT_FALSE(*(*history)->Next());
  }
};

TEST_F(GroupHistoryTest, HasTheGroupsThatTheSinkGot) {
  KeptGroups groups;
  const auto store = Open(Options("a"));
  ASSERT_TRUE(store->SetGroupSink(&groups).ok());
  for (int i = 0; i < 20; ++i) Put(*store, "key" + std::to_string(i), std::string(100, 'x'));
  ExpectSame(*store, groups, 1);
  ExpectSame(*store, groups, 7);
  EXPECT_TRUE(absl::IsOutOfRange(store->ReadGroups(groups.last() + 1).status()));
}

TEST_F(GroupHistoryTest, FollowsTheLogAsItGrows) {
  KeptGroups groups;
  const auto store = Open(Options("a"));
  ASSERT_TRUE(store->SetGroupSink(&groups).ok());
  auto history = store->ReadGroups(1);
  ASSERT_TRUE(history.ok()) << history.status();
  while (*(*history)->Next()) continue;
  EXPECT_EQ((*history)->number(), groups.last());
  Put(*store, "key", "value");
  EXPECT_TRUE(*(*history)->Next());
  EXPECT_EQ((*history)->number(), groups.last());
}

TEST_F(GroupHistoryTest, GoesOnOverARestart) {
  KeptGroups groups;
  {
    const auto store = Open(Options("a"));
    ASSERT_TRUE(store->SetGroupSink(&groups).ok());
    for (int i = 0; i < 5; ++i) Put(*store, "key", std::to_string(i));
  }
  const auto store = Open(FollowerOptions("a"));
  ExpectSame(*store, groups, 2);
  KeptGroups later(groups.last() + 1);
  ASSERT_TRUE(store->Promote(&later).ok());
  Put(*store, "key", "later");
  ExpectSame(*store, later, later.first());
  auto history = store->ReadGroups(groups.last());
  ASSERT_TRUE(history.ok()) << history.status();
  for (std::uint64_t number = groups.last(); number <= later.last(); ++number)
    EXPECT_TRUE(*(*history)->Next());
  EXPECT_FALSE(*(*history)->Next());
}

TEST_F(GroupHistoryTest, AnotherHistoryHidesTheOneBefore) {
  const auto store = Open(Options("a"));
  KeptGroups first;
  ASSERT_TRUE(store->SetGroupSink(&first).ok());
  for (int i = 0; i < 9; ++i) Put(*store, "first", std::to_string(i));
  store->DropGroupSink();
  Write outside{.key = "outside", .value = "1", .status = {}};
  store->Commit(std::span(&outside, 1));
  EXPECT_TRUE(absl::IsOutOfRange(store->ReadGroups(1).status())) << "the store has left the history";
  KeptGroups second;
  ASSERT_TRUE(store->SetGroupSink(&second).ok());
  Put(*store, "second", "1");
  ExpectSame(*store, second, 1);
  EXPECT_TRUE(absl::IsOutOfRange(store->ReadGroups(second.last() + 1).status())) << "as the first one had it";
}

TEST_F(GroupHistoryTest, AFollowerHasTheGroupsOfItsPrimary) {
  KeptGroups groups;
  const auto primary = Open(Options("a"));
  const auto follower = Open(FollowerOptions("b"));
  ASSERT_TRUE(primary->SetGroupSink(&groups).ok());
  for (int i = 0; i < 5; ++i) Put(*primary, "key" + std::to_string(i), "value");
  Deliver(*follower, groups, groups.last());
  ExpectSame(*follower, groups, 1);
}

}  // namespace
}  // namespace remora
