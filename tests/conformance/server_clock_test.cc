// Conclusions of a client about its server's clock.
#include "client/session/server_clock.h"

#include <gtest/gtest.h>

#include <chrono>

namespace remora {
namespace {

using std::chrono::hours, std::chrono::microseconds, std::chrono::milliseconds, std::chrono::seconds;
using Life = ServerTime::Life;

constexpr TimePoint kSent{hours(1)};
constexpr TimePoint kReceived = kSent + milliseconds(10);
constexpr std::int64_t kServer = 1'000'000;

ServerTime Learned() {
  ServerTime time;
  time.Learn(kServer, kSent, kReceived);
  return time;
}

TEST(ServerTimeTest, IsKnownToARoundTrip) {
  const ServerTime time = Learned();
  EXPECT_EQ(time.Earliest(kReceived), kServer - 1) << "rounded down";
  EXPECT_EQ(time.Latest(kReceived), kServer + 11) << "10 ms and 10 us, rounded up";
}

TEST(ServerTimeTest, BoundsDriftApart) {
  const ServerTime time = Learned();
  EXPECT_EQ(time.Earliest(kReceived + seconds(10)), kServer + 10'000 - 10 - 1);
  EXPECT_EQ(time.Latest(kSent + seconds(10)), kServer + 10'000 + 10 + 1);
  EXPECT_LE(time.Earliest(kReceived - seconds(10)), kServer - 10'000 - 10) << "before it was learned, too";
}

// The bounds hold for any moment of the answer, any rounding and any drift.
TEST(ServerTimeTest, BoundsHoldForEveryClockThatKeepsToTheDrift) {
  for (const std::int64_t ppm : {-1000, -137, 0, 1, 999, 1000}) {
    for (const auto answered : {microseconds(0), microseconds(1), microseconds(5001), microseconds(10'000)}) {
      for (const auto fraction : {microseconds(0), microseconds(1), microseconds(999)}) {
        // The server's clock, in microseconds, at a moment of ours.
        const auto server_us = [&](TimePoint at) {
          const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(at - kSent - answered);
          return kServer * 1000 + fraction.count() + (since + since * ppm / 1'000'000).count() / 1000;
        };
        const ServerTime time = Learned();
        for (const auto later : {milliseconds(0), milliseconds(1), milliseconds(333), milliseconds(59'990)}) {
          const std::int64_t server_ms = server_us(kReceived + later) / 1000;
          ASSERT_LE(time.Earliest(kReceived + later), server_ms);
          ASSERT_GE(time.Latest(kReceived + later), server_ms);
        }
      }
    }
  }
}

TEST(ServerTimeTest, ARecordIsJudgedOnlyWhenItIsSure) {
  const ServerTime time = Learned();
  const TimePoint begin = kReceived + seconds(1);
  const TimePoint now = begin + milliseconds(5);
  const std::int64_t least = time.Earliest(begin);
  const std::int64_t most = time.Latest(now);
  EXPECT_EQ(time.Of(static_cast<std::uint64_t>(least), begin, now), Life::kOver);
  EXPECT_EQ(time.Of(static_cast<std::uint64_t>(least + 1), begin, now), Life::kAskServer);
  EXPECT_EQ(time.Of(static_cast<std::uint64_t>(most), begin, now), Life::kAskServer);
  EXPECT_EQ(time.Of(static_cast<std::uint64_t>(most + 1), begin, now), Life::kAlive);
}

TEST(ServerTimeTest, OldKnowledgeIsNone) {
  const ServerTime time = Learned();
  const std::uint64_t far = kServer + 1'000'000'000;
  TimePoint now = kReceived + ServerTime::kMaxAge;
  EXPECT_EQ(time.Of(far, now, now), Life::kAlive);
  now += milliseconds(1);
  EXPECT_EQ(time.Of(far, now, now), Life::kAskServer);
  EXPECT_EQ(time.Of(1, now, now), Life::kAskServer);
}

}  // namespace
}  // namespace remora
