// Runs of segments: taken, given back, retired, and made.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "store/memory_plan.h"
#include "store/region/segments.h"

namespace remora {
namespace {

using Use = Segments::Use;
using std::chrono::milliseconds;
using std::chrono::seconds;

class RunsTest : public testing::Test {
 protected:
  static constexpr std::size_t kCount = 40;
  static constexpr seconds kRest{2};

  const std::unique_ptr<AnonymousMemory> memory_ = std::move(*AnonymousMemory::Map(kCount * kSegmentSize));
  const std::span<std::byte> region_ = memory_->bytes();
  Segments segments_{region_, kRest};
  TimePoint now_{seconds(1000)};

  /// Takes a run with a live record.
  SegmentNumber Run(std::size_t length) {
    const std::uint64_t bytes = length * kSegmentSize - 1000;
    const SegmentNumber first = segments_.TakeRun(length, bytes).value();
    segments_.AddLive(segments_[first].begin, bytes);
    return first;
  }
  void Drop(SegmentNumber first) { segments_.Drop(segments_[first].begin, segments_[first].live); }
  void Retire(SegmentNumber first) {
    Drop(first);
    segments_.RetireRun(first);
    segments_.StartGracePeriod(now_);
  }
  /// Returns a sealed segment of the log with so many live bytes.
  SegmentNumber Log(std::uint64_t live) {
    const SegmentNumber number = segments_.Take(Use::kLogHead, 0).value();
    segments_.AddLive(segments_[number].begin, live);
    segments_.Seal(number, segments_[number].begin + live, now_);
    return number;
  }
  void Empty(SegmentNumber number) {
    Drop(number);
    segments_.Retire(number, now_);
  }
  std::byte Generation(SegmentNumber number) const {
    return region_[GenerationsOffset(region_.size()) + number];
  }
};

TEST_F(RunsTest, ARunIsNextToEachOtherAndCountsAsUsed) {
  const std::size_t free = segments_.free_count();
  const SegmentNumber first = Run(5);
  for (SegmentNumber i = first; i < first + 5; ++i) EXPECT_EQ(segments_[i].use, Use::kRun);
  EXPECT_EQ(segments_[first].run, 5u);
  EXPECT_EQ(segments_.free_count(), free - 5);
  EXPECT_EQ(segments_.log_bytes(), 5 * kSegmentSize - 1000);
  EXPECT_EQ(segments_.live_bytes(), 5 * kSegmentSize - 1000);
  Drop(first);
  segments_.ReleaseRun(first);
  EXPECT_EQ(segments_.free_count(), free);
  EXPECT_EQ(segments_.log_bytes(), 0u);
  EXPECT_EQ(Generation(first), std::byte{0}) << "nothing ever led there";
}

TEST_F(RunsTest, ItRestsAsOneAndAllItsGenerationsChange) {
  const std::size_t free = segments_.free_count();
  const SegmentNumber first = Run(5);
  Retire(first);
  EXPECT_EQ(segments_.retired_count(), 5u);
  for (SegmentNumber i = first; i < first + 5; ++i) {
    EXPECT_EQ(segments_[i].use, Use::kRetired);
    EXPECT_EQ(Generation(i), std::byte{1});
  }
  EXPECT_EQ(segments_.next_release(), now_ + kRest);
  segments_.Release(now_ + kRest - milliseconds(1));
  EXPECT_EQ(segments_.free_count(), free - 5);
  segments_.Release(now_ + kRest);
  EXPECT_EQ(segments_.free_count(), free);
  EXPECT_EQ(segments_.retired_count(), 0u);
}

// The grace period of a retired run begins only with StartGracePeriod, after the work that killed its record.
TEST_F(RunsTest, ItDoesNotRestBeforeItIsSaidSinceWhen) {
  const SegmentNumber first = Run(2);
  Drop(first);
  segments_.RetireRun(first);
  segments_.Release(now_ + 100 * kRest);
  EXPECT_EQ(segments_[first].use, Use::kRetired);
  segments_.StartGracePeriod(now_);
  segments_.Release(now_ + kRest);
  EXPECT_EQ(segments_[first].use, Use::kFree);
}

TEST_F(RunsTest, SomethingIsLeftForTheCleanerAndTheIndex) {
  const std::size_t free = segments_.free_count();
  EXPECT_FALSE(segments_.TakeRun(free - 1, 1).has_value());
  EXPECT_TRUE(segments_.TakeRun(free - 2, 1).has_value());
}

TEST_F(RunsTest, TheStretchWithTheLeastInItIsEmptiedAndKept) {
  std::vector<SegmentNumber> log;
  while (segments_.free_count() > 0) log.push_back(Log(kSegmentSize / 2));
  // Frees segments that are not adjacent. In one place, fewer live bytes are in the way.
  for (std::size_t i = 0; i < log.size(); i += 3) Empty(log[i]);
  segments_.Drop(segments_[log[19]].begin, kSegmentSize / 4);
  segments_.Drop(segments_[log[20]].begin, kSegmentSize / 4);
  segments_.Release(now_ += kRest);
  ASSERT_FALSE(segments_.HasRun(4));
  const std::size_t free = segments_.free_count();
  ASSERT_TRUE(segments_.MakeRun(4, now_));
  EXPECT_TRUE(segments_.IsRunInUse());
  EXPECT_EQ(segments_.free_count(), free - 2) << "what is free in it is for nobody else";
  EXPECT_EQ(segments_.Best(now_, kSegmentSize), log[19]);
  Empty(log[19]);
  EXPECT_EQ(segments_.Best(now_, kSegmentSize), log[20]);
  Empty(log[20]);
  EXPECT_FALSE(segments_.IsRunInUse());
  EXPECT_FALSE(segments_.HasRun(4));
  ASSERT_TRUE(segments_.MakeRun(4, now_ += kRest));
  segments_.Release(now_);
  ASSERT_TRUE(segments_.HasRun(4));
  EXPECT_EQ(segments_.TakeRun(4, 1), log[18]);
  EXPECT_FALSE(segments_.is_making_run());
}

TEST_F(RunsTest, AStretchThatCannotBeMovedElsewhereIsLeftAlone) {
  std::vector<SegmentNumber> log;
  while (segments_.free_count() > 0) log.push_back(Log(kSegmentSize));
  for (const std::size_t i : {0u, 10u, 20u}) Empty(log[i]);
  segments_.Release(now_ += kRest);
  EXPECT_FALSE(segments_.MakeRun(4, now_));
  EXPECT_EQ(segments_.free_count(), 3u);
}

TEST_F(RunsTest, RunsAndBucketsAreNotInAnyStretch) {
  std::vector<SegmentNumber> others;
  while (segments_.free_count() > 2) {
    if (others.size() % 2 == 0) {
      others.push_back(segments_.Take(Use::kIndex, 0).value());
    } else {
      others.push_back(Log(0));
    }
  }
  for (std::size_t i = 1; i < others.size(); i += 2) Empty(others[i]);
  segments_.Release(now_ += kRest);
  ASSERT_GT(segments_.free_count(), 10u);
  EXPECT_FALSE(segments_.MakeRun(4, now_));
}

TEST_F(RunsTest, ARunThatNobodyAsksForIsGivenUp) {
  std::vector<SegmentNumber> log;
  while (segments_.free_count() > 0) log.push_back(Log(kSegmentSize / 2));
  for (std::size_t i = 0; i < log.size(); i += 2) Empty(log[i]);
  segments_.Release(now_ += kRest);
  const std::size_t free = segments_.free_count();
  ASSERT_TRUE(segments_.MakeRun(4, now_));
  segments_.Release(now_ += Segments::kPatience);
  EXPECT_TRUE(segments_.is_making_run());
  segments_.Release(now_ += milliseconds(1));
  EXPECT_FALSE(segments_.is_making_run());
  EXPECT_EQ(segments_.free_count(), free);
}

}  // namespace
}  // namespace remora
