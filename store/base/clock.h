// Time is handed in: nothing below tools/ reads a clock of its own, so that a test may own time.
#pragma once

#include <chrono>

namespace remora {

/// Monotonic time. Deadlines everywhere are points of the Clock that their object was made with.
using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

/// Thread Safety: const members may be called from many threads.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;
};

/// The machine's monotonic clock.
class SteadyClock final : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
};

}  // namespace remora
