#include "store/region/free_segments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace remora {
namespace {

TEST(FreeSegmentsTest, StretchesThatMeetAreOne) {
  FreeSegments free;
  free.Add(10, 2);
  free.Add(13, 3);
  EXPECT_EQ(free.longest(), 3u);
  free.Add(12, 1);
  EXPECT_EQ(free.longest(), 6u);
  EXPECT_EQ(free.count(), 6u);
}

TEST(FreeSegmentsTest, OnesAreTakenFromTheShortestRunsFromTheShortestThatWillDo) {
  FreeSegments free;
  free.Add(10, 8);
  free.Add(30, 3);
  free.Add(50, 20);
  EXPECT_EQ(free.TakeOne(), 30u);
  EXPECT_EQ(free.TakeRun(5), 13u) << "the high end of the stretch of 8";
  EXPECT_EQ(free.TakeRun(9), 61u);
  EXPECT_EQ(free.TakeRun(12), std::nullopt);
  EXPECT_EQ(free.TakeRun(2), 31u);
  EXPECT_EQ(free.count(), 3u + 11u);
}

TEST(FreeSegmentsTest, ThereMayBeNone) {
  FreeSegments free;
  EXPECT_EQ(free.TakeOne(), std::nullopt);
  EXPECT_EQ(free.TakeRun(1), std::nullopt);
  EXPECT_EQ(free.longest(), 0u);
}

TEST(FreeSegmentsTest, AgreesWithAListOfFlags) {
  constexpr std::size_t kCount = 200;
  std::mt19937_64 random(1);
  FreeSegments free;
  std::vector<bool> flags(kCount, false);
  const auto longest = [&] {
    std::size_t most = 0;
    std::size_t run = 0;
    for (const bool flag : flags) most = std::max(most, run = flag ? run + 1 : 0);
    return most;
  };
  for (int round = 0; round < 20'000; ++round) {
    const std::size_t length = 1 + random() % 12;
    if (random() % 2 == 0) {
      const auto first = static_cast<SegmentNumber>(random() % (kCount - length));
      const auto begin = flags.begin() + first;
      if (std::count(begin, begin + static_cast<std::ptrdiff_t>(length), true) > 0) continue;
      free.Add(first, length);
      std::fill_n(begin, length, true);
    } else {
      const auto taken = random() % 2 == 0 ? free.TakeRun(length) : free.TakeOne();
      const bool one = taken.has_value() && free.count() + 1 == static_cast<std::size_t>(std::count(
                                                                    flags.begin(), flags.end(), true));
      if (!taken) {
        ASSERT_LT(longest(), length) << round;
        continue;
      }
      const auto begin = flags.begin() + *taken;
      const std::size_t size = one ? 1 : length;
      ASSERT_EQ(static_cast<std::size_t>(std::count(begin, begin + static_cast<std::ptrdiff_t>(size), true)),
                size)
          << round;
      std::fill_n(begin, size, false);
    }
    ASSERT_EQ(free.count(), static_cast<std::size_t>(std::count(flags.begin(), flags.end(), true))) << round;
    ASSERT_EQ(free.longest(), longest()) << round;
  }
}

}  // namespace
}  // namespace remora
