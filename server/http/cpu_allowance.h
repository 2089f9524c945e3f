// Bounds the CPU time of a thread that serves requests of anybody.
#pragma once

#include <algorithm>

#include "store/base/clock.h"

namespace remora {

/// Holds one thread to a share of a CPU: it says when the thread has to pause, and for how long.
///
/// Thread safety: none.
class CpuAllowance {
 public:
  /// Over any time t, a thread that pauses as it is told takes at most `burst` + t / `divisor` of CPU time.
  /// Beside that is what it takes between two calls of PauseFor. `used`: see there.
  CpuAllowance(int divisor, Duration burst, TimePoint now, Duration used)
      : divisor_(divisor), burst_(burst), at_(now), used_(used) {}

  /// Returns how long the thread has to pause now; zero: not at all. `used`: the CPU time that it has taken
  /// since it exists.
  Duration PauseFor(TimePoint now, Duration used) {
    debt_ = std::max(debt_ - (now - at_) / divisor_, Duration::zero()) + (used - used_);
    at_ = now;
    used_ = used;
    return std::max(debt_ - burst_, Duration::zero()) * divisor_;
  }

 private:
  const int divisor_;
  const Duration burst_;
  TimePoint at_;                      // of the last call
  Duration used_;                     // then
  Duration debt_ = Duration::zero();  // CPU time taken that its share has not made good
};

}  // namespace remora
