// Decides when the thread of the applier makes a step.
//
// A late step is a cheap one: it writes one version of each key, and keys that are written often have many.
// But an eviction or a scan may need what is not applied, and then waits for it.
//
//   P1  If a caller has asked within the last kEagerFor, a step is due as soon as anything is not applied.
//   P2  Otherwise one is due when `lazy_bytes` of the log are not applied, or a group was not for
//   kLongestLag.
#pragma once

#include <chrono>
#include <cstdint>

#include "store/base/clock.h"
#include "store/durable/tier_log/asked_lately.h"

namespace remora {

/// Decides whether the applier makes a step now.
///
/// Thread safety: any thread may call Ask, at any time. One thread at a time may call IsDue.
class ApplyPace {
 public:
  static constexpr std::chrono::seconds kEagerFor = AskedLately::kFor;
  static constexpr std::chrono::seconds kLongestLag{1};

  explicit ApplyPace(std::uint64_t lazy_bytes) : lazy_bytes_(lazy_bytes) {}

  /// Says that a caller depends on what is applied. Cost: a load, as a rule.
  void Ask() { asked_.Ask(); }
  /// Returns whether a step is due. `backlog`: bytes that are not applied. `lag`: bound on the time for which
  /// one of them is not.
  bool IsDue(std::uint64_t backlog, std::chrono::nanoseconds lag, TimePoint now) {
    const bool is_eager = asked_.IsTrue(now);
    if (backlog == 0) return false;
    return is_eager || backlog >= lazy_bytes_ || lag >= kLongestLag;
  }

 private:
  const std::uint64_t lazy_bytes_;
  AskedLately asked_;
};

}  // namespace remora
