// Runs a workload: threads, clock, counting.
//
// Each thread is a closed loop: it begins its next operation when the last one has ended. The clock is read
// once per operation, at the boundary, so that a thread's latencies add up to its time. A closed loop asks
// less of a target that stalls, and so hides stalls from its own percentiles ("coordinated omission"). With a
// rate, operations are due at fixed moments instead, and each latency runs from the moment its operation was
// due.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "bench/kvbench/load/result.h"
#include "bench/kvbench/load/shared.h"
#include "bench/kvbench/load/target.h"
#include "bench/kvbench/load/workload.h"
#include "store/base/clock.h"

namespace remora::bench {

/// Called about once a second, with the phase's name, operations done by all, those that it will be (0:
/// unknown) and seconds gone; may be empty.
using ProgressSink =
    std::function<void(std::string_view phase, std::uint64_t done, std::uint64_t total, double seconds)>;

/// Notices between phases that the server was started anew: a run would then read records that are gone, or
/// that the server still loads.
class RestartCheck {
 public:
  /// Shows the server's incarnation (Session::Incarnation) at the start of a phase. FailedPrecondition: it is
  /// another one than at the start of the first phase.
  absl::Status Check(std::uint64_t incarnation);

 private:
  std::uint64_t first_ = 0;  // 0: not known
};

/// The threads of this process, among those of all.
struct Team {
  std::span<const std::unique_ptr<Session>> sessions;  // one thread for each
  std::uint32_t first_worker = 0;
  std::uint32_t workers = 1;  // of all processes
  /// A process whose CPU time is counted with the server's counters; 0: none.
  pid_t server_pid = 0;
  /// Returns when all processes have called it as often. False: one of them is gone. Called twice for each
  /// phase: when all is ready, and when the operations are done. Empty: there is one process.
  std::function<bool()> meet;
  /// The check of all phases; null: restarts are not noticed.
  RestartCheck* restarts = nullptr;
};

/// The CPU time that a process has taken, with the name that it has among the server's counters.
/// NotFound: there is no such process.
absl::StatusOr<CounterList::value_type> ProcessorTime(pid_t process);

/// Returns the operations of all threads; 0: none but time ends the phase.
std::uint64_t TotalOperations(PhaseKind phase, const Workload& workload);

/// Runs one phase:
///   kLoad    inserts each record once, each thread a range of them
///   kWarmUp  as kRun, for the time that the workload says; the result is not to be looked at, but for errors
///   kRun     operations as the workload's mix and distribution say
/// It ends early when an error shows that going on is pointless: anything but a missing key or a wrong value.
/// ResourceExhausted: the threads could not be started. FailedPrecondition: as RestartCheck, before the
/// phase.
absl::StatusOr<PhaseResult> RunPhase(PhaseKind phase, const Workload& workload, const Team& team,
                                     Shared& shared, const Clock& clock, const ProgressSink& progress);

}  // namespace remora::bench
