// The events that end a client's sleep.
#include "rdma/sleep.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <span>

namespace remora::rdma {
namespace {

/// Is interrupted at the look of a number, and counts them.
class CountingClock final : public SteadyClock {
 public:
  explicit CountingClock(int interrupted_at) : interrupted_at_(interrupted_at) {}
  bool IsInterrupted() const override { return ++looks_ == interrupted_at_; }
  Duration LongestSleep() const override { return std::chrono::milliseconds(1); }
  int looks() const { return looks_; }

 private:
  const int interrupted_at_;
  mutable int looks_ = 0;
};

class SleepTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pipe(ends_.data()), 0); }
  void TearDown() override {
    for (const int end : ends_) close(end);
  }
  absl::StatusOr<bool> Sleep(const Clock& clock, Duration patience) {
    fd_ = {ends_[0], POLLIN, 0};
    return SleepUntilReady(std::span(&fd_, 1), clock, clock.Now() + patience);
  }

  std::array<int, 2> ends_ = {-1, -1};
  pollfd fd_ = {};
};

TEST_F(SleepTest, EndsWithWhatCame) {
  ASSERT_EQ(write(ends_[1], "x", 1), 1);
  const auto in_time = Sleep(SteadyClock(), std::chrono::hours(1));
  EXPECT_TRUE(in_time.value_or(false)) << in_time.status();
  EXPECT_NE(fd_.revents, 0);
}

TEST_F(SleepTest, EndsWithItsDeadline) {
  EXPECT_FALSE(Sleep(SteadyClock(), std::chrono::milliseconds(5)).value_or(true));
  EXPECT_FALSE(Sleep(SteadyClock(), {}).value_or(true));
  EXPECT_EQ(fd_.revents, 0);
}

TEST_F(SleepTest, IsEndedByItsClock) {
  const CountingClock clock(5);
  absl::StatusOr<bool> slept = true;
  while (slept.value_or(false)) slept = Sleep(clock, std::chrono::hours(1));
  EXPECT_TRUE(absl::IsCancelled(slept.status())) << slept.status();
  EXPECT_EQ(clock.looks(), 5);
}

}  // namespace
}  // namespace remora::rdma
