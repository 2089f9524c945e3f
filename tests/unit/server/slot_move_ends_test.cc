// Moves of slots that do not come to their end, and what they end (server/cluster/slot_moves.h).
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

using testing::HasSubstr;

class SlotMoveEndsTest : public SlotMovesTest {};

INSTANTIATE_TEST_SUITE_P(Levels, SlotMoveEndsTest, testing::ValuesIn(kLevels), NameOfLevel);

// --- Ends -----------------------------------------------------------------------------------------------

TEST_P(SlotMoveEndsTest, GivingUpLeavesAllAsItWas) {
  const std::string key = Moving("key");
  ASSERT_EQ(a_.Put(key, "1"), "OK");
  Confirm();
  EXPECT_EQ(a_.Put(key, "2"), "moved");
  EXPECT_EQ(a_.Do(absl::StrCat("cancel ", kMove)), "ok");
  EXPECT_EQ(b_.Do(absl::StrCat("cancel ", kMove)), "ok");
  EXPECT_EQ(a_.Put(key, "2"), "OK");
  EXPECT_EQ(a_.Get(key), "2");
  EXPECT_EQ(b_.Get(key), "moved");
  EXPECT_THAT(Copies(), testing::IsEmpty());
  EXPECT_EQ(a_.Do(absl::StrCat("give ", kMove)), "FAILED_PRECONDITION");
}

TEST_P(SlotMoveEndsTest, BothServersSayWhyAMoveWasGivenUp) {
  EXPECT_EQ(a_.Do("failures"), "");
  Confirm();
  EXPECT_EQ(a_.Do(absl::StrCat("why ", kMove)), "unknown");
  clock_.Advance(SlotSource::kClosedPatience + std::chrono::seconds(1));
  a_.moves().Step();
  EXPECT_EQ(b_.Do(absl::StrCat("cancel ", kMove)), "ok");
  clock_.Advance(std::chrono::seconds(7));
  const std::string nobody = "nobody asked for its state any more: kvctl ended, or was too slow";
  const std::string cancelled = "the source, or kvctl, cancelled it";
  EXPECT_EQ(a_.Do(absl::StrCat("why ", kMove)), nobody);
  EXPECT_EQ(b_.Do(absl::StrCat("why ", kMove)), cancelled);
  EXPECT_EQ(b_.Do("why 00000000000000c3"), "unknown");
  EXPECT_EQ(a_.Do("failures"), absl::StrCat("4096 slots to shard 1, 7 s ago: ", nobody, "\n"));
  EXPECT_EQ(b_.Do("failures"), absl::StrCat("4096 slots from shard 0, 7 s ago: ", cancelled, "\n"));
}

TEST_P(SlotMoveEndsTest, ASwapThatFailsIsNotForgottenUntilOneIsDone) {
  Confirm();
  text_.fails_done = false;
  EXPECT_EQ(a_.Do(absl::StrCat("give ", kMove)), "UNAVAILABLE");
  a_.StepOn();
  EXPECT_EQ(a_.Do(absl::StrCat("why ", kMove)), "the disk fails");
  EXPECT_EQ(b_.Do(absl::StrCat("cancel ", kMove)), "ok");
  text_.fails_done.reset();
  const std::string next = "00000000000000c3";
  ASSERT_EQ(a_.Do(absl::StrCat("begin ", next, " 0-4095 1 0")), "ok");
  ASSERT_EQ(b_.Do(absl::StrCat("take ", next, " 0-4095 0")), "ok");
  a_.StepOn(200);
  b_.StepOn(200);
  ASSERT_EQ(a_.Do(absl::StrCat("close ", next)), "ok");
  a_.StepOn();
  ASSERT_EQ(b_.Do(absl::StrCat("confirm ", next)), "ok");
  ASSERT_EQ(a_.Do(absl::StrCat("give ", next)), "given");
  b_.StepOn();
  EXPECT_EQ(a_.Do("failures"), "");
  EXPECT_EQ(b_.Do("failures"), "");
}

TEST_P(SlotMoveEndsTest, ASourceOfWhichNobodyAsksGivesUp) {
  const std::string key = Moving("key");
  ASSERT_EQ(a_.Put(key, "1"), "OK");
  Confirm();
  ASSERT_TRUE(a_.moves().next_work().has_value());
  clock_.Advance(SlotSource::kClosedPatience + std::chrono::seconds(1));
  a_.moves().Step();
  EXPECT_EQ(a_.Put(key, "2"), "OK");
  EXPECT_EQ(a_.Do(absl::StrCat("give ", kMove)), "FAILED_PRECONDITION");
  // The destination keeps its copy, until the sender of the next move has learned that this one has ended.
  EXPECT_EQ(b_.Do(absl::StrCat("state ", kMove)), "confirmed");
  const std::string next = "00000000000000c3";
  ASSERT_EQ(a_.Do(absl::StrCat("begin ", next, " 0-4095 1 0")), "ok");
  EXPECT_EQ(b_.Do(absl::StrCat("take ", next, " 0-4095 0")), absl::StrCat("confirmed ", kMove, " 0"));
  EXPECT_EQ(a_.Do(absl::StrCat("state ", kMove)), "none");
  EXPECT_EQ(b_.Do(absl::StrCat("cancel ", kMove)), "ok");
  EXPECT_EQ(b_.Do(absl::StrCat("take ", next, " 0-4095 0")), "ok");
}

TEST_P(SlotMoveEndsTest, ATakeThatComesLateLeavesAConfirmedCopy) {
  const std::string key = Moving("key");
  ASSERT_EQ(a_.Put(key, "1"), "OK");
  // Its kvctl stops behind "begin", and goes on when another one has its move confirmed.
  const std::string early = "00000000000000c2";
  ASSERT_EQ(a_.Do(absl::StrCat("begin ", early, " 0-4095 1 0")), "ok");
  ASSERT_EQ(a_.Do(absl::StrCat("cancel ", early)), "ok");
  Confirm();
  EXPECT_EQ(b_.Do(absl::StrCat("take ", early, " 0-4095 0")), absl::StrCat("confirmed ", kMove, " 0"));
  clock_.Advance(2 * SlotDestination::kPatience);
  EXPECT_EQ(b_.Do(absl::StrCat("take ", early, " 0-4095 0")), absl::StrCat("confirmed ", kMove, " 0"));
  EXPECT_EQ(b_.Do(absl::StrCat("cancel ", early)), "ok");
  ASSERT_EQ(a_.Do(absl::StrCat("give ", kMove)), "given");
  EXPECT_EQ(b_.Do(absl::StrCat("take ", early, " 0-4095 0")), absl::StrCat("confirmed ", kMove, " 0"));
  Serve();
  EXPECT_EQ(b_.Get(key), "1");
}

TEST_P(SlotMoveEndsTest, TheDestinationServesByItself) {
  const std::string key = Moving("key");
  ASSERT_EQ(a_.Put(key, "1"), "OK");
  Confirm();
  ASSERT_EQ(a_.Do(absl::StrCat("give ", kMove)), "given");
  EXPECT_EQ(b_.Get(key), "moved");
  b_.StepOn();
  EXPECT_EQ(b_.Get(key), "1");
}

TEST_P(SlotMoveEndsTest, ASwapThatFailsLeavesTheSlots) {
  const std::string key = Moving("key");
  std::uint64_t version = 0;
  ASSERT_EQ(a_.Put(key, "1", {.version = &version}), "OK");
  Confirm();
  text_.fails_done = false;
  EXPECT_EQ(a_.Do(absl::StrCat("give ", kMove)), "UNAVAILABLE");
  a_.StepOn();
  EXPECT_EQ(a_.Get(key), "1");
  EXPECT_EQ(a_.Put(key, "2", {.condition = Condition::Version(version)}), "OK");
  b_.StepOn();
  EXPECT_EQ(b_.Get(key), "moved");
  if (!HasDisk()) return;
  a_.Start();
  EXPECT_EQ(a_.Get(key), "2");
}

TEST_P(SlotMoveEndsTest, ASwapThatIsDoneWithoutAnAnswerCounts) {
  const std::string key = Moving("key");
  ASSERT_EQ(a_.Put(key, "1"), "OK");
  Confirm();
  text_.fails_done = true;
  EXPECT_EQ(a_.Do(absl::StrCat("give ", kMove)), "given");
  EXPECT_EQ(a_.Get(key), "moved");
  Serve();
  EXPECT_EQ(b_.Get(key), "1");
}

TEST_P(SlotMoveEndsTest, WhileTheDivisionCannotBeReadNobodyServes) {
  const std::string key = Moving("key");
  ASSERT_EQ(a_.Put(key, "1"), "OK");
  Confirm();
  text_.fails_done = true;
  text_.is_unreadable = true;
  EXPECT_EQ(a_.Do(absl::StrCat("give ", kMove)), "UNAVAILABLE");
  a_.StepOn();
  b_.StepOn();
  EXPECT_EQ(a_.Get(key), "moved");
  EXPECT_EQ(b_.Get(key), "moved");
  EXPECT_EQ(a_.Do(absl::StrCat("cancel ", kMove)), "UNAVAILABLE");
  EXPECT_EQ(b_.Do(absl::StrCat("cancel ", kMove)), "UNAVAILABLE");
  EXPECT_TRUE(absl::IsAborted(a_.store().Scan(ScanRange{.by_hash = true}, 0, false).status()));
  if (GetParam().ordered) {
    EXPECT_TRUE(absl::IsAborted(a_.store().FindLeaf("", LeafSide::kOf).status()));
  }
  text_.is_unreadable = false;
  a_.StepOn(300);
  b_.StepOn();
  EXPECT_EQ(a_.Get(key), "moved");
  EXPECT_EQ(b_.Get(key), "1");
}

TEST_P(SlotMoveEndsTest, AnotherSwapIsWaitedFor) {
  Confirm();
  text_.is_locked = true;
  EXPECT_EQ(a_.Do(absl::StrCat("give ", kMove)), "again");
  EXPECT_EQ(a_.Get(Moving("key")), "NOT_FOUND");
  text_.is_locked = false;
  EXPECT_EQ(a_.Do(absl::StrCat("give ", kMove)), "given");
}

TEST_P(SlotMoveEndsTest, ADivisionThatChangedEndsTheMove) {
  const std::string key = Moving("key");
  ASSERT_EQ(a_.Put(key, "1"), "OK");
  Confirm();
  text_.slots["0"] = SlotsFrom(1, kHalf - 1);
  text_.slots["2"] = SlotsFrom(0, 0);
  EXPECT_EQ(a_.Do(absl::StrCat("give ", kMove)), "FAILED_PRECONDITION");
  EXPECT_EQ(a_.Get(key), "1");
  EXPECT_EQ(a_.Put(key, "2"), "OK");
}

// --- Starts
// -------------------------------------------------------------------------------------------------

TEST_P(SlotMoveEndsTest, AStartOfTheSourceBeforeTheSwapKeepsTheSlots) {
  if (!HasDisk()) GTEST_SKIP() << "the store is only in memory";
  const std::string key = Moving("key");
  ASSERT_EQ(a_.Put(key, "1"), "OK");
  Confirm();
  a_.Start();
  b_.StepOn();
  EXPECT_EQ(a_.Get(key), "1");
  EXPECT_EQ(b_.Get(key), "moved");
  EXPECT_EQ(a_.Put(key, "2"), "OK");
  EXPECT_EQ(a_.Do(absl::StrCat("give ", kMove)), "FAILED_PRECONDITION");
}

TEST_P(SlotMoveEndsTest, AStartOfTheSourceBehindTheSwapServesNothingOfThem) {
  if (!HasDisk()) GTEST_SKIP() << "the store is only in memory";
  const std::string key = Moving("key");
  ASSERT_EQ(a_.Put(key, "1"), "OK");
  Confirm();
  ASSERT_EQ(a_.Do(absl::StrCat("give ", kMove)), "given");
  a_.Start();
  EXPECT_EQ(a_.Get(key), "moved");
  EXPECT_THAT(Scanned(a_), testing::IsEmpty());
  Serve();
  EXPECT_EQ(b_.Get(key), "1");
}

TEST_P(SlotMoveEndsTest, AStartOfTheDestinationKeepsWhatItHasConfirmed) {
  const std::string key = Moving("key");
  ASSERT_EQ(a_.Put(key, "1"), "OK");
  Confirm();
  b_.Start();
  b_.StepOn();  // it looks at the division
  EXPECT_EQ(b_.Do(absl::StrCat("state ", kMove)), "confirmed");
  EXPECT_EQ(b_.Get(key), "moved");
  ASSERT_EQ(a_.Do(absl::StrCat("give ", kMove)), "given");
  b_.Start();
  EXPECT_EQ(b_.Get(key), "moved") << "it is not taken in yet";
  b_.StepOn();
  EXPECT_EQ(b_.Get(key), "1");
  ASSERT_EQ(b_.Put(key, "2"), "OK");
  EXPECT_THAT(Copies(), testing::IsEmpty());
  if (!HasDisk()) return;
  b_.Start();
  b_.StepOn();
  EXPECT_EQ(b_.Get(key), "2") << "the copy is not taken in once more";
}

TEST_P(SlotMoveEndsTest, AStartOfTheDestinationForgetsWhatItHasNotConfirmed) {
  ASSERT_EQ(a_.Put(Moving("key"), "1"), "OK");
  Begin();
  Copy();
  Seal();
  b_.Start();
  EXPECT_EQ(b_.Do(absl::StrCat("confirm ", kMove)), "FAILED_PRECONDITION");
  EXPECT_THAT(Copies(), testing::IsEmpty());
}

TEST_P(SlotMoveEndsTest, AnEarlierCopyLeavesNothingBehind) {
  if (!HasDisk()) GTEST_SKIP() << "the store is only in memory";
  const std::string gone = Moving("gone"), key = Moving("key");
  ASSERT_EQ(a_.Put(gone, "1"), "OK");
  ASSERT_EQ(a_.Put(key, "1"), "OK");
  MoveAll();
  // The old records stay on the disk of a source that is started before it has deleted them.
  a_.Start();
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
  a_.StepOn();
  a_.Start();
  EXPECT_EQ(a_.Get(gone), "NOT_FOUND");
  EXPECT_EQ(a_.Get(key), "1");
}

// --- Scans and watches
// --------------------------------------------------------------------------------------

TEST_P(SlotMoveEndsTest, AScanInProgressEndsWithMoved) {
  for (int i = 0; i < 200; ++i) {
    const std::string key = absl::StrCat("key ", i);
    if (SlotOf(key) >= kHalf) continue;
    ASSERT_EQ(a_.Put(key, "1"), "OK");
  }
  auto of_source = a_.store().Scan({.any_order = true});
  auto of_destination = b_.store().Scan({.any_order = true});
  auto deletion = a_.store().BeginDeleteRange({});
  ASSERT_TRUE(of_source.ok() && of_destination.ok() && deletion.ok());
  MoveAll();
  while ((*of_source)->Next()) {
  }
  EXPECT_TRUE(IsMoved((*of_source)->status())) << (*of_source)->status();
  EXPECT_FALSE((*of_destination)->Next());
  EXPECT_TRUE(IsMoved((*of_destination)->status())) << (*of_destination)->status();
  EXPECT_TRUE(IsMoved((*deletion)->Step().status()));
}

TEST_P(SlotMoveEndsTest, TheWordGrowsWhereSlotsComeAndGo) {  // X2 and X7 of store/slot_transfer.h
  ASSERT_EQ(a_.Put(Moving("key"), "1"), "OK");
  const std::uint64_t &source = a_.store().superblock().slots_word, source_before = source;
  const std::uint64_t &destination = b_.store().superblock().slots_word, destination_before = destination;
  Confirm();
  EXPECT_EQ(source, source_before);
  EXPECT_EQ(destination, destination_before);
  ASSERT_EQ(a_.Do(absl::StrCat("give ", kMove)), "given");
  EXPECT_GT(source, source_before);
  Serve();
  EXPECT_GT(destination, destination_before);
}

TEST_P(SlotMoveEndsTest, AWatchOfTheSourceEndsAndShowsNoDeletions) {
  const std::string key = Moving("key");
  auto watch = a_.store().Watch({});
  auto of_destination = b_.store().Watch({});
  ASSERT_TRUE(watch.ok() && of_destination.ok());
  ASSERT_EQ(a_.Put(key, "1"), "OK");
  const std::string token = (*watch)->resume_token();
  MoveAll();
  a_.StepOn();  // deletes what it has on the disk
  const std::chrono::milliseconds no_wait{0};
  absl::StatusOr<bool> came = (*watch)->Next(no_wait);
  ASSERT_TRUE(came.ok() && *came) << came.status();
  EXPECT_EQ((*watch)->key(), key);
  came = (*watch)->Next(no_wait);
  EXPECT_TRUE(absl::IsOutOfRange(came.status())) << came.status();
  EXPECT_THAT(std::string(came.status().message()), HasSubstr("another server's"));
  auto later = a_.store().Watch({});
  ASSERT_TRUE(later.ok());
  a_.StepOn();
  ASSERT_EQ(a_.Put(Staying("other"), "1"), "OK");
  came = (*later)->Next(no_wait);
  ASSERT_TRUE(came.ok() && *came) << came.status();
  EXPECT_EQ((*later)->key(), Staying("other")) << "no deletion of what has moved";
  came = (*of_destination)->Next(no_wait);
  ASSERT_TRUE(came.ok() && *came) << came.status();
  EXPECT_EQ((*of_destination)->key(), key);
  EXPECT_EQ((*of_destination)->value(), "1");
}

// --- Commands that make no sense
// ----------------------------------------------------------------------------

TEST_P(SlotMoveEndsTest, CommandsThatMakeNoSenseAreRejected) {
  for (const char* const command : {"", "begin", "begin 0 0-1 1 0", "begin 00000000000000a1 0-99999 1 0",
                                    "begin 00000000000000a1 0-1 1 x", "take 00000000000000a1", "state",
                                    "state 0", "fly 00000000000000a1 0-1 1 0"}) {
    EXPECT_EQ(a_.Do(command), "INVALID_ARGUMENT") << command;
  }
  EXPECT_EQ(a_.Do("begin 00000000000000a1 0-1 9 0"), "NOT_FOUND") << "no such shard";
  EXPECT_EQ(a_.Do("begin 00000000000000a1 0-1 0 0"), "NOT_FOUND") << "to itself";
  EXPECT_EQ(a_.Do("begin 00000000000000a1 0-9000 1 0"), "FAILED_PRECONDITION") << "not its own";
  EXPECT_EQ(b_.Do("take 00000000000000a1 0-9000 0"), "FAILED_PRECONDITION") << "its own already";
  EXPECT_EQ(a_.Do(absl::StrCat("close ", kMove)), "FAILED_PRECONDITION");
  EXPECT_EQ(a_.Do(absl::StrCat("state ", kMove)), "none");
  EXPECT_EQ(a_.Do(absl::StrCat("cancel ", kMove)), "ok");
  EXPECT_THAT(Copies(), testing::IsEmpty());
}

TEST_P(SlotMoveEndsTest, OneMoveAtATime) {
  Begin();
  const std::string other = "00000000000000d4";
  EXPECT_EQ(a_.Do(absl::StrCat("begin ", other, " 5000-5001 2 0")), "UNAVAILABLE");
  EXPECT_EQ(a_.Do(absl::StrCat("take ", other, " 9000 1")), "UNAVAILABLE");
  EXPECT_EQ(b_.Do(absl::StrCat("begin ", other, " 9000 2 0")), "UNAVAILABLE");
  EXPECT_EQ(b_.Do(absl::StrCat("take ", other, " 9000 2")), "UNAVAILABLE");
  EXPECT_EQ(a_.Do(absl::StrCat("give ", kMove)), "FAILED_PRECONDITION");
  EXPECT_EQ(b_.Do(absl::StrCat("confirm ", kMove)), "FAILED_PRECONDITION");
}

TEST_P(SlotMoveEndsTest, ACopyThatIsDamagedIsNotConfirmed) {
  ASSERT_EQ(a_.Put(Moving("key"), std::string(100, 'v')), "OK");
  Begin();
  Copy();
  Seal();
  const std::string path = Copies().at(0);
  std::FILE* const file = std::fopen(path.c_str(), "r+");
  ASSERT_NE(file, nullptr);
  std::fseek(file, sizeof(SlotCopyHeader) + sizeof(SlotCopyEntry) + 20, SEEK_SET);
  std::fputc('X', file);
  std::fclose(file);
  EXPECT_EQ(b_.Do(absl::StrCat("confirm ", kMove)), "DATA_LOSS");
  EXPECT_EQ(a_.Do(absl::StrCat("cancel ", kMove)), "ok");
  EXPECT_EQ(a_.Get(Moving("key")), std::string(100, 'v'));
}

}  // namespace
}  // namespace remora
