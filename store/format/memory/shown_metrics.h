// The metrics as programs show them: a name and a number each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
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

/// The parts of a Prometheus name of the registry, NAME or NAME{label=value}. Neighbours with the same family
/// are one metric. The texts are the registry's.
struct LabelledName {
  std::string_view family;
  std::string_view label;  // empty: it has none
  std::string_view value;
  std::string_view help;  // of the family
};

inline LabelledName LabelledNameOf(const MetricEntry& entry) {
  const std::string_view text = entry.prometheus_name;
  const std::string_view help = entry.help;
  const std::size_t brace = text.find('{');
  if (brace == std::string_view::npos) return {text, {}, {}, help};
  const std::string_view label = text.substr(brace + 1, text.size() - brace - 2);
  const std::size_t equals = label.find('=');
  return {text.substr(0, brace), label.substr(0, equals), label.substr(equals + 1),
          help.substr(0, help.find(':'))};
}

/// Returns the metrics of `entries`, in their order. A histogram becomes five numbers, with the ends _count,
/// _sum_ns, _p50_ns, _p99_ns and _max_ns behind its name. REQUIRES: `values` has the places of all.
inline std::vector<std::pair<std::string, std::uint64_t>> ShownMetrics(
    std::span<const MetricEntry> entries, std::span<const std::uint64_t> values) {
  std::vector<std::pair<std::string, std::uint64_t>> shown;
  for (const MetricEntry& entry : entries) {
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

/// Returns the metrics of a server of which `values`, the first places of its superblock, have all places.
inline std::vector<std::pair<std::string, std::uint64_t>> ShownMetrics(
    std::span<const std::uint64_t> values) {
  return ShownMetrics(std::span(kMetrics).first(SharedMetricCount(values.size())), values);
}

}  // namespace remora
