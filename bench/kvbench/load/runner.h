// Runners of phases: this process, or several that it forks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "bench/kvbench/load/driver.h"
#include "bench/kvbench/load/shared.h"
#include "bench/kvbench/options.h"
#include "store/base/clock.h"

namespace remora::bench {

/// Connected, and ready to run phases. Thread safety: none.
class Runner {
 public:
  virtual ~Runner() = default;

  /// Returns the work of all threads of all processes. Errors as RunPhase, and Unavailable: a process is
  /// gone. After an error, the runner is of no more use.
  virtual absl::StatusOr<PhaseResult> Run(PhaseKind phase, const ProgressSink& progress) = 0;
};

/// Threads of this process alone, which are the ones from `first_worker` on. Errors as OpenTarget, and as
/// Target::NewSession. All must outlive the runner; `meet` as Team::meet.
absl::StatusOr<std::unique_ptr<Runner>> OpenThreads(const BenchOptions& options, const Clock& clock,
                                                    Shared& shared, std::uint32_t first_worker = 0,
                                                    std::function<bool()> meet = {});

/// options.processes of them, forked before any of them has a client, which none could share. They end with
/// the runner, and with this process. Errors as OpenThreads in one of them; Unavailable: the system makes no
/// more processes.
absl::StatusOr<std::unique_ptr<Runner>> OpenProcesses(const BenchOptions& options, const Clock& clock,
                                                      Shared& shared);

}  // namespace remora::bench
