#include "store/region/segments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "store/memory_plan.h"

namespace remora {
namespace {

using Use = Segments::Use;
using std::chrono::seconds;

class SegmentsTest : public testing::Test {
 protected:
  static constexpr std::size_t kCount = 40;
  static constexpr seconds kRest{2};
  static constexpr std::chrono::nanoseconds kInstant{1};
  static constexpr std::uint64_t kShare = kSegmentSize / 32;  // live bytes that one list spans
  static constexpr std::uint64_t kWorthIt = kShare;

  const std::unique_ptr<AnonymousMemory> memory_ = std::move(*AnonymousMemory::Map(kCount * kSegmentSize));
  const std::span<std::byte> region_ = memory_->bytes();
  Segments segments_{region_, kRest};
  TimePoint now_{seconds(1000)};

  /// Returns a sealed segment with `used` bytes of records, of which `live` are live.
  SegmentNumber Log(std::uint64_t live, std::uint64_t used = kSegmentSize) {
    const SegmentNumber number = segments_.Take(Use::kLogHead, 0).value();
    const std::uint64_t begin = segments_[number].begin;
    segments_.AddLive(begin, used);
    segments_.Seal(number, begin + used, now_);
    segments_.Drop(begin, used - live);
    return number;
  }
  void DropAll(SegmentNumber number) { segments_.Drop(segments_[number].begin, segments_[number].live); }
  std::uint64_t ReuseEpoch() const {
    return reinterpret_cast<const Superblock*>(region_.data())->reuse_epoch;
  }
  std::byte Generation(SegmentNumber number) const {
    return region_[GenerationsOffset(region_.size()) + number];
  }
};

TEST_F(SegmentsTest, EachIsHandedOutOnceAndNoneThatHoldsTheDirectory) {
  std::set<SegmentNumber> taken;
  while (const auto number = segments_.Take(Use::kLogHead, 0)) {
    EXPECT_TRUE(taken.insert(*number).second) << *number;
    EXPECT_EQ(segments_[*number].begin, *number * kSegmentSize);
    EXPECT_EQ(Segments::EndOf(*number), (*number + 1) * kSegmentSize);
  }
  EXPECT_EQ(taken.size(), kCount - FirstSegment(region_.size()));
  EXPECT_EQ(*taken.begin(), FirstSegment(region_.size()));
  EXPECT_EQ(*taken.rbegin(), kCount - 1);
  EXPECT_EQ(segments_[0].use, Use::kNone);
}

TEST(SegmentsOfALargeRegionTest, ADirectoryOfSeveralSegmentsIsNotHandedOut) {
  constexpr std::size_t kLarge = std::size_t{300'000} * kSegmentSize;  // its directory takes 2.6 segments
  const auto memory = AnonymousMemory::Map(kLarge);
  ASSERT_TRUE(memory.ok()) << memory.status();
  Segments segments((*memory)->bytes(), seconds(1));
  EXPECT_EQ(segments.free_count(), 300'000u - 5);
  EXPECT_EQ(segments.Take(Use::kIndex, 0), SegmentNumber{5});
}

TEST_F(SegmentsTest, TheReservedSegmentIsNotTaken) {
  const std::size_t free = segments_.free_count();
  EXPECT_FALSE(segments_.Take(Use::kIndex, free).has_value());
  EXPECT_TRUE(segments_.Take(Use::kIndex, free - 1).has_value());
  EXPECT_FALSE(segments_.Take(Use::kIndex, free - 1).has_value());
  EXPECT_EQ(segments_.free_count(), free - 1);
}

TEST_F(SegmentsTest, ASegmentIsUsedAgainWhenItHasRestedAndNotBefore) {
  const std::size_t free = segments_.free_count();
  const SegmentNumber number = segments_.Take(Use::kLogHead, 0).value();
  EXPECT_EQ(segments_[number].use, Use::kLogHead);
  segments_.Seal(number, Segments::EndOf(number), now_);
  EXPECT_EQ(segments_[number].use, Use::kLog);
  EXPECT_FALSE(segments_.next_release().has_value());
  segments_.Retire(number, now_ += seconds(5));
  EXPECT_EQ(segments_[number].use, Use::kRetired);
  EXPECT_EQ(segments_.next_release(), now_ + kRest);
  segments_.Release(now_ + kRest - kInstant);
  EXPECT_EQ(segments_[number].use, Use::kRetired);
  EXPECT_EQ(segments_.free_count(), free - 1);
  segments_.Release(now_ + kRest);
  EXPECT_EQ(segments_[number].use, Use::kFree);
  EXPECT_EQ(segments_.free_count(), free);
  EXPECT_EQ(segments_.retired_count(), 0u);
}

TEST_F(SegmentsTest, EachRestsForItself) {
  const SegmentNumber first = Log(0);
  const SegmentNumber second = Log(0);
  segments_.Retire(second, now_);
  segments_.Retire(first, now_ + seconds(1));
  EXPECT_EQ(segments_.retired_count(), 2u);
  segments_.Release(now_ + kRest);
  EXPECT_EQ(segments_[second].use, Use::kFree);
  EXPECT_EQ(segments_[first].use, Use::kRetired);
  EXPECT_EQ(segments_.next_release(), now_ + seconds(1) + kRest);
}

TEST_F(SegmentsTest, NothingRestsWhileNobodyReads) {
  segments_.set_reuse_delay({});
  const SegmentNumber number = Log(0);
  segments_.Retire(number, now_);
  segments_.Release(now_);
  EXPECT_EQ(segments_[number].use, Use::kFree);
}

TEST_F(SegmentsTest, EmptyingChangesTheGenerationOfThisOneAlone) {
  const SegmentNumber other = Log(0);
  const SegmentNumber number = Log(0);
  for (int round = 1; round <= 300; ++round) {  // the generation is a byte, which wraps around
    const std::byte before = Generation(number);
    segments_.Retire(number, now_);
    ASSERT_NE(Generation(number), before) << round;
    segments_.Release(now_ += kRest);
    ASSERT_EQ(Log(0), number) << "the test means to use it again";
  }
  EXPECT_EQ(Generation(other), std::byte{0});
  EXPECT_EQ(Generation(number), std::byte{300 % 256});
}

TEST_F(SegmentsTest, ReadersAreToldBeforeMemoryIsUsedForSomethingElse) {
  const SegmentNumber first = Log(0);
  const SegmentNumber second = Log(0);
  EXPECT_EQ(ReuseEpoch(), 0u);
  segments_.Retire(first, now_);
  segments_.Retire(second, now_ + kInstant);
  segments_.Release(now_ + kRest - kInstant);
  EXPECT_EQ(ReuseEpoch(), 0u) << "who was led there may still read it";
  segments_.Release(now_ + kRest);
  const std::uint64_t told = ReuseEpoch();
  EXPECT_NE(told, 0u);
  EXPECT_EQ(Log(0), first) << "the test means to use it again";
  EXPECT_EQ(ReuseEpoch(), told);
  segments_.Release(now_ + kRest + kInstant);
  EXPECT_GT(ReuseEpoch(), told);
}

TEST_F(SegmentsTest, BytesAreCountedWhereTheyAre) {
  const SegmentNumber head = segments_.Take(Use::kLogHead, 0).value();
  segments_.AddLive(segments_[head].begin, 4096);
  segments_.AddLive(segments_[head].begin + 4096, 1024);
  EXPECT_EQ(segments_.live_bytes(), 5120u);
  EXPECT_EQ(segments_.log_bytes(), 0u) << "a head is not in the log yet";
  segments_.Seal(head, segments_[head].begin + 5120, now_);
  EXPECT_EQ(segments_.log_bytes(), 5120u);
  segments_.Drop(segments_[head].begin + 4096, 1024);
  EXPECT_EQ(segments_.live_bytes(), 4096u);
  EXPECT_EQ(segments_[head].live, 4096u);
  EXPECT_EQ(segments_[head].dead(), 1024u);
  DropAll(head);
  segments_.Retire(head, now_);
  EXPECT_EQ(segments_.live_bytes(), 0u);
  EXPECT_EQ(segments_.log_bytes(), 0u);
}

// --- Which to clean -------------------------------------------------------------------------------------

TEST_F(SegmentsTest, TheMapSaysTheUseOfEachAndTheShareThatIsDead) {
  const auto count = [this](Use use) {
    const std::vector<MappedSegment> map = segments_.Map();
    return static_cast<std::size_t>(
        std::ranges::count_if(map, [use](const MappedSegment& segment) { return segment.use == use; }));
  };
  const std::size_t first = FirstSegment(region_.size());
  EXPECT_EQ(segments_.Map().size(), kCount);
  EXPECT_EQ(count(Use::kNone), first);
  EXPECT_EQ(count(Use::kFree), kCount - first);
  const SegmentNumber index = segments_.Take(Use::kIndex, 0).value();
  EXPECT_EQ(segments_.Map()[index].use, Use::kIndex);
  const SegmentNumber half = Log(kSegmentSize / 2);
  EXPECT_EQ(segments_.Map()[half].use, Use::kLog);
  EXPECT_EQ(segments_.Map()[half].dead_32nds, 16);
  segments_.Drop(segments_[half].begin, kShare);
  EXPECT_EQ(segments_.Map()[half].dead_32nds, 17);
  DropAll(half);
  EXPECT_EQ(segments_.Map()[half].dead_32nds, 31);
  segments_.Retire(half, now_);
  EXPECT_EQ(segments_.Map()[half].use, Use::kRetired);
  EXPECT_EQ(segments_.Map()[half].dead_32nds, 0);
  segments_.StartGracePeriod(now_);
  segments_.Release(now_ + kRest);
  const std::uint64_t large = segments_.TakeLarge(2 * kSegmentSize + 1).value();
  EXPECT_EQ(count(Use::kRun), 3u);
  segments_.RetireLarge(large);
  EXPECT_EQ(count(Use::kRetired), 3u);
  EXPECT_EQ(count(Use::kFree), kCount - first - 4);
}

TEST_F(SegmentsTest, NothingIsWorthCleaningWhereNothingIsDead) {
  EXPECT_FALSE(segments_.Best(now_, kWorthIt).has_value());
  Log(kSegmentSize);
  Log(kSegmentSize * 3 / 4, kSegmentSize * 3 / 4);  // ends early; its unused end is not dead
  EXPECT_FALSE(segments_.Best(now_ + seconds(1000), kWorthIt).has_value());
}

TEST_F(SegmentsTest, AHeadIsNotCleaned) {
  const SegmentNumber head = segments_.Take(Use::kLogHead, 0).value();
  segments_.AddLive(segments_[head].begin, kSegmentSize);
  DropAll(head);
  EXPECT_FALSE(segments_.Best(now_ + seconds(1), kWorthIt).has_value());
}

TEST_F(SegmentsTest, TheEmptierOfTwoOfOneAgeIsBetter) {
  Log(kSegmentSize * 3 / 4);
  const SegmentNumber emptier = Log(kSegmentSize / 4);
  Log(kSegmentSize / 2);
  EXPECT_EQ(segments_.Best(now_ + seconds(10), kWorthIt), emptier);
}

TEST_F(SegmentsTest, TheOlderOfTwoThatAreAlikeIsBetter) {
  const SegmentNumber older = Log(kSegmentSize / 2);
  now_ += seconds(10);
  Log(kSegmentSize / 2);
  EXPECT_EQ(segments_.Best(now_ + seconds(10), kWorthIt), older);
}

TEST_F(SegmentsTest, AnOldSegmentIsWorthItBeforeAYoungOneThatIsEmptier) {
  const SegmentNumber old = Log(kSegmentSize * 3 / 4);
  now_ += seconds(100);
  const SegmentNumber young = Log(kSegmentSize / 4);
  EXPECT_EQ(segments_.Best(now_ + seconds(1), kWorthIt), old);
  EXPECT_EQ(segments_.Best(now_ + seconds(10'000), kWorthIt), young);
}

TEST_F(SegmentsTest, LaterDeadBytesCount) {
  const SegmentNumber number = Log(kSegmentSize);
  Log(kSegmentSize / 2);
  segments_.Drop(segments_[number].begin, kSegmentSize * 3 / 4);
  EXPECT_EQ(segments_.Best(now_ + seconds(1), kWorthIt), number);
}

// A segment may have as many live bytes and no dead ones,
// because it ended early. It must not hide another one.
TEST_F(SegmentsTest, AFullButShortSegmentDoesNotHideOneThatIsWorthIt) {
  const std::uint64_t live = kSegmentSize * 3 / 4;
  Log(live, live);
  const SegmentNumber worth_it = Log(live, kSegmentSize);
  EXPECT_EQ(segments_.Best(now_ + seconds(1), kWorthIt), worth_it);
}

TEST_F(SegmentsTest, AnEmptySegmentIsOfferedUntilItIsRetired) {
  const SegmentNumber number = Log(0);
  EXPECT_EQ(segments_.Best(now_ + seconds(1), kWorthIt), number);
  segments_.Retire(number, now_);
  EXPECT_FALSE(segments_.Best(now_ + seconds(1), kWorthIt).has_value());
}

/// Random segments whose records live and die, beside a plain set of these segments.
class RandomSegmentsTest : public SegmentsTest {
 protected:
  std::mt19937_64 random_{11};
  std::set<SegmentNumber> log_;

  SegmentNumber Any() {
    auto any = log_.begin();
    std::advance(any, random_() % log_.size());
    return *any;
  }
  double Score(SegmentNumber number) const {
    const Segments::Segment& segment = segments_[number];
    const double size = static_cast<double>(kSegmentSize);
    const double age = std::chrono::duration<double>(now_ - segment.sealed).count();
    return static_cast<double>(segment.dead()) / size * age / (1 + static_cast<double>(segment.live) / size);
  }
  void Change() {
    now_ += std::chrono::milliseconds(random_() % 500);
    segments_.Release(now_);
    const std::uint64_t what = random_() % 10;
    if (what == 0 && segments_.free_count() > 0) {
      log_.insert(Log(kSegmentSize));
    } else if (what > 0 && !log_.empty()) {
      const SegmentNumber number = Any();
      segments_.Drop(segments_[number].begin, random_() % (1 + std::min(segments_[number].live, 6 * kShare)));
      if (segments_[number].live < kShare / 8) DropAll(number);
    }
    for (auto number = log_.begin(); number != log_.end();) {
      if (segments_[*number].live != 0 || random_() % 2 == 0) {
        ++number;
        continue;
      }
      segments_.Retire(*number, now_);
      number = log_.erase(number);
    }
  }
};

TEST_F(RandomSegmentsTest, TheBestIsOneOfTheLogAndAboutAsGoodAsTheBestOfAll) {
  for (int round = 0; round < 100'000; ++round) {
    Change();
    const std::optional<SegmentNumber> best = segments_.Best(now_ + seconds(1), kWorthIt);
    // Each list has the segments of 1/32 of the range of live bytes, and its first one stands for all of
    // them. So the best of all lists is at least as good as the worst segment of any list.
    std::vector<double> least(33, std::numeric_limits<double>::infinity());
    for (const SegmentNumber number : log_) {
      if (segments_[number].dead() < 2 * kShare) continue;
      double& score = least[segments_[number].live / kShare];
      score = std::min(score, Score(number));
    }
    double wanted = 0;
    for (const double score : least) wanted = std::isinf(score) ? wanted : std::max(wanted, score);
    ASSERT_TRUE(best.has_value() || wanted == 0) << round;
    if (!best) continue;
    ASSERT_EQ(log_.count(*best), 1u) << round;
    ASSERT_GE(segments_[*best].dead(), kShare) << round;
    now_ += seconds(1);
    ASSERT_GE(Score(*best) * 1.01 + 0.01, wanted) << round;
    now_ -= seconds(1);
  }
}

TEST_F(RandomSegmentsTest, AllBytesStayAccountedFor) {
  for (int round = 0; round < 100'000; ++round) {
    Change();
    std::uint64_t live = 0;
    std::uint64_t used = 0;
    for (const SegmentNumber number : log_) {
      live += segments_[number].live;
      used += segments_[number].end - segments_[number].begin;
    }
    ASSERT_EQ(segments_.live_bytes(), live) << round;
    ASSERT_EQ(segments_.log_bytes(), used) << round;
    ASSERT_EQ(segments_.free_count() + segments_.retired_count() + log_.size(), kCount - 1) << round;
  }
}

// Best returns each segment that is worth cleaning once, until none is left.
TEST_F(RandomSegmentsTest, NoneIsLostFromTheLists) {
  for (int round = 0; round < 5'000; ++round) Change();
  std::size_t worth_it = 0;
  for (const SegmentNumber number : log_) worth_it += segments_[number].dead() >= kShare;
  ASSERT_GT(worth_it, 0u);
  now_ += seconds(1);
  while (const std::optional<SegmentNumber> best = segments_.Best(now_, kWorthIt)) {
    ASSERT_EQ(log_.erase(*best), 1u);
    DropAll(*best);
    segments_.Retire(*best, now_);
    ASSERT_GT(worth_it--, 0u);
  }
  EXPECT_EQ(worth_it, 0u);
}

}  // namespace
}  // namespace remora
