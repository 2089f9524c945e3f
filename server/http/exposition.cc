#include "server/http/exposition.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/metric_type.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/format/memory/histogram.h"
#include "store/format/memory/layout.h"
#include "store/format/memory/metric_registry.h"
#include "store/format/memory/shown_metrics.h"

namespace remora {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;

prometheus::MetricFamily HistogramFamily(const MetricEntry& entry, std::span<const std::uint64_t> values) {
  const auto times = HistogramIn(values, entry);
  prometheus::MetricFamily family;
  family.name = entry.prometheus_name;
  family.help = entry.help;
  family.type = prometheus::MetricType::Histogram;
  prometheus::ClientMetric::Histogram& histogram = family.metric.emplace_back().histogram;
  for (std::size_t i = 0; i < kHistogramBuckets; ++i) {
    histogram.sample_count += times[i];
    const double bound = i + 1 < kHistogramBuckets
                             ? static_cast<double>(HistogramBound(i)) / kNanosecondsPerSecond
                             : std::numeric_limits<double>::infinity();
    histogram.bucket.push_back({histogram.sample_count, bound});
  }
  histogram.sample_sum = static_cast<double>(times[kHistogramSum]) / kNanosecondsPerSecond;
  return family;
}

prometheus::MetricFamily FamilyOf(std::string_view name, std::string_view help, MetricType type,
                                  double value) {
  prometheus::MetricFamily family;
  family.name = name;
  family.help = help;
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  if (type == MetricType::kCounter) {
    family.type = prometheus::MetricType::Counter;
    metric.counter.value = value;
  } else {
    family.type = prometheus::MetricType::Gauge;
    metric.gauge.value = value;
  }
  return family;
}

}  // namespace

std::string PrometheusText(const ProcessFacts& process, std::span<const std::uint64_t> values) {
  std::vector<prometheus::MetricFamily> families;
  prometheus::MetricFamily build =
      FamilyOf("remora_build_info", "1, with the version of the server and its commit as labels",
               MetricType::kGauge, 1);
  build.metric[0].label = {{"version", std::string(process.version)},
                           {"commit", std::string(process.commit)},
                           {"format", std::to_string(kFormatVersion)}};
  families.push_back(std::move(build));
  families.push_back(FamilyOf("process_start_time_seconds", "Start of the process, in seconds since 1970",
                              MetricType::kGauge, process.start_seconds));
  families.push_back(FamilyOf("remora_uptime_seconds", "Time since the start of the process",
                              MetricType::kGauge, process.uptime_seconds));
  families.push_back(FamilyOf("remora_ready", "1 if the server is ready, as /readyz says, else 0",
                              MetricType::kGauge, process.is_ready ? 1 : 0));
  for (std::size_t i = 0; i < SharedMetricCount(values.size()); ++i) {
    const MetricEntry& entry = kMetrics[i];
    if (entry.type == MetricType::kHistogram) {
      families.push_back(HistogramFamily(entry, values));
      continue;
    }
    double value = static_cast<double>(values[entry.place]);
    if (entry.unit == MetricUnit::kSeconds) value /= kNanosecondsPerSecond;
    const LabelledName name = LabelledNameOf(entry);
    prometheus::MetricFamily family = FamilyOf(name.family, name.help, entry.type, value);
    if (!name.label.empty()) {
      family.metric[0].label = {{std::string(name.label), std::string(name.value)}};
    }
    // A member that came to the registry later stands apart from the others.
    const auto others = std::ranges::find(families, family.name, &prometheus::MetricFamily::name);
    if (others != families.end()) {
      others->metric.push_back(std::move(family.metric[0]));
    } else {
      families.push_back(std::move(family));
    }
  }
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, families);
  return text.str();
}

}  // namespace remora
