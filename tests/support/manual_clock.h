// A clock that moves when a test says so.
#pragma once

#include <atomic>
#include <chrono>

#include "store/base/clock.h"

namespace remora {

/// Thread Safety: all members may be called from many threads.
class ManualClock final : public Clock {
 public:
  TimePoint Now() const override { return TimePoint(std::chrono::seconds(1000)) + Duration(passed_.load()); }
  void Advance(Duration duration) { passed_ += duration.count(); }

 private:
  std::atomic<Duration::rep> passed_ = 0;
};

}  // namespace remora
