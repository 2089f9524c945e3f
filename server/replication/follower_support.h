// The time until which a follower may still count as one of its primary's (Q4 and Q5 of
// store/format/memory/lease_line.h): pure arithmetic.
#pragma once

#include <chrono>

#include "store/base/clock.h"

namespace remora {

/// A follower's last answer, and when it may serve.
///
/// Thread safety: none.
class FollowerSupport {
 public:
  /// A follower that starts now, with this lease time.
  FollowerSupport(std::chrono::milliseconds lease, TimePoint now) : lease_(lease), last_(now) {}

  /// Notes that the follower answers a round, or begins to follow, at `now` or later.
  void NoteAnswer(TimePoint now);
  /// Returns when it may become a primary, if it answers nobody until then (Q5).
  TimePoint ends_at() const { return last_ + lease_; }
  std::chrono::milliseconds lease_time() const { return lease_; }

 private:
  const std::chrono::milliseconds lease_;
  TimePoint last_;
};

}  // namespace remora
