#include "bench/kvbench/load/runner.h"

#include <utility>
#include <vector>

#include "bench/kvbench/load/target.h"
#include "store/base/status_macros.h"

namespace remora::bench {
namespace {

class ThreadsRunner final : public Runner {
 public:
  ThreadsRunner(const BenchOptions& options, const Clock& clock, Shared& shared, std::uint32_t first_worker,
                std::function<bool()> meet, std::unique_ptr<Target> target,
                std::vector<std::unique_ptr<Session>> sessions)
      : options_(options),
        clock_(clock),
        shared_(shared),
        target_(std::move(target)),
        sessions_(std::move(sessions)),
        team_{sessions_,          first_worker,    options.workload.threads * options.processes,
              options.server_pid, std::move(meet), &restarts_} {}

  absl::StatusOr<PhaseResult> Run(PhaseKind phase, const ProgressSink& progress) override {
    return RunPhase(phase, options_.workload, team_, shared_, clock_, progress);
  }

 private:
  const BenchOptions& options_;
  const Clock& clock_;
  Shared& shared_;
  const std::unique_ptr<Target> target_;
  const std::vector<std::unique_ptr<Session>> sessions_;
  RestartCheck restarts_;
  const Team team_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Runner>> OpenThreads(const BenchOptions& options, const Clock& clock,
                                                    Shared& shared, std::uint32_t first_worker,
                                                    std::function<bool()> meet) {
  REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Target> target, OpenTarget(options.target, clock));
  std::vector<std::unique_ptr<Session>> sessions;
  for (std::uint32_t i = 0; i < options.workload.threads; ++i) {
    REMORA_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, target->NewSession(options.workload.depth));
    sessions.push_back(std::move(session));
  }
  return std::make_unique<ThreadsRunner>(options, clock, shared, first_worker, std::move(meet),
                                         std::move(target), std::move(sessions));
}

}  // namespace remora::bench
