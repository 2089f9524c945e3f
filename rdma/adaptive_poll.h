// How long to look for what is awaited before sleeping.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "absl/status/statusor.h"
#include "rdma/transport.h"
#include "store/base/clock.h"

namespace remora::rdma {

/// Whoever waits time and again has one of these, for it learns.
/// Thread Safety: none.
class Spinner {
 public:
  /// Looks, with pauses between, until `look` returns true. False: it is time to sleep.
  ///
  /// At first for some 20 to 50 us, which is the time that falling asleep and being woken costs anyway: so a
  /// wait is at most twice as dear as the better of the two. Then five times as long in all, which a list of
  /// writes may take; but where that was in vain, as for one that shares its processor with the server, or
  /// waits for a disk, the longer look is left out of the next 8 waits, and of twice as many each time that
  /// it is in vain again, up to 1024.
  template <typename Look>
  bool Spin(const Look& look) {
    if (LookTimes(kSpins, look)) return true;
    if (waits_to_rest_ > 0) {
      --waits_to_rest_;
      return false;
    }
    if (LookTimes(kMoreSpins, look)) {
      rest_ = kLeastRest;
      return true;
    }
    waits_to_rest_ = rest_;
    rest_ = std::min(2 * rest_, kMostRest);
    return false;
  }

 private:
  static constexpr int kSpins = 1000;
  static constexpr int kMoreSpins = 4000;
  static constexpr int kLeastRest = 8;
  static constexpr int kMostRest = 1024;

  template <typename Look>
  static bool LookTimes(int times, const Look& look) {
    for (int i = 0; i < times; ++i) {
      if (look()) return true;
      Pause();
    }
    return false;
  }

  /// As the processor wants it of who looks at the same word time and again.
  static void Pause();

  int waits_to_rest_ = 0;  // in which it does not look longer
  int rest_ = kLeastRest;  // after the next time that it was in vain
};

/// Polls `connection` until at least one completion comes: spins for a while, then sleeps.
/// DeadlineExceeded when none came in time. The clock is first read after the spinning.
absl::StatusOr<std::size_t> PollUntil(Connection& connection, std::span<Completion> out, TimePoint deadline,
                                      Spinner& spinner);

}  // namespace remora::rdma
