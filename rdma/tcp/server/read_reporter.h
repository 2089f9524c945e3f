// Number and bytes of the READs that a NIC thread answers, and its CPU time.
#pragma once

#include <functional>

#include "rdma/transport.h"
#include "store/base/clock.h"

namespace remora::rdma {

/// Counts the READs that a NIC thread answers, and tells the server of them (Listener::CountReads).
///
/// Thread safety: none; the NIC thread. SetCallback comes before the thread counts anything.
class ReadReporter {
 public:
  void SetCallback(std::function<void(const ServedReads&)> count) { count_ = std::move(count); }
  /// Returns the READs that are not reported yet. The NIC thread's links add to it.
  ServedReads& served() { return served_; }
  /// Reports them, if there are any. `now`: as of Clock::Coarse.
  void Report(TimePoint now);

 private:
  std::function<void(const ServedReads&)> count_;
  ServedReads served_;
  TimePoint cpu_time_read_at_{};
  Duration cpu_time_{};  // of the thread, at that time
};

}  // namespace remora::rdma
