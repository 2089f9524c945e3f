// Chooses which of many short steps are timed, where a look at the clock would cost a share of the step.
#pragma once

#include <chrono>

#include "store/base/clock.h"

namespace remora {

/// Chooses all steps that begin kTimedEvery or more after the last one that it chose. The choice does not
/// depend on how long the step takes, so the times of the chosen ones stand for all.
///
/// Thread safety: none.
class TimingSample {
 public:
  static constexpr std::chrono::microseconds kTimedEvery{100};

  /// Returns whether to time the step that begins `now`.
  bool Takes(TimePoint now) {
    if (now < next_) return false;
    next_ = now + kTimedEvery;
    return true;
  }

 private:
  TimePoint next_;
};

}  // namespace remora
