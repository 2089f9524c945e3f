// The deadline of a call that waits.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "store/base/clock.h"

namespace remora {

/// The deadline of a call. It runs from the first time that the call has to wait, so that a call that does
/// not wait reads no clock.
///
/// Thread safety: none. The clock outlives it.
class CallDeadline {
 public:
  CallDeadline(const Clock& clock, std::chrono::milliseconds timeout) : clock_(clock), timeout_(timeout) {}

  /// Returns the deadline, which starts to run now if it has not yet.
  TimePoint Get() {
    if (!end_.has_value()) end_ = clock_.Now() + timeout_;
    return *end_;
  }
  /// Begins the deadline of a new call, or again that of a call that has made progress.
  void Restart() { end_.reset(); }
  std::chrono::milliseconds timeout() const { return timeout_; }

  /// Scope of a part of a call that must end earlier.
  class Limit {
   public:
    Limit(CallDeadline& deadline, TimePoint latest) : deadline_(deadline), end_(deadline.Get()) {
      deadline_.end_ = std::min(end_, latest);
    }
    ~Limit() { deadline_.end_ = end_; }
    Limit(const Limit&) = delete;
    Limit& operator=(const Limit&) = delete;

   private:
    CallDeadline& deadline_;
    const TimePoint end_;  // of the whole call
  };

 private:
  const Clock& clock_;
  const std::chrono::milliseconds timeout_;
  std::optional<TimePoint> end_;
};

}  // namespace remora
