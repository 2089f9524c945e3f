#include "bench/driver.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <latch>
#include <mutex>
#include <numeric>
#include <thread>

#include "bench/worker.h"

namespace remora::bench {
namespace {

using CounterList = std::vector<std::pair<std::string, std::uint64_t>>;
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

// What the sessions did in all so far.
ClientCounters SumOf(Sessions sessions) {
  ClientCounters sum;
  for (const auto& session : sessions) sum += session->OwnCounters();
  return sum;
}

// Lets the threads go when all of them are ready, and waits for the last.
class Race {
 public:
  explicit Race(std::vector<std::unique_ptr<Worker>>& workers)
      : workers_(workers), start_(static_cast<std::ptrdiff_t>(workers.size()) + 1) {
    for (auto& worker : workers_) threads_.emplace_back([this, &worker] { RunOne(*worker); });
    start_.arrive_and_wait();
  }

  void Finish(const std::function<void()>& each_second) {
    std::unique_lock lock(mutex_);
    while (!one_finished_.wait_for(lock, std::chrono::seconds(1),
                                   [this] { return finished_ == workers_.size(); })) {
      each_second();
    }
    lock.unlock();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void RunOne(Worker& worker) {
    worker.Prepare();
    start_.arrive_and_wait();
    worker.Run();
    const std::lock_guard lock(mutex_);
    ++finished_;
    one_finished_.notify_one();
  }

  std::vector<std::unique_ptr<Worker>>& workers_;
  std::latch start_;
  std::mutex mutex_;
  std::condition_variable one_finished_;
  std::size_t finished_ = 0;  // guarded by mutex_
  std::vector<std::thread> threads_;
};

void Gather(const Worker& worker, PhaseResult& result) {
  for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
    result.operations[kind] += worker.operations()[kind];
    result.latency[kind].Merge(worker.latency()[kind]);
  }
  result.errors.Merge(worker.errors());
}

PhaseResult RunPhase(std::string name, const WorkloadOptions& options, std::span<const Share> shares,
                     Sessions sessions, const Clock& clock, const ProgressSink& progress) {
  PhaseResult result;
  result.name = std::move(name);
  std::atomic<bool> stop = false;
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::size_t i = 0; i < sessions.size(); ++i) {
    workers.push_back(std::make_unique<Worker>(options, shares[i], *sessions[i], clock, stop));
  }
  const absl::StatusOr<CounterList> server_before = sessions.front()->ServerCounters();
  const ClientCounters client_before = SumOf(sessions);

  Race race(workers);
  const double cpu_before = CpuSeconds();
  const TimePoint started = clock.Now();
  race.Finish([&] {
    if (!progress) return;
    std::uint64_t done = 0;
    for (const auto& worker : workers) done += worker->done();
    progress(result.name, done, Seconds(clock.Now() - started));
  });
  result.cpu_seconds = CpuSeconds() - cpu_before;

  TimePoint begin = TimePoint::max();
  TimePoint end = TimePoint::min();
  for (const auto& worker : workers) {
    begin = std::min(begin, worker->begin());
    end = std::max(end, worker->end());
    Gather(*worker, result);
  }
  result.seconds = Seconds(end - begin);

  result.client = SumOf(sessions) - client_before;
  const absl::StatusOr<CounterList> server_after = sessions.front()->ServerCounters();
  if (server_before.ok() && server_after.ok()) {
    for (std::size_t i = 0; i < server_after->size(); ++i) {
      result.server[(*server_after)[i].first] = (*server_after)[i].second - (*server_before)[i].second;
    }
  }
  return result;
}

// Part `index` of `count` parts of [0, total): where it begins. Parts differ by one at most.
std::uint64_t PartBegin(std::uint64_t total, std::uint64_t index, std::uint64_t count) {
  return total / count * index + std::min(total % count, index);
}

std::vector<Share> MakeShares(std::size_t workers, bool loading, std::uint64_t total) {
  std::vector<Share> shares(workers);
  for (std::uint32_t i = 0; i < workers; ++i) {
    const std::uint64_t first = PartBegin(total, i, workers);
    const std::uint64_t operations =
        total == kUnlimited ? kUnlimited : PartBegin(total, i + 1, workers) - first;
    shares[i] = {i, static_cast<std::uint32_t>(workers), loading, first, operations};
  }
  return shares;
}

}  // namespace

void ErrorTally::Add(const std::string& kind, std::string_view message) {
  Entry& entry = entries_[kind];
  if (entry.count++ == 0) entry.first_message = message;
}

void ErrorTally::Merge(const ErrorTally& other) {
  for (const auto& [kind, theirs] : other.entries_) {
    Entry& entry = entries_[kind];
    if (entry.count == 0) entry.first_message = theirs.first_message;
    entry.count += theirs.count;
  }
}

std::uint64_t ErrorTally::total() const {
  std::uint64_t total = 0;
  for (const auto& [kind, entry] : entries_) total += entry.count;
  return total;
}

std::uint64_t PhaseResult::all_operations() const {
  return std::accumulate(operations.begin(), operations.end(), std::uint64_t{0});
}

PhaseResult RunLoad(const WorkloadOptions& options, Sessions sessions, const Clock& clock,
                    const ProgressSink& progress) {
  return RunPhase("load", options, MakeShares(sessions.size(), true, options.records), sessions, clock,
                  progress);
}

PhaseResult RunMix(const WorkloadOptions& options, Sessions sessions, const Clock& clock,
                   const ProgressSink& progress) {
  const std::uint64_t operations = options.operations == 0 ? kUnlimited : options.operations;
  return RunPhase("run", options, MakeShares(sessions.size(), false, operations), sessions, clock, progress);
}

}  // namespace remora::bench
