// Remembers for a while that callers have asked for something.
#pragma once

#include <atomic>
#include <chrono>

#include "store/base/clock.h"

namespace remora {

/// Tells whether a caller has asked within the last kFor.
///
/// Thread safety: any thread may call Ask, at any time. One thread at a time may call IsTrue.
class AskedLately {
 public:
  static constexpr std::chrono::seconds kFor{60};

  /// Cost: a load, as a rule.
  void Ask() {
    // Relaxed: it is a hint, and IsTrue sees it soon.
    if (!asked_.load(std::memory_order_relaxed)) asked_.store(true, std::memory_order_relaxed);
  }
  bool IsTrue(TimePoint now) {
    if (asked_.exchange(false, std::memory_order_relaxed)) {
      until_ = now + kFor;
      is_true_ = true;
    }
    is_true_ = is_true_ && now < until_;
    return is_true_;
  }

 private:
  std::atomic<bool> asked_ = false;
  bool is_true_ = false;
  TimePoint until_{};
};

}  // namespace remora
