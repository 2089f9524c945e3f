// Large records and runs of segments: taken, given back, retired, and made.
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

  /// Takes memory for a live record that has a run to itself, and returns the run's first segment.
  SegmentNumber Run(std::size_t length) { return SegmentOf(Large(length * kSegmentSize)); }
  /// Takes memory for a live record, and returns its offset.
  std::uint64_t Large(std::uint64_t bytes) {
    const std::uint64_t offset = segments_.TakeLarge(bytes).value();
    segments_.AddLive(offset, bytes);
    segments_.MakeLargeLive(offset);
    return offset;
  }
  void RetireLarge(std::uint64_t offset) {
    segments_.Drop(offset, segments_.large().Find(offset)->extent);
    segments_.RetireLarge(offset);
    segments_.StartGracePeriod(now_);
  }
  static SegmentNumber SegmentOf(std::uint64_t offset) {
    return static_cast<SegmentNumber>(offset / kSegmentSize);
  }
  void Drop(SegmentNumber first) { segments_.Drop(segments_[first].begin, segments_[first].live); }
  void Retire(SegmentNumber first) { RetireLarge(segments_[first].begin); }
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
  std::byte Beginning(std::uint64_t offset) const { return region_[BeginningOffset(region_.size(), offset)]; }
};

TEST_F(RunsTest, ARunIsNextToEachOtherAndCountsAsUsed) {
  const std::size_t free = segments_.free_count();
  constexpr std::uint64_t kBytes = 5 * kSegmentSize - 8000;
  const std::uint64_t offset = segments_.TakeLarge(kBytes).value();
  segments_.AddLive(offset, kBytes);
  const SegmentNumber first = SegmentOf(offset);
  for (SegmentNumber i = first; i < first + 5; ++i) EXPECT_EQ(segments_[i].use, Use::kRun);
  EXPECT_EQ(offset + kBytes, Segments::EndOf(first + 4) - kPageSize + kBytes % kPageSize);
  EXPECT_EQ(segments_.free_count(), free - 5);
  EXPECT_EQ(segments_.retired_count(), 0u);
  EXPECT_EQ(segments_.log_bytes(), kBytes);
  EXPECT_EQ(segments_.live_bytes(), kBytes);
  segments_.Drop(offset, kBytes);
  segments_.ReleaseLarge(offset);
  EXPECT_EQ(segments_.free_count(), free);
  EXPECT_EQ(segments_.log_bytes(), 0u);
  EXPECT_EQ(Beginning(offset), std::byte{0}) << "nothing ever led there";
}

TEST_F(RunsTest, ItRestsAsOneAndTheByteOfItsBeginningChanges) {
  const std::size_t free = segments_.free_count();
  const SegmentNumber first = Run(5);
  Retire(first);
  EXPECT_EQ(segments_.retired_count(), 5u);
  for (SegmentNumber i = first; i < first + 5; ++i) EXPECT_EQ(segments_[i].use, Use::kRetired);
  EXPECT_EQ(Beginning(segments_[first].begin), std::byte{1});
  EXPECT_EQ(segments_.next_release(), now_ + kRest);
  segments_.Release(now_ + kRest - milliseconds(1));
  EXPECT_EQ(segments_.free_count(), free - 5);
  segments_.Release(now_ + kRest);
  EXPECT_EQ(segments_.free_count(), free);
  EXPECT_EQ(segments_.retired_count(), 0u);
}

// The grace period of retired memory begins only with StartGracePeriod, after the work that killed its
// record.
TEST_F(RunsTest, ItDoesNotRestBeforeItIsSaidSinceWhen) {
  const SegmentNumber first = Run(2);
  segments_.Drop(segments_[first].begin, 2 * kSegmentSize);
  segments_.RetireLarge(segments_[first].begin);
  segments_.Release(now_ + 100 * kRest);
  EXPECT_EQ(segments_[first].use, Use::kRetired);
  segments_.StartGracePeriod(now_);
  segments_.Release(now_ + kRest);
  EXPECT_EQ(segments_[first].use, Use::kFree);
}

// --- Records side by side -------------------------------------------------------------------------------

TEST_F(RunsTest, RecordsStandSideBySideAcrossSegments) {
  constexpr std::uint64_t kBytes = kSegmentSize + 10 * kPageSize;
  const std::size_t free = segments_.free_count();
  std::vector<std::uint64_t> offsets;
  for (std::size_t i = 1; i <= 30; ++i) {
    offsets.push_back(Large(kBytes));
    EXPECT_EQ(free - segments_.free_count(), (i * kBytes + kSegmentSize - 1) / kSegmentSize);
  }
  for (std::size_t i = 1; i < offsets.size(); ++i) EXPECT_EQ(offsets[i] + kBytes, offsets[i - 1]);
  for (const std::uint64_t offset : offsets) RetireLarge(offset);
  segments_.Release(now_ + kRest);
  EXPECT_EQ(segments_.free_count(), free);
}

TEST_F(RunsTest, AReplacedRecordLeavesAHoleForTheNextOne) {
  constexpr std::uint64_t kBytes = 70 * kPageSize;
  std::vector<std::uint64_t> offsets;
  while (segments_.free_count() > 3) offsets.push_back(Large(kBytes));
  const std::size_t free = segments_.free_count();
  for (std::size_t i = 0; i < 200; ++i) {
    std::uint64_t& offset = offsets[i * 7 % offsets.size()];
    const std::byte before = Beginning(offset);
    RetireLarge(offset);
    EXPECT_NE(Beginning(offset), before);
    const std::uint64_t there = offset;
    segments_.Release(now_ += kRest);
    offset = Large(kBytes);
    EXPECT_EQ(offset, there) << "the best hole is the one of its size";
    ASSERT_EQ(segments_.free_count(), free);
  }
}

TEST_F(RunsTest, TheMemoryOfARetiredRecordIsNotTakenBeforeItHasRested) {
  const std::uint64_t one = Large(100 * kPageSize);
  const std::uint64_t two = Large(100 * kPageSize);
  RetireLarge(one);
  segments_.Release(now_ + kRest - milliseconds(1));
  const std::uint64_t three = Large(100 * kPageSize);
  EXPECT_NE(three, one);
  EXPECT_NE(three, two);
  segments_.Release(now_ + kRest);
  EXPECT_EQ(Large(100 * kPageSize), one);
}

TEST_F(RunsTest, AReaderInPlaceIsToldBeforeMemoryOfALargeRecordIsUsedAgain) {
  const auto epoch = [this] { return reinterpret_cast<const Superblock*>(region_.data())->reuse_epoch; };
  const std::uint64_t one = Large(100 * kPageSize);
  Large(100 * kPageSize);
  RetireLarge(one);
  const std::uint64_t before = epoch();
  segments_.Release(now_ + kRest);
  EXPECT_GT(epoch(), before);
}

// Five free segments and the end of a hole hold the record, which is longer than five.
TEST_F(RunsTest, MemoryThatCanBeJoinedIsFound) {
  constexpr std::uint64_t kBytes = 5 * kSegmentSize + 8 * kPageSize;
  const std::uint64_t first = Large(kBytes);
  while (segments_.HasRun(6)) Large(kBytes);
  while (segments_.free_count() > 2) Log(kSegmentSize);
  EXPECT_FALSE(segments_.HasLarge(kBytes));
  RetireLarge(first);
  segments_.Release(now_ += kRest);
  ASSERT_FALSE(segments_.HasRun(6));
  EXPECT_TRUE(segments_.HasLarge(kBytes));
  EXPECT_EQ(segments_.TakeLarge(kBytes), first);
}

// Segments of large records, each with one record and holes.
class SparseTest : public RunsTest {
 protected:
  void SetUp() override {
    while (segments_.free_count() > 3) offsets_.push_back(Large(kBytes));
    std::vector<std::uint64_t> kept;
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      if (i % 4 == 0) {
        kept.push_back(offsets_[i]);
      } else {
        RetireLarge(offsets_[i]);
      }
    }
    offsets_ = kept;
    segments_.Release(now_ += kRest);
  }
  /// Moves a record to a hole, as the cleaner does.
  void Move(std::uint64_t offset) {
    const std::uint64_t to = segments_.TakeLarge(kBytes, Segments::Growth::kNone).value();
    segments_.AddLive(to, kBytes);
    segments_.MakeLargeLive(to);
    RetireLarge(offset);
  }

  static constexpr std::uint64_t kBytes = 64 * kPageSize + kSegmentSize / 4;
  std::vector<std::uint64_t> offsets_;
};

TEST_F(SparseTest, ASegmentIsEmptiedIntoHolesOfOthers) {
  const std::size_t free = segments_.free_count();
  const SegmentNumber segment = segments_.BeginToEmptyLarge().value();
  EXPECT_GT(segments_.large().used(segment), 0u);
  int moved = 0;
  for (; const auto large = segments_.large().AnyIn({segment, 1}); ++moved) Move(*large);
  EXPECT_EQ(moved, 1) << "it does not go to a hole in the same segment";
  EXPECT_EQ(segments_[segment].use, Use::kRetired);
  // Until it is free, its holes are for no other record.
  while (const auto taken = segments_.TakeLarge(kBytes, Segments::Growth::kNone)) {
    EXPECT_TRUE(*taken >= Segments::EndOf(segment) || *taken + kBytes <= segments_[segment].begin);
  }
  segments_.Release(now_ + kRest);
  EXPECT_EQ(segments_[segment].use, Use::kFree);
  EXPECT_GT(segments_.free_count(), free);
}

TEST_F(SparseTest, ARunIsMadeOfSegmentsWithLargeRecords) {
  ASSERT_FALSE(segments_.HasRun(6));
  ASSERT_TRUE(segments_.MakeRun(6, now_));
  EXPECT_TRUE(segments_.IsRunInUse());
  while (const auto large = segments_.LargeInWay()) Move(*large);
  EXPECT_FALSE(segments_.IsRunInUse());
  segments_.Release(now_ + kRest);
  EXPECT_TRUE(segments_.HasRun(6));
  EXPECT_TRUE(segments_.TakeLarge(6 * kSegmentSize).has_value());
}

TEST_F(SparseTest, ARecordThatIsNotLiveStaysWhereItIs) {
  std::vector<std::uint64_t> reserved;
  while (const auto taken = segments_.TakeLarge(kBytes, Segments::Growth::kNone)) reserved.push_back(*taken);
  for (const std::uint64_t offset : offsets_) RetireLarge(offset);
  segments_.Release(now_ += kRest);
  EXPECT_EQ(segments_.BeginToEmptyLarge(), std::nullopt);
  EXPECT_FALSE(segments_.MakeRun(kCount / 2, now_));
}

// --- Making a run ---------------------------------------------------------------------------------------

TEST_F(RunsTest, SomethingIsLeftForTheCleanerAndTheIndex) {
  const std::size_t free = segments_.free_count();
  EXPECT_FALSE(segments_.TakeLarge((free - 1) * kSegmentSize).has_value());
  EXPECT_TRUE(segments_.TakeLarge((free - 2) * kSegmentSize).has_value());
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
  EXPECT_EQ(segments_.TakeLarge(4 * kSegmentSize), segments_[log[18]].begin);
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
  // A thread that sleeps until then does it.
  ASSERT_LE(segments_.next_release(), now_ + milliseconds(1));
  segments_.Release(segments_.next_release().value());
  EXPECT_FALSE(segments_.is_making_run());
  EXPECT_EQ(segments_.free_count(), free);
  EXPECT_EQ(segments_.next_release(), std::nullopt);
}

// In the stretch with the least in it is the end of a large record, for which there is no hole.
TEST_F(RunsTest, AnotherStretchIsEmptiedIfTheEasiestCannotBe) {
  const SegmentNumber large = Run(3);
  std::vector<SegmentNumber> log;
  while (segments_.free_count() > 4) log.push_back(Log(kSegmentSize));
  segments_.Take(Use::kIndex, 0);
  ASSERT_EQ(segments_.free_count(), 3u);
  for (const std::size_t i : {8u, 11u, 18u, 22u, 26u}) Empty(log[i]);
  segments_.Release(now_ += kRest);
  for (const std::size_t i : {9u, 10u}) segments_.Drop(segments_[log[i]].begin, kSegmentSize / 4);
  ASSERT_FALSE(segments_.HasRun(4));
  ASSERT_EQ(segments_[large - 1].use, Use::kFree);
  ASSERT_TRUE(segments_.MakeRun(4, now_));
  EXPECT_EQ(segments_.LargeInWay(), std::nullopt);
  EXPECT_EQ(segments_.Best(now_, kSegmentSize), log[9]);
}

}  // namespace
}  // namespace remora
