// Result of a phase: threads count it, processes add it up, and reports show it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/kvbench/load/histogram.h"
#include "bench/kvbench/load/workload.h"
#include "client/client.h"

namespace remora::bench {

enum class PhaseKind : std::uint8_t { kLoad = 0, kWarmUp = 1, kRun = 2 };
inline constexpr const char* kPhaseNames[] = {"load", "warm-up", "run"};

/// Errors by operation and kind, with the first message of each.
class ErrorTally {
 public:
  using Key = std::pair<OperationKind, std::string>;
  struct Entry {
    std::uint64_t count = 0;
    std::string first_message;
  };
  void Add(OperationKind operation, const std::string& kind, std::string_view message,
           std::uint64_t count = 1);
  void Merge(const ErrorTally& other);
  std::uint64_t total() const;
  const std::map<Key, Entry>& entries() const { return entries_; }

 private:
  std::map<Key, Entry> entries_;
};

/// Bytes of the values that operations read and wrote, without keys, and without what a transport adds.
struct ValueBytes {
  std::uint64_t read = 0;
  std::uint64_t written = 0;

  ValueBytes& operator+=(const ValueBytes& other) {
    read += other.read;
    written += other.written;
    return *this;
  }
  bool operator==(const ValueBytes&) const = default;
};

/// Work of one interval of a time series: of all kinds of operations.
struct Interval {
  std::uint64_t operations = 0;
  ValueBytes bytes;
  Histogram::Sparse latency;  // ns, of those that were timed
};

/// Result of one phase.
struct PhaseResult {
  std::string name;
  double seconds = 0;      // first thread's begin to last thread's end
  double cpu_seconds = 0;  // of the processes, all threads, user and system
  /// Operations that did what they should, and the latencies (ns) of those that were timed.
  std::array<std::uint64_t, kOperationKinds> operations{};
  /// Values of those operations; none where a report of an earlier version does not say it.
  std::array<ValueBytes, kOperationKinds> bytes{};
  std::array<Histogram, kOperationKinds> latency;
  /// The time series, and the length of its intervals; the last may be shorter. Operations count in the one
  /// in which they ended.
  double interval_seconds = 0;
  std::vector<Interval> series;
  ErrorTally errors;
  bool cut_short = false;  // by a signal
  /// Work of all sessions in this phase.
  ClientCounters client;
  /// By how much each of the server's counters grew; empty when they could not be read.
  std::map<std::string, std::uint64_t> server;

  std::uint64_t all_operations() const;
  ValueBytes all_bytes() const;
  /// Returns the rate of operations, or of bytes.
  double per_second(std::uint64_t count) const;
  /// Adds what another process did at the same time.
  void Merge(const PhaseResult& other);
};

/// The quantiles that reports show.
struct NamedQuantile {
  const char* name;       // for people
  const char* json_name;  // in names
  const char* ycsb_name;  // as YCSB says it: in front of "PercentileLatency"
  double fraction;
};
inline constexpr NamedQuantile kQuantiles[] = {
    {"p50", "p50", "50th", 0.5},  {"p90", "p90", "90th", 0.9},      {"p95", "p95", "95th", 0.95},
    {"p99", "p99", "99th", 0.99}, {"p99.9", "p999", "99.9", 0.999}, {"p99.99", "p9999", "99.99", 0.9999},
};

/// Adds one time series to another, interval by interval.
void MergeSeries(const std::vector<Interval>& other, std::vector<Interval>* series);

}  // namespace remora::bench
