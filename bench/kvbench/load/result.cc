#include "bench/kvbench/load/result.h"

#include <algorithm>
#include <numeric>

#include "store/base/check.h"

namespace remora::bench {

void ErrorTally::Add(OperationKind operation, const std::string& kind, std::string_view message,
                     std::uint64_t count) {
  Entry& entry = entries_[{operation, kind}];
  if (entry.count == 0) entry.first_message = message;
  entry.count += count;
}

void ErrorTally::Merge(const ErrorTally& other) {
  for (const auto& [key, theirs] : other.entries_) {
    Add(key.first, key.second, theirs.first_message, theirs.count);
  }
}

std::uint64_t ErrorTally::total() const {
  std::uint64_t total = 0;
  for (const auto& [key, entry] : entries_) total += entry.count;
  return total;
}

std::uint64_t PhaseResult::all_operations() const {
  return std::accumulate(operations.begin(), operations.end(), std::uint64_t{0});
}

ValueBytes PhaseResult::all_bytes() const {
  ValueBytes all;
  for (const ValueBytes& of_kind : bytes) all += of_kind;
  return all;
}

double PhaseResult::per_second(std::uint64_t count) const {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

void PhaseResult::Merge(const PhaseResult& other) {
  seconds = std::max(seconds, other.seconds);
  cpu_seconds += other.cpu_seconds;
  for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
    operations[kind] += other.operations[kind];
    bytes[kind] += other.bytes[kind];
    latency[kind].Merge(other.latency[kind]);
  }
  interval_seconds = std::max(interval_seconds, other.interval_seconds);
  MergeSeries(other.series, &series);
  errors.Merge(other.errors);
  client += other.client;
  for (const auto& [counter, growth] : other.server) server[counter] += growth;
}

void MergeSeries(const std::vector<Interval>& other, std::vector<Interval>* series) {
  if (series->size() < other.size()) series->resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) {
    Histogram both;
    // Sparse histograms that were made from whole ones can be merged.
    REMORA_CHECK(both.Merge((*series)[i].latency) && both.Merge(other[i].latency));
    (*series)[i].operations += other[i].operations;
    (*series)[i].bytes += other[i].bytes;
    (*series)[i].latency = both.ToSparse();
  }
}

}  // namespace remora::bench
