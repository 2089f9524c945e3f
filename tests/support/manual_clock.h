// A clock that moves when a test says so.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "store/base/clock.h"

namespace remora {

/// A clock that moves only by Advance and StepUnix.
///
/// Thread safety: all members may be called from many threads.
class ManualClock : public Clock {
 public:
  TimePoint Now() const override { return TimePoint(std::chrono::seconds(1000)) + Duration(passed_.load()); }
  std::int64_t UnixMillis() const override {
    return std::chrono::floor<std::chrono::milliseconds>(Duration(passed_.load())).count() + epoch_ms_;
  }
  void Advance(Duration duration) { passed_ += duration.count(); }
  /// Moves UnixMillis, and nothing else.
  void StepUnix(std::chrono::milliseconds by) { epoch_ms_ += by.count(); }

 private:
  std::atomic<Duration::rep> passed_ = 0;
  std::atomic<std::int64_t> epoch_ms_ = 1'600'000'000'000;
};

}  // namespace remora
