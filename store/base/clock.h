// Time is handed in: nothing below tools/ reads a clock of its own, so that a test may own time.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <thread>

namespace remora {

/// Monotonic time. Deadlines everywhere are points of the Clock that their object was made with.
using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

/// Interface of a source of time.
///
/// Thread safety: const members may be called from many threads.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Returns the current time.
  virtual TimePoint Now() const = 0;
  /// Returns Now, or up to kCoarseness earlier: where a look at the time must cost next to nothing.
  virtual TimePoint Coarse() const { return Now(); }
  /// Returns the milliseconds since 1970 (UTC), rounded down. They go on as Now does.
  virtual std::int64_t UnixMillis() const = 0;
  /// Returns UnixMillis at `now`, which Now has just returned, so that one read of the clock is
  /// enough.
  virtual std::int64_t UnixMillisAt([[maybe_unused]] TimePoint now) const { return UnixMillis(); }
  /// Blocks the calling thread until this much time has passed.
  virtual void Sleep(Duration duration) const { std::this_thread::sleep_for(duration); }

  /// Returns whether the caller's call shall not wait any more: then it ends with Cancelled. A
  /// client asks when it begins to sleep, and again after each LongestSleep.
  virtual bool IsInterrupted() const { return false; }
  /// Returns the longest time to sleep before the next IsInterrupted.
  virtual Duration LongestSleep() const { return Duration::max(); }

  /// Bound of Now less Coarse.
  static constexpr std::chrono::milliseconds kCoarseness{20};
};

/// Message of the Cancelled with which a call ends for IsInterrupted.
inline constexpr const char* kInterrupted = "the call was interrupted while it waited";

/// The machine's monotonic clock: CLOCK_MONOTONIC (clock_gettime(2)).
class SteadyClock : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
  // The kernel advances it at each of its ticks, every 1 to 10 ms. steady_clock is the same clock, finer.
  TimePoint Coarse() const override {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return TimePoint(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
  }
  std::int64_t UnixMillis() const override { return UnixMillisAt(Now()); }
  // The system's clock at the first use in this process, and the time since: a system clock that is
  // set anew later moves nothing.
  std::int64_t UnixMillisAt(TimePoint now) const override {
    using std::chrono::duration_cast, std::chrono::nanoseconds;
    static const nanoseconds epoch =
        duration_cast<nanoseconds>(std::chrono::system_clock::now().time_since_epoch() -
                                   std::chrono::steady_clock::now().time_since_epoch());
    return std::chrono::floor<std::chrono::milliseconds>(now.time_since_epoch() + epoch).count();
  }
};

}  // namespace remora
