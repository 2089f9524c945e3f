#include "bench/kvbench/load/driver.h"

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <condition_variable>
#include <latch>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "bench/kvbench/load/interruption.h"
#include "bench/kvbench/load/worker.h"
#include "store/base/mutex.h"
#include "store/base/start_thread.h"
#include "store/base/status_macros.h"

namespace remora::bench {
namespace {

using Sessions = std::span<const std::unique_ptr<Session>>;

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);  // cannot fail with these arguments
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// Returns the work of all sessions so far.
ClientCounters SumOf(Sessions sessions) {
  ClientCounters sum;
  for (const auto& session : sessions) sum += session->OwnCounters();
  return sum;
}

// Lets the threads go when all of them are ready, and waits for the last.
class Race {
 public:
  explicit Race(std::vector<std::unique_ptr<Worker>>& workers)
      : workers_(workers), ready_(static_cast<std::ptrdiff_t>(workers.size())), start_(1) {}

  /// ResourceExhausted: there are not as many threads; those that there are have ended, and did nothing.
  absl::Status MakeReady() {
    for (auto& worker : workers_) {
      auto thread = StartThread([&] { return std::thread([this, &worker] { RunOne(*worker); }); });
      if (!thread.ok()) {
        abandoned_ = true;
        Start();
        for (std::thread& started : threads_) started.join();
        return std::move(thread).status();
      }
      threads_.push_back(*std::move(thread));
    }
    ready_.wait();
    return absl::OkStatus();
  }

  void Start() { start_.count_down(); }

  void Finish(const std::function<void()>& each_second) {
    MutexLock lock(mutex_);
    for (;;) {
      const TimePoint until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
      while (finished_ < workers_.size() && lock.WaitUntil(one_finished_, until)) {
      }
      if (finished_ == workers_.size()) break;
      each_second();
    }
    lock.Unlock();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void RunOne(Worker& worker) {
    BlockSignals();
    worker.Prepare();
    ready_.count_down();
    start_.wait();
    if (abandoned_) return;
    worker.Run();
    const MutexLock lock(mutex_);
    ++finished_;
    one_finished_.notify_one();
  }

  std::vector<std::unique_ptr<Worker>>& workers_;
  std::latch ready_;
  std::latch start_;
  bool abandoned_ = false;  // written before start_ counts down
  Mutex mutex_;
  std::condition_variable one_finished_;
  std::size_t finished_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_;
};

void Gather(const Worker& worker, PhaseResult& result) {
  for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
    result.operations[kind] += worker.operations()[kind];
    result.bytes[kind] += worker.bytes()[kind];
    result.latency[kind].Merge(worker.latency()[kind]);
  }
  MergeSeries(worker.series(), &result.series);
  result.errors.Merge(worker.errors());
}

// Part `index` of `count` parts of [0, total): where it begins. Parts differ by one at most.
std::uint64_t PartBegin(std::uint64_t total, std::uint64_t index, std::uint64_t count) {
  return total / count * index + std::min(total % count, index);
}

Share ShareOf(PhaseKind phase, const Workload& workload, std::uint32_t worker, std::uint32_t workers) {
  const std::uint64_t total = TotalOperations(phase, workload);
  const std::uint64_t first = PartBegin(total, worker, workers);
  const std::uint64_t operations = total == 0 ? kUnlimited : PartBegin(total, worker + 1, workers) - first;
  const double seconds = phase == PhaseKind::kLoad     ? 0
                         : phase == PhaseKind::kWarmUp ? workload.warm_up_seconds
                                                       : workload.max_seconds;
  return {phase, worker, workers, workload.first_record + first, operations, seconds};
}

std::map<std::string, std::uint64_t> Growth(const absl::StatusOr<CounterList>& before,
                                            const absl::StatusOr<CounterList>& after) {
  std::map<std::string, std::uint64_t> growth;
  if (!before.ok() || !after.ok()) return growth;
  for (std::size_t i = 0; i < after->size(); ++i) {
    growth[(*after)[i].first] = (*after)[i].second - (*before)[i].second;
  }
  return growth;
}

}  // namespace

absl::StatusOr<CounterList::value_type> ProcessorTime(pid_t process) {
  clockid_t clock;
  timespec time;
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) {
    return absl::NotFoundError(absl::StrCat("CPU time: there is no process ", process));
  }
  return CounterList::value_type("processor_ns", static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
                                                     static_cast<std::uint64_t>(time.tv_nsec));
}

absl::Status RestartCheck::Check(std::uint64_t incarnation) {
  if (first_ == 0) first_ = incarnation;
  if (incarnation == 0 || incarnation == first_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "run: the server was started anew since the load began, and may have lost records; load them again");
}

std::uint64_t TotalOperations(PhaseKind phase, const Workload& workload) {
  if (phase == PhaseKind::kLoad) return workload.inserted();
  return phase == PhaseKind::kWarmUp ? 0 : workload.operations;
}

absl::StatusOr<PhaseResult> RunPhase(PhaseKind phase, const Workload& workload, const Team& team,
                                     Shared& shared, const Clock& clock, const ProgressSink& progress) {
  PhaseResult result;
  result.name = kPhaseNames[static_cast<std::size_t>(phase)];
  if (phase == PhaseKind::kRun) result.interval_seconds = workload.interval_seconds;
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::uint32_t i = 0; i < team.sessions.size(); ++i) {
    workers.push_back(std::make_unique<Worker>(workload,
                                               ShareOf(phase, workload, team.first_worker + i, team.workers),
                                               *team.sessions[i], clock, shared));
  }
  // One process asks for all.
  const auto server_counters = [&team]() -> absl::StatusOr<CounterList> {
    if (team.first_worker != 0) return CounterList();
    REMORA_ASSIGN_OR_RETURN(CounterList counters, team.sessions.front()->ServerCounters());
    if (team.server_pid != 0) {
      REMORA_ASSIGN_OR_RETURN(auto time, ProcessorTime(team.server_pid));
      counters.push_back(std::move(time));
    }
    return counters;
  };
  const absl::StatusOr<CounterList> server_before = server_counters();
  if (team.first_worker == 0 && team.restarts != nullptr) {
    REMORA_RETURN_IF_ERROR(team.restarts->Check(team.sessions.front()->Incarnation()));
  }
  const ClientCounters client_before = SumOf(team.sessions);

  Race race(workers);
  REMORA_RETURN_IF_ERROR(race.MakeReady());
  // A process that is gone has failed, and the processes that wait for it learn so.
  if (team.meet && !team.meet()) shared.stop().store(true);
  const double cpu_before = CpuSeconds();
  const TimePoint started = clock.Now();
  race.Start();
  race.Finish([&] {
    if (!progress) return;
    progress(result.name, shared.done(), TotalOperations(phase, workload), Seconds(clock.Now() - started));
  });
  result.cpu_seconds = CpuSeconds() - cpu_before;
  if (team.meet) team.meet();

  TimePoint begin = TimePoint::max();
  TimePoint end = TimePoint::min();
  for (const auto& worker : workers) {
    begin = std::min(begin, worker->begin());
    end = std::max(end, worker->end());
    Gather(*worker, result);
  }
  result.seconds = Seconds(end - begin);
  result.client = SumOf(team.sessions) - client_before;
  result.server = Growth(server_before, server_counters());
  return result;
}

}  // namespace remora::bench
