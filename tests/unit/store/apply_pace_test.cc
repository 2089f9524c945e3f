// The pace of the applier, with times of its own. P1 and P2 are numbered in
// store/durable/tier_log/apply_pace.h.
#include "store/durable/tier_log/apply_pace.h"

#include <gtest/gtest.h>

namespace remora {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kLazyBytes = 1000;
constexpr milliseconds kShort{1};

TEST(ApplyPaceTest, WithoutACallerItIsLate) {  // P2
  ApplyPace pace(kLazyBytes);
  const TimePoint now{};
  EXPECT_FALSE(pace.IsDue(1, kShort, now));
  EXPECT_FALSE(pace.IsDue(kLazyBytes - 1, ApplyPace::kLongestLag - kShort, now));
  EXPECT_TRUE(pace.IsDue(kLazyBytes, kShort, now));
  EXPECT_TRUE(pace.IsDue(1, ApplyPace::kLongestLag, now));
  EXPECT_FALSE(pace.IsDue(0, ApplyPace::kLongestLag, now)) << "nothing to apply";
}

TEST(ApplyPaceTest, ACallerMakesItHurryForAWhile) {  // P1
  ApplyPace pace(kLazyBytes);
  TimePoint now{};
  pace.Ask();
  EXPECT_FALSE(pace.IsDue(0, kShort, now)) << "nothing to apply";
  EXPECT_TRUE(pace.IsDue(1, kShort, now));
  now += ApplyPace::kEagerFor - kShort;
  EXPECT_TRUE(pace.IsDue(1, kShort, now));
  pace.Ask();
  EXPECT_TRUE(pace.IsDue(1, kShort, now));
  now += ApplyPace::kEagerFor - kShort;
  EXPECT_TRUE(pace.IsDue(1, kShort, now)) << "the second call counts";
  now += kShort;
  EXPECT_FALSE(pace.IsDue(1, kShort, now));
  EXPECT_FALSE(pace.IsDue(1, kShort, now + milliseconds(5))) << "it stays late";
}

}  // namespace
}  // namespace remora
