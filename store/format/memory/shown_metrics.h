// The metrics as programs show them: a name and a number each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "store/format/memory/histogram.h"
#include "store/format/memory/metric_registry.h"

namespace remora {

/// Returns the part of `values`, which are those of the superblock's places, that a histogram has.
/// REQUIRES: `values` has its places.
inline std::span<const std::uint64_t, kHistogramPlaces> HistogramIn(std::span<const std::uint64_t> values,
                                                                    const MetricEntry& entry) {
  return values.subspan(entry.place).first<kHistogramPlaces>();
}

/// Returns the metrics of which `values`, the first places of a superblock, have all places, in the order of
/// the registry. A histogram becomes five numbers, with the ends _count, _sum_ns, _p50_ns, _p99_ns and
/// _max_ns behind its name.
inline std::vector<std::pair<std::string, std::uint64_t>> ShownMetrics(
    std::span<const std::uint64_t> values) {
  std::vector<std::pair<std::string, std::uint64_t>> shown;
  for (std::size_t i = 0; i < SharedMetricCount(values.size()); ++i) {
    const MetricEntry& entry = kMetrics[i];
    if (entry.type != MetricType::kHistogram) {
      shown.emplace_back(entry.name, values[entry.place]);
      continue;
    }
    const auto times = HistogramIn(values, entry);
    const auto add = [&](const char* end, std::uint64_t value) {
      shown.emplace_back(std::string(entry.name) + end, value);
    };
    add("_count", HistogramCount(times));
    add("_sum_ns", times[kHistogramSum]);
    add("_p50_ns", HistogramPercentile(times, 50));
    add("_p99_ns", HistogramPercentile(times, 99));
    add("_max_ns", times[kHistogramMax]);
  }
  return shown;
}

}  // namespace remora
