// The memory of large records, against a plain model of its bytes.
#include "store/region/large_space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace remora {
namespace {

constexpr std::size_t kSegments = 24;
constexpr std::uint64_t kPagesPerSegment = kSegmentSize / kPageSize;

enum class Page : std::uint8_t { kNotOwned = 0, kHole, kPlace, kRetired };

/// A space beside a table of all its pages. Time is counted in steps; retired memory is free after some.
class LargeSpaceTest : public testing::Test {
 protected:
  LargeSpace space_{kSegments};
  std::vector<Page> pages_ = std::vector<Page>(kSegments * kPagesPerSegment, Page::kNotOwned);
  std::map<std::uint64_t, std::uint64_t> places_;  // from the offset to the bytes
  std::vector<LargeSpace::Stretch> retired_;
  std::mt19937_64 random_{1};

  void Mark(std::uint64_t offset, std::uint64_t bytes, Page from, Page to) {
    for (std::uint64_t i = offset / kPageSize; i < (offset + bytes) / kPageSize; ++i) {
      ASSERT_EQ(pages_[i], from) << "page " << i;
      pages_[i] = to;
    }
  }
  void Own(SegmentNumber first, std::size_t length) {
    space_.Own({first, length});
    Mark(first * kSegmentSize, length * kSegmentSize, Page::kNotOwned, Page::kHole);
  }
  /// Owns segments for a place of so many pages, and no more. False: there are none.
  bool OwnFor(std::uint64_t pages) {
    const std::size_t length = (pages + kPagesPerSegment - 1) / kPagesPerSegment;
    for (SegmentNumber i = 0; i + length <= kSegments; ++i) {
      const auto begin = pages_.begin() + static_cast<std::ptrdiff_t>(i * kPagesPerSegment);
      const auto end = begin + static_cast<std::ptrdiff_t>(length * kPagesPerSegment);
      if (std::any_of(begin, end, [](Page page) { return page != Page::kNotOwned; })) continue;
      Own(i, length);
      return true;
    }
    return false;
  }
  std::optional<std::uint64_t> Take(std::uint64_t pages, SegmentRange avoid = {}) {
    const auto offset = space_.Take(pages * kPageSize - 5, avoid);
    if (!offset) return offset;
    Mark(*offset, pages * kPageSize, Page::kHole, Page::kPlace);
    space_.MakeLive(*offset);
    places_.emplace(*offset, pages * kPageSize);
    return offset;
  }
  void Retire(std::uint64_t offset) {
    space_.Retire(offset);
    Mark(offset, places_.at(offset), Page::kPlace, Page::kRetired);
    retired_.push_back({offset, places_.at(offset)});
    places_.erase(offset);
  }
  void FreeOne() {
    const LargeSpace::Stretch stretch = retired_.front();
    retired_.erase(retired_.begin());
    Mark(stretch.offset, stretch.bytes, Page::kRetired, Page::kHole);
    space_.Free(stretch.offset, stretch.bytes, [this](SegmentNumber number) {
      Mark(number * kSegmentSize, kSegmentSize, Page::kHole, Page::kNotOwned);
    });
  }
  /// All segments that are not owned are free ones.
  std::optional<std::uint64_t> BestJoin(std::uint64_t most_pages) const {
    FreeSegments free;
    for (SegmentNumber i = 0; i < kSegments; ++i) {
      if (pages_[i * kPagesPerSegment] == Page::kNotOwned) free.Add(i, 1);
    }
    return space_.BestJoin(most_pages * kPageSize, free.stretches());
  }
  /// The length of the longest row of holes, in pages.
  std::uint64_t LongestHole() const {
    return Longest([](Page page) { return page == Page::kHole; });
  }
  /// The length of the longest row of pages without a place, in holes and in segments that are not owned.
  std::uint64_t LongestWithoutPlace() const {
    return Longest([](Page page) { return page != Page::kPlace; });
  }
  std::uint64_t Longest(bool (*is_in)(Page)) const {
    std::uint64_t longest = 0;
    std::uint64_t length = 0;
    for (const Page page : pages_) {
      length = is_in(page) ? length + 1 : 0;
      longest = std::max(longest, length);
    }
    return longest;
  }
  void CheckCounts() const {
    std::uint64_t holes = 0;
    for (SegmentNumber i = 0; i < kSegments; ++i) {
      std::uint64_t used = 0;
      bool whole = true;
      for (std::uint64_t j = i * kPagesPerSegment; j < (i + 1) * kPagesPerSegment; ++j) {
        used += pages_[j] == Page::kPlace;
        holes += pages_[j] == Page::kHole;
        whole = whole && pages_[j] == Page::kHole;
      }
      ASSERT_EQ(space_.used(i), used * kPageSize);
      ASSERT_EQ(space_.AnyIn({i, 1}).has_value(), used > 0);
      ASSERT_FALSE(whole) << "segment " << i << " is not given up";
    }
    ASSERT_EQ(space_.hole_bytes(), holes * kPageSize);
    ASSERT_EQ(space_.count(), places_.size());
  }
};

TEST_F(LargeSpaceTest, AgreesWithATableOfItsPages) {
  for (int step = 0; step < 4000; ++step) {
    const std::uint64_t pages = 65 + random_() % 500;
    if (random_() % 2 == 0 || places_.empty()) {
      const bool there_is = LongestHole() >= pages;
      const auto offset = Take(pages);
      ASSERT_EQ(offset.has_value(), there_is);
      if (!offset && OwnFor(pages)) {
        ASSERT_TRUE(Take(pages).has_value());
      }
    } else if (random_() % 3 == 0 && !retired_.empty()) {
      FreeOne();
    } else {
      Retire(std::next(places_.begin(), static_cast<std::ptrdiff_t>(random_() % places_.size()))->first);
    }
    if (step % 16 == 0) {
      ASSERT_NO_FATAL_FAILURE(CheckCounts());
    }
  }
  while (!places_.empty()) Retire(places_.begin()->first);
  while (!retired_.empty()) FreeOne();
  CheckCounts();
  EXPECT_EQ(space_.owned_count(), 0u);
  EXPECT_EQ(space_.hole_bytes(), 0u);
}

TEST_F(LargeSpaceTest, ThePartOfAHoleOutsideTheSegmentsToAvoidIsTaken) {
  Own(0, 4);
  const std::uint64_t end = 4 * kPagesPerSegment;
  EXPECT_EQ(Take(300, {2, 1}), (2 * kPagesPerSegment - 300) * kPageSize) << "below";
  EXPECT_EQ(Take(220, {2, 1}), (end - 220) * kPageSize) << "above";
  EXPECT_EQ(Take(220, {2, 1}), std::nullopt);
  EXPECT_EQ(Take(220), (end - 440) * kPageSize) << "in the segments that were avoided";
}

TEST_F(LargeSpaceTest, APlaceThatIsNotLiveStaysWhereItIs) {
  Own(0, 1);
  Own(2, 1);
  const std::uint64_t reserved = space_.Take(100 * kPageSize, {0, 1}).value();
  EXPECT_FALSE(space_.CanEmpty({2, 1}));
  EXPECT_TRUE(space_.IsFixed(2));
  EXPECT_TRUE(space_.AnyFixed());
  EXPECT_EQ(space_.Easiest(kSegmentSize), std::nullopt);
  space_.MakeLive(reserved);
  EXPECT_TRUE(space_.CanEmpty({2, 1}));
  EXPECT_FALSE(space_.AnyFixed());
  EXPECT_EQ(space_.Easiest(kSegmentSize), 2u);
}

TEST_F(LargeSpaceTest, WithheldHolesAreTakenByNoRecord) {
  Own(0, 2);
  Take(100);
  const std::vector<LargeSpace::Stretch> withheld = space_.Withhold(1);
  ASSERT_EQ(withheld.size(), 1u);
  EXPECT_EQ(withheld[0].offset, kSegmentSize);
  EXPECT_EQ(withheld[0].bytes, (kPagesPerSegment - 100) * kPageSize);
  EXPECT_EQ(Take(300), std::nullopt);
  EXPECT_TRUE(Take(200).has_value()) << "in segment 0";
}

TEST_F(LargeSpaceTest, TheOldestIsTheOneThatWasNotRenewed) {
  Own(0, 2);
  const auto one = Take(100).value();
  const auto two = Take(100).value();
  EXPECT_EQ(space_.Oldest(), one);
  space_.Renew(one);
  EXPECT_EQ(space_.Oldest(), two);
}

TEST_F(LargeSpaceTest, AMoveThatJoinsHolesIsFound) {
  Own(0, 2);
  const auto high = Take(100).value();
  const auto between = Take(50).value();
  const auto low = Take(100).value();
  Take(200);
  EXPECT_EQ(BestJoin(kPagesPerSegment), std::nullopt) << "there is one hole";
  Retire(high);
  Retire(low);
  FreeOne();
  FreeOne();
  EXPECT_EQ(BestJoin(kPagesPerSegment), between);
  EXPECT_EQ(BestJoin(50), std::nullopt) << "it is too large";
  ASSERT_TRUE(Take(50).has_value()) << "it goes to the smallest hole";
  Retire(between);
  FreeOne();
  EXPECT_EQ(LongestHole(), 250u);
  EXPECT_EQ(BestJoin(kPagesPerSegment), std::nullopt);
}

TEST_F(LargeSpaceTest, MovesThatJoinHolesEnd) {
  Own(0, 20);
  while (const auto offset = Take(66 + random_() % 200)) {
    if (random_() % 3 == 0) Retire(*offset);
  }
  while (!retired_.empty()) FreeOne();
  const std::uint64_t before = LongestWithoutPlace();
  int moves = 0;
  for (; const auto place = BestJoin(kPagesPerSegment); ++moves) {
    ASSERT_LT(moves, 10'000);
    const std::uint64_t pages = places_.at(*place) / kPageSize;
    ASSERT_TRUE(Take(pages).has_value());
    Retire(*place);
    FreeOne();
  }
  EXPECT_GT(moves, 0);
  EXPECT_GT(LongestWithoutPlace(), before);
}

TEST_F(LargeSpaceTest, APlaceCanLeaveOnlyForAHoleThatHoldsIt) {
  Own(0, 1);
  Own(2, 1);
  const auto low = Take(150).value();
  const auto high = Take(100, {SegmentNumber(low / kSegmentSize), 1}).value();
  // 106 pages are free beside the first one, and 156 beside the second one.
  EXPECT_TRUE(space_.CanEmpty({SegmentNumber(low / kSegmentSize), 1}));
  EXPECT_TRUE(space_.CanEmpty({SegmentNumber(high / kSegmentSize), 1}));
  Take(10, {SegmentNumber(low / kSegmentSize), 1});
  EXPECT_FALSE(space_.CanEmpty({SegmentNumber(low / kSegmentSize), 1}));
  EXPECT_EQ(space_.Easiest(kSegmentSize), std::nullopt) << "110 pages do not fit beside 150";
}

}  // namespace
}  // namespace remora
