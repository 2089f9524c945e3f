// Moves of slots, step by step (server/cluster/slot_moves.h).
#include "server/cluster/slot_moves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <span>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "slot_moves_fixture.h"
#include "store/base/moved.h"
#include "store/format/cluster/slot.h"
#include "store/scan.h"
#include "store/watch.h"

namespace remora {
namespace {

INSTANTIATE_TEST_SUITE_P(Levels, SlotMovesTest, testing::ValuesIn(kLevels), NameOfLevel);

TEST_P(SlotMovesTest, AMoveTakesTheRecordsAlong) {
  std::map<std::string, std::string> moving, staying;
  for (int i = 0; i < 500; ++i) {
    const std::string key = absl::StrCat("key ", i);
    if (SlotOf(key) >= kHalf) continue;
    ASSERT_EQ(a_.Put(key, absl::StrCat("value ", i)), "OK");
    (SlotOf(key) < 4096 ? moving : staying)[key] = absl::StrCat("value ", i);
  }
  const std::string large = Moving("large");
  ASSERT_EQ(a_.Put(large, std::string(400'000, 'l')), "OK");
  moving[large] = std::string(400'000, 'l');
  const std::uint64_t word = a_.store().superblock().slots_word;
  MoveAll();
  EXPECT_GT(a_.store().superblock().slots_word, word);
  for (const auto& [key, value] : moving) {
    EXPECT_EQ(a_.Get(key), "moved") << key;
    EXPECT_FALSE(a_.IsInMemory(key)) << key;
    EXPECT_EQ(a_.Put(key, "no"), "moved");
    EXPECT_EQ(b_.Get(key), value) << key;
  }
  for (const auto& [key, value] : staying) {
    EXPECT_EQ(a_.Get(key), value);
    EXPECT_EQ(b_.Get(key), "moved");
  }
  EXPECT_EQ(Scanned(a_).size(), staying.size());
  EXPECT_EQ(Scanned(b_).size(), moving.size());
  EXPECT_EQ(a_.store().Count().value_or(0), staying.size());
  EXPECT_EQ(b_.store().Count().value_or(0), moving.size());
  EXPECT_EQ(a_.store().Read(Metric::kOwnedSlots), kHalf - 4096u);
  EXPECT_EQ(b_.store().Read(Metric::kOwnedSlots), kHalf + 4096u);
  EXPECT_EQ(a_.store().Read(Metric::kSlotCopyRecords), moving.size());
  EXPECT_GT(a_.store().Read(Metric::kSlotCopyBytes), 400'000u);
  EXPECT_EQ(b_.store().Read(Metric::kSlotCopyRecords), 0u);
  EXPECT_EQ(a_.store().Read(Metric::kSlotMoves) + b_.store().Read(Metric::kSlotMoves), 0u);
  EXPECT_THAT(Copies(), testing::IsEmpty());
}

TEST_P(SlotMovesTest, AMoveInProgressIsCounted) {
  Begin();
  EXPECT_EQ(a_.store().Read(Metric::kSlotMoves), 1u);
  EXPECT_EQ(b_.store().Read(Metric::kSlotMoves), 1u);
  for (Shard* const shard : {&a_, &b_}) EXPECT_EQ(shard->Do(absl::StrCat("cancel ", kMove)), "ok");
  EXPECT_EQ(a_.store().Read(Metric::kSlotMoves), 0u);
  EXPECT_EQ(b_.store().Read(Metric::kSlotMoves), 0u);
}

TEST_P(SlotMovesTest, VersionsAndExpiriesStayAndLaterVersionsAreGreater) {
  const std::string key = Moving("key");
  std::uint64_t version = 0, later = 0;
  for (int i = 0; i < 50; ++i)
    ASSERT_EQ(a_.Put(key, "value", {.ttl = std::chrono::hours(1), .version = &version}), "OK");
  const std::string brief = Moving("brief");
  ASSERT_EQ(a_.Put(brief, "value", {.ttl = std::chrono::minutes(30)}), "OK");
  const auto ttl = a_.store().Ttl(key);
  MoveAll();
  const auto moved_ttl = b_.store().Ttl(key);
  ASSERT_TRUE(moved_ttl.ok() && moved_ttl->has_value());
  EXPECT_LE(**moved_ttl, **ttl);
  EXPECT_GE(**moved_ttl, **ttl - std::chrono::minutes(5));
  EXPECT_EQ(b_.Put(key, "next", {.condition = Condition::Version(version), .version = &later}), "OK");
  EXPECT_GT(later, version);
  EXPECT_EQ(b_.Get(brief), "value");
  clock_.Advance(std::chrono::hours(2));
  while (b_.store().RunMaintenance()) {
  }
  EXPECT_EQ(b_.Get(brief), "NOT_FOUND");
  EXPECT_EQ(b_.Get(key), "next");
}

TEST_P(SlotMovesTest, WritesDuringTheCopyComeAlong) {
  const std::string key = Moving("key"), deleted = Moving("deleted"), fresh = Moving("fresh");
  const std::string counter = Moving("counter");
  ASSERT_EQ(a_.Put(key, "1"), "OK");
  ASSERT_EQ(a_.Put(deleted, "1"), "OK");
  ASSERT_EQ(a_.Put(counter, "1"), "OK");
  Begin();
  Copy();
  ASSERT_EQ(a_.Put(key, "2"), "OK");
  ASSERT_EQ(a_.Put(fresh, "2"), "OK");
  ASSERT_TRUE(a_.store().Delete(deleted).ok());
  ASSERT_EQ(a_.store().Increment(counter, 41).value_or(0), 42);
  Copy();
  ASSERT_EQ(a_.Put(key, "3"), "OK");
  Seal();
  EXPECT_EQ(a_.Put(key, "4"), "moved") << "the slots are closed";
  EXPECT_EQ(a_.Get(key), "3") << "and read";
  EXPECT_EQ(a_.Put(Staying("other"), "1"), "OK");
  ASSERT_EQ(b_.Do(absl::StrCat("confirm ", kMove)), "ok");
  EXPECT_EQ(b_.Get(key), "moved") << "not before the swap";
  EXPECT_FALSE(b_.IsInMemory(key));
  ASSERT_EQ(a_.Do(absl::StrCat("give ", kMove)), "given");
  Serve();
  EXPECT_EQ(b_.Get(key), "3");
  EXPECT_EQ(b_.Get(fresh), "2");
  EXPECT_EQ(b_.Get(deleted), "NOT_FOUND");
  EXPECT_EQ(b_.Get(counter), "42");
}

TEST_P(SlotMovesTest, PendingWritesEndBeforeTheCopyIsSealed) {
  if (GetParam().durability != Durability::kSynced) GTEST_SKIP() << "no write waits for the disk";
  const std::string key = Moving("key");
  ASSERT_EQ(a_.Put(key, "1"), "OK");
  Begin();
  Copy();
  Write write;
  write.key = key;
  write.value = "2";
  a_.store().Submit(std::span(&write, 1));
  ASSERT_NE(write.ticket, 0u);
  ASSERT_EQ(a_.Do(absl::StrCat("close ", kMove)), "ok");
  a_.StepOn();
  EXPECT_TRUE(absl::StartsWith(a_.Do(absl::StrCat("state ", kMove)), "closing"));
  ASSERT_TRUE(a_.store().Sync());
  a_.Await("sealed");
  ASSERT_EQ(b_.Do(absl::StrCat("confirm ", kMove)), "ok");
  ASSERT_EQ(a_.Do(absl::StrCat("give ", kMove)), "given");
  Serve();
  EXPECT_EQ(b_.Get(key), "2");
}

TEST_P(SlotMovesTest, AMoveThereAndBack) {
  const std::string key = Moving("key"), gone = Moving("gone");
  ASSERT_EQ(a_.Put(key, "1"), "OK");
  ASSERT_EQ(a_.Put(gone, "1"), "OK");
  MoveAll();
  ASSERT_EQ(b_.Put(key, "2"), "OK");
  ASSERT_TRUE(b_.store().Delete(gone).ok());
  const std::string back = "00000000000000b2";
  ASSERT_EQ(b_.Do(absl::StrCat("begin ", back, " 0-4095 0 0")), "ok");
  ASSERT_EQ(a_.Do(absl::StrCat("take ", back, " 0-4095 1")), "ok");
  for (int i = 0; i < 2; ++i) {
    a_.StepOn();
    b_.StepOn();
  }
  ASSERT_EQ(b_.Do("close " + back), "ok");
  b_.StepOn();
  ASSERT_EQ(a_.Do("confirm " + back), "ok");
  ASSERT_EQ(b_.Do("give " + back), "given");
  a_.Do("serve " + back);
  a_.StepOn();
  EXPECT_EQ(a_.Get(key), "2");
  EXPECT_EQ(a_.Get(gone), "NOT_FOUND");
  if (!HasDisk()) return;
  // Nothing old is on the disk.
  a_.Start();
  EXPECT_EQ(a_.Get(key), "2");
  EXPECT_EQ(a_.Get(gone), "NOT_FOUND");
}

}  // namespace
}  // namespace remora
