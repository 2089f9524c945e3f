#include "server/http/exposition.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/metric_type.h>
#include <prometheus/text_serializer.h>

#include <cstddef>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "store/format/memory/layout.h"
#include "store/format/memory/metric_registry.h"

namespace remora {
namespace {

prometheus::MetricFamily FamilyOf(const char* name, const char* help, MetricType type, double value) {
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
      FamilyOf("remora_build_info", "1, with the version of the server as a label", MetricType::kGauge, 1);
  build.metric[0].label = {{"version", std::string(process.version)},
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
    families.push_back(
        FamilyOf(entry.prometheus_name, entry.help, entry.type, static_cast<double>(values[i])));
  }
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, families);
  return text.str();
}

}  // namespace remora
