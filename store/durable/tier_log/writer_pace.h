// The pauses of a writer whose log fills up (C10 of tier_log.h).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace remora {

/// Makes a writer sleep for each byte that it has written. Short pauses add up until a sleep is worth it.
///
/// Thread safety: one thread at a time may call SlowDown; any thread may call the others, at any time.
class WriterPace {
 public:
  /// Pauses for `bytes` that were written. `fill`: 0 or less asks for no pause, 1 or more for the longest.
  void SlowDown(double fill, std::uint64_t bytes);

  /// Returns the number of sleeps.
  std::uint64_t sleeps() const { return sleeps_.load(std::memory_order_relaxed); }
  /// Returns the time of all sleeps together.
  std::chrono::nanoseconds slept() const {
    return std::chrono::nanoseconds(slept_ns_.load(std::memory_order_relaxed));
  }

 private:
  double owed_ns_ = 0;
  std::atomic<std::uint64_t> sleeps_ = 0;
  std::atomic<std::int64_t> slept_ns_ = 0;
};

}  // namespace remora
