// Time is handed in: nothing below tools/ reads a clock of its own, so that a test may own time.
#pragma once

#include <chrono>
#include <ctime>

namespace remora {

/// Monotonic time. Deadlines everywhere are points of the Clock that their object was made with.
using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

/// Thread Safety: const members may be called from many threads.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;
  /// Now, or up to kCoarseness earlier: where a look at the time must cost next to nothing.
  virtual TimePoint Coarse() const { return Now(); }

  static constexpr std::chrono::milliseconds kCoarseness{20};
};

/// The machine's monotonic clock.
class SteadyClock final : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
  // The kernel advances it at each of its ticks, every 1 to 10 ms. steady_clock is the same clock, finer.
  TimePoint Coarse() const override {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return TimePoint(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
  }
};

}  // namespace remora
