// Runs a workload: threads, clock, counting.
//
// Each thread is a closed loop: it begins its next operation when the last one has ended. The clock is read
// once per operation, at the boundary, so that a thread's latencies add up to its time. A closed loop asks
// less of a target that stalls, and so hides stalls from its own percentiles ("coordinated omission"); with a
// rate, operations are due at fixed moments instead, and each latency runs from the moment its operation was
// due.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/distribution.h"
#include "bench/histogram.h"
#include "bench/target.h"
#include "bench/workload.h"
#include "client/client.h"
#include "store/base/clock.h"

namespace remora::bench {

struct WorkloadOptions {
  Mix mix;
  RecordChooser::Kind distribution = RecordChooser::Kind::kZipfian;
  std::uint64_t records = 100'000;
  std::size_t value_size = 64;
  std::uint64_t seed = 1;
  bool verify = false;  // checks each value that is read
  /// The run ends with whichever comes first; 0: no such end.
  std::uint64_t operations = 1'000'000;
  std::chrono::duration<double> duration{0};
  /// Operations per second of all threads together; 0: a closed loop.
  double rate = 0;
  /// Times one operation in so many. Reading the clock costs some 20 ns, twice for each operation timed then.
  std::uint32_t time_every = 1;
};

/// What went wrong, by kind, with the first message of each.
class ErrorTally {
 public:
  struct Entry {
    std::uint64_t count = 0;
    std::string first_message;
  };
  void Add(const std::string& kind, std::string_view message);
  void Merge(const ErrorTally& other);
  std::uint64_t total() const;
  const std::map<std::string, Entry>& entries() const { return entries_; }

 private:
  std::map<std::string, Entry> entries_;
};

/// What one phase came to.
struct PhaseResult {
  std::string name;
  double seconds = 0;      // first thread's begin to last thread's end
  double cpu_seconds = 0;  // of this process, all threads, user and system
  /// Operations that did what they should, and the latencies (ns) of those that were timed.
  std::array<std::uint64_t, kOperationKinds> operations{};
  std::array<Histogram, kOperationKinds> latency;
  ErrorTally errors;
  /// Of all sessions: what they did in this phase.
  ClientCounters client;
  /// By how much each of the server's counters grew; empty when they could not be read.
  std::map<std::string, std::uint64_t> server;

  std::uint64_t all_operations() const;
};

/// Called about once a second, with the phase's name, operations done and seconds gone; may be empty.
using ProgressSink = std::function<void(std::string_view, std::uint64_t, double)>;

/// Inserts each record once, each thread a range of them. As many threads as sessions; each session is used
/// by one of them.
///
/// Both phases end early when an error shows that going on is pointless: anything but a missing key or a
/// wrong value.
PhaseResult RunLoad(const WorkloadOptions& options, std::span<const std::unique_ptr<Session>> sessions,
                    const Clock& clock, const ProgressSink& progress);

/// Reads and updates records as options.mix and options.distribution say.
PhaseResult RunMix(const WorkloadOptions& options, std::span<const std::unique_ptr<Session>> sessions,
                   const Clock& clock, const ProgressSink& progress);

}  // namespace remora::bench
