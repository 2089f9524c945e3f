#include "tests/linearizability/watches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/linearizability/checker.h"

namespace remora::linear {
namespace {

using testing::HasSubstr;

/// Returns writes of one key, by one client: a of version 1, b of 3, gone with 5, and c of 7, each ended
/// before the next.
History Written() {
  History history;
  const auto add = [&](Kind kind, std::string value, std::uint64_t version, Time begun) {
    Operation& write = history.operations.emplace_back();
    write.kind = kind;
    write.outcome = Outcome::kOk;
    write.key = "k";
    write.value = std::move(value);
    write.version = version;
    write.begun = begun;
    write.ended = begun + 5;
  };
  add(Kind::kPut, "a", 1, 10);
  add(Kind::kPut, "b", 3, 20);
  add(Kind::kDelete, "", 5, 30);
  add(Kind::kPut, "c", 7, 40);
  return history;
}

const WatchResult::Change kA = {100, "k", "a", 1, 16};
const WatchResult::Change kB = {101, "k", "b", 3, 26};
const WatchResult::Change kGone = {102, "k", "", 0, 36};
const WatchResult::Change kC = {103, "k", "c", 7, 46};

std::string Faults(std::vector<WatchResult::Change> changes, Time opened = 1, Time caught_up = 100) {
  History history = Written();
  history.watches.push_back({9, std::move(changes), opened, caught_up});
  return Text(Check(history));
}

TEST(WatchesTest, AWatchShowsAllFromItsBeginningOn) {
  EXPECT_EQ(Faults({kA, kB, kGone, kC}), "");
  EXPECT_EQ(Faults({kB, kGone, kC}, 18), "");
  EXPECT_EQ(Faults({kA, kB}, 1, 28), "") << "it has not seen more yet";
  EXPECT_EQ(Faults({kA, kB}, 1, 0), "");
  EXPECT_EQ(Faults({}, 1, 5), "");
  // A value that its record's time takes away shows up likewise.
  EXPECT_EQ(Faults({kA, kB, {102, "other", "", 0, 30}, {103, "k", "", 0, 36}, {104, "k", "c", 7, 46}}), "");
}

TEST(WatchesTest, NothingIsLeftOut) {
  EXPECT_THAT(Faults({kB, kGone, kC}), HasSubstr("leaves out")) << "of its beginning";
  EXPECT_THAT(Faults({kA, kGone, kC}), HasSubstr("leaves out"));
  EXPECT_THAT(Faults({kA, kC}, 18, 0), HasSubstr("leaves out"));
  EXPECT_THAT(Faults({kA, kB, kC}), HasSubstr("leaves out")) << "a deletion";
  EXPECT_THAT(Faults({kA, kGone, kB, kC}), HasSubstr("another order"));
  EXPECT_THAT(Faults({kA, kB, kGone}), HasSubstr("leaves out")) << "of its end";
  EXPECT_THAT(Faults({}), HasSubstr("leaves out"));
}

TEST(WatchesTest, NothingIsShownTwiceOrOutOfOrder) {
  EXPECT_THAT(Faults({kA, kA, kB, kGone, kC}), HasSubstr("twice"));
  EXPECT_THAT(Faults({kA, kB, kB, kGone, kC}), HasSubstr("twice"));
  EXPECT_THAT(Faults({kB, kA, kGone, kC}), HasSubstr("twice, or in another order"));
  EXPECT_THAT(Faults({kA, {101, "k", "a", 1, 17}, kGone, kC}), HasSubstr("versions in another order"));
}

TEST(WatchesTest, NothingIsShownThatNobodyWrote) {
  EXPECT_THAT(Faults({kA, {101, "k", "x", 2, 26}, kC}), HasSubstr("nobody wrote"));
  EXPECT_THAT(Faults({kA, {101, "k", "x", 3, 26}, kGone, kC}), HasSubstr("nobody wrote"));
  EXPECT_THAT(Faults({kA, {101, "other", "b", 3, 26}, kGone, kC}), HasSubstr("nobody wrote"));
  EXPECT_THAT(Faults({kA, {101, "k", "b", 3, 19}, kGone, kC}), HasSubstr("or before"));
}

TEST(WatchesTest, AChangeThatAWatchShowedIsVisibleToAll) {
  History history = Written();
  history.operations.back().ended = 90;
  history.watches.push_back({9, {kA, kB, kGone, kC}, 1, 0});
  Operation& get = history.operations.emplace_back();
  get.outcome = Outcome::kNotFound;
  get.key = "k";
  get.begun = 45;
  get.ended = 80;
  EXPECT_TRUE(Check(history).ok());
  history.operations.back().begun = 47;
  EXPECT_THAT(Text(Check(history)), HasSubstr("no order"));
  history.watches.clear();
  EXPECT_TRUE(Check(history).ok());
}

}  // namespace
}  // namespace remora::linear
