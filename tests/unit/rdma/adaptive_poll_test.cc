// How long who waits looks, and how it learns from what came of it.
#include "rdma/adaptive_poll.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <thread>

namespace remora::rdma {
namespace {

constexpr int kShort = 1000;
constexpr int kLong = 5000;
constexpr int kNever = kLong + 1;

/// A wait for what is there at the `found`th look; how often it looked.
int LooksOf(AdaptivePoller& spinner, int found, bool pays = true, int cost = 1) {
  int looks = 0;
  const bool is_there = spinner.Spin([&] { return ++looks == found; }, pays, cost);
  EXPECT_EQ(is_there, looks == found);
  return looks;
}

TEST(AdaptivePollerTest, LooksUntilItIsThere) {
  AdaptivePoller spinner;
  EXPECT_EQ(LooksOf(spinner, 1), 1);
  EXPECT_EQ(LooksOf(spinner, kShort), kShort);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(LooksOf(spinner, kLong), kLong);
}

TEST(AdaptivePollerTest, MoreThreadsThanCpusAreTold) {
  const std::size_t cpus = std::thread::hardware_concurrency();
  ASSERT_GT(cpus, 0u);
  EXPECT_FALSE(AreMoreThanCpus(cpus));
  EXPECT_TRUE(AreMoreThanCpus(cpus + 1));
}

TEST(AdaptivePollerTest, LooksAsOftenIfItYields) {
  AdaptivePoller poller;
  int looks = 0;
  EXPECT_TRUE(poller.SpinAndYield([&] { return ++looks == kLong; }));
  EXPECT_EQ(looks, kLong);
  looks = 0;
  EXPECT_FALSE(poller.SpinAndYield([&] { return ++looks > kLong; }));
  EXPECT_EQ(looks, kLong);
  EXPECT_EQ(LooksOf(poller, kNever), 1);  // behind a wait in vain
}

/// Returns the looks of a wait in vain, behind a wait in which polling succeeded.
int LooksInVain(AdaptivePoller& spinner) {
  while (LooksOf(spinner, 2) != 2) {
  }
  return LooksOf(spinner, kNever);
}

TEST(AdaptivePollerTest, PollsLessAndLessOftenInVain) {
  AdaptivePoller spinner;
  for (const int skips : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024}) {
    ASSERT_GE(LooksOf(spinner, kNever), kShort);
    for (int i = 0; i < skips; ++i) ASSERT_EQ(LooksOf(spinner, kNever), 1) << i << " of " << skips;
  }
}

TEST(AdaptivePollerTest, OneSuccessMakesUpForAllFailures) {
  AdaptivePoller spinner;
  for (const int skips : {1, 2, 4, 8}) {
    ASSERT_GE(LooksOf(spinner, kNever), kShort);
    for (int i = 0; i < skips; ++i) ASSERT_EQ(LooksOf(spinner, kNever), 1);
  }
  EXPECT_EQ(LooksOf(spinner, kShort), kShort);
  EXPECT_GE(LooksOf(spinner, kNever), kShort);
  EXPECT_EQ(LooksOf(spinner, kNever), 1);
  EXPECT_GE(LooksOf(spinner, kNever), kShort);
}

TEST(AdaptivePollerTest, LooksLongerLessAndLessOftenInVain) {
  AdaptivePoller spinner;
  for (const int skips : {8, 16, 32, 64, 128, 256, 512, 1024, 1024}) {
    ASSERT_EQ(LooksInVain(spinner), kLong);
    for (int i = 0; i < skips; ++i) ASSERT_EQ(LooksInVain(spinner), kShort) << i << " of " << skips;
  }
}

TEST(AdaptivePollerTest, ShortWaitsDoNotEnableTheLongPhase) {
  AdaptivePoller spinner;
  EXPECT_EQ(LooksInVain(spinner), kLong);
  for (int i = 0; i < 100; ++i) EXPECT_LE(LooksOf(spinner, kShort), kShort);
  EXPECT_EQ(LooksInVain(spinner), kShort);
}

TEST(AdaptivePollerTest, OneLongWaitThatSucceededMakesUpForAllFailures) {
  AdaptivePoller spinner;
  for (const int skips : {8, 16, 32}) {
    ASSERT_EQ(LooksInVain(spinner), kLong);
    for (int i = 0; i < skips; ++i) ASSERT_EQ(LooksInVain(spinner), kShort);
  }
  while (LooksOf(spinner, 2) != 2) {
  }
  EXPECT_EQ(LooksOf(spinner, kLong), kLong);
  EXPECT_EQ(LooksInVain(spinner), kLong);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(LooksInVain(spinner), kShort);
  EXPECT_EQ(LooksInVain(spinner), kLong);
}

TEST(AdaptivePollerTest, BelievesAHintThatItDoesNotPayButTriesNowAndThen) {
  AdaptivePoller spinner;
  for (const int rest : {8, 16, 32, 64, 128, 256, 512, 1024, 1024}) {
    ASSERT_EQ(LooksOf(spinner, kNever, false), kShort);
    for (int i = 0; i < rest; ++i) ASSERT_EQ(LooksOf(spinner, kNever, false), 1) << i << " of " << rest;
  }
}

// A system call takes as long as ten looks at memory: a wait takes no longer for that.
TEST(AdaptivePollerTest, LooksLessOftenWhereALookIsDear) {
  AdaptivePoller spinner;
  EXPECT_EQ(LooksOf(spinner, kNever, true, 10), kLong / 10);
  EXPECT_EQ(LooksOf(spinner, kNever, true, 10), 0);
  EXPECT_EQ(LooksOf(spinner, kNever, true, 10), kShort / 10);
  EXPECT_EQ(LooksOf(spinner, kNever, false, 10), kShort / 10);
  EXPECT_EQ(LooksOf(spinner, kNever, false, 10), 0);
  AdaptivePoller other;
  EXPECT_EQ(LooksOf(other, kNever, true, 1'000'000), 1);
}

// The system call that sleeps looks, too: one more before it would be in vain.
TEST(AdaptivePollerTest, LeavesOutASingleLookThatIsASystemCall) {
  AdaptivePoller spinner;
  EXPECT_GT(LooksOf(spinner, kNever, false, 2), 0);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(LooksOf(spinner, 1, false, 2), 0);
  EXPECT_EQ(LooksOf(spinner, 1, false, 2), 1);
}

TEST(AdaptivePollerTest, TriesAgainWhereTheHintWasWrong) {
  AdaptivePoller spinner;
  for (const int rest : {8, 16}) {
    ASSERT_EQ(LooksOf(spinner, kNever, false), kShort);
    for (int i = 0; i < rest; ++i) ASSERT_EQ(LooksOf(spinner, kNever, false), 1);
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(LooksOf(spinner, 500, false), 500);
  EXPECT_EQ(LooksOf(spinner, kNever, false), kShort);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(LooksOf(spinner, kNever, false), 1);
  EXPECT_EQ(LooksOf(spinner, kNever, false), kShort);
}

TEST(AdaptivePollerTest, AHintSaysNothingOfWaitsWithoutIt) {
  AdaptivePoller spinner;
  for (int i = 0; i < 4; ++i) LooksOf(spinner, kNever, false);
  EXPECT_EQ(LooksOf(spinner, kNever), kLong);
}

}  // namespace
}  // namespace remora::rdma
