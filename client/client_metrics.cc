#include "client/client_metrics.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "store/format/memory/shown_metrics.h"

namespace remora {
namespace {

constexpr double kNanosecondsInSecond = 1e9;

const char* TypeName(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "untyped";
}

/// Returns the value of a label with what the format escapes.
std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n') {
      escaped += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

/// Appends NAME{labels} and a blank. `bound` is for a bucket of a histogram.
void AppendSeries(std::string* text, const LabelledName& name, std::string_view end, std::string_view client,
                  std::string_view bound = {}) {
  std::string labels;
  const auto add = [&labels](std::string_view label, std::string_view value) {
    labels += absl::StrCat(labels.empty() ? "" : ",", std::string(label), "=\"", Escaped(value), "\"");
  };
  if (!client.empty()) add("client", client);
  if (!name.label.empty()) add(name.label, name.value);
  if (!bound.empty()) add("le", bound);
  text->append(name.family).append(end);
  if (!labels.empty()) text->append("{").append(labels).append("}");
  text->append(" ");
}

std::string SecondsText(std::uint64_t ns) {
  return absl::StrCat(static_cast<double>(ns) / kNanosecondsInSecond);
}

void AppendHistogram(std::string* text, const LabelledName& name, std::string_view client,
                     std::span<const std::uint64_t, kHistogramPlaces> times) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < kHistogramBuckets; ++i) {
    count += times[i];
    AppendSeries(text, name, "_bucket", client,
                 i + 1 < kHistogramBuckets ? SecondsText(HistogramBound(i)) : "+Inf");
    absl::StrAppend(text, count, "\n");
  }
  AppendSeries(text, name, "_sum", client);
  absl::StrAppend(text, SecondsText(times[kHistogramSum]), "\n");
  AppendSeries(text, name, "_count", client);
  absl::StrAppend(text, count, "\n");
}

}  // namespace

void ClientMetrics::Set(const ClientCounters& counters) {
  for (const auto& [metric, counter] : kCounterMetrics) Set(metric, counters.*counter);
}

void ClientMetrics::Set(const ClientPoolCounters& counters) {
  Set(ClientMetric::kPoolInUse, counters.in_use);
  Set(ClientMetric::kPoolIdle, counters.idle);
  Set(ClientMetric::kPoolWaiting, counters.waiting);
  Set(ClientMetric::kPoolAcquires, counters.acquires);
  Set(ClientMetric::kPoolWaits, counters.waits);
  Set(ClientMetric::kPoolTimeouts, counters.timeouts);
  Set(ClientMetric::kPoolConnects, counters.connects);
  Set(ClientMetric::kPoolConnectFailures, counters.connect_failures);
  Set(ClientMetric::kPoolReplaced, counters.replaced);
}

ClientMetrics& ClientMetrics::operator+=(const ClientMetrics& other) {
  for (const MetricEntry& entry : kClientMetrics) {
    for (std::size_t i = 0; i < MetricPlaces(entry.type); ++i) {
      std::uint64_t& mine = values_[entry.place + i];
      const std::uint64_t theirs = other.values_[entry.place + i];
      const bool is_max = entry.type == MetricType::kHistogram && i == kHistogramMax;
      mine = is_max ? std::max(mine, theirs) : mine + theirs;
    }
  }
  return *this;
}

std::vector<std::pair<std::string, std::uint64_t>> ClientMetrics::Shown() const {
  return ShownMetrics(kClientMetrics, values_);
}

std::string PrometheusText(std::span<const NamedClientMetrics> clients) {
  std::string text;
  for (std::size_t first = 0; first < std::size(kClientMetrics);) {
    const LabelledName family = LabelledNameOf(kClientMetrics[first]);
    std::size_t end = first;
    while (end < std::size(kClientMetrics) && LabelledNameOf(kClientMetrics[end]).family == family.family)
      ++end;
    const MetricEntry& head = kClientMetrics[first];
    text.append("# HELP ").append(family.family).append(" ").append(family.help);
    text.append("\n# TYPE ").append(family.family).append(" ").append(TypeName(head.type)).append("\n");
    for (const NamedClientMetrics& client : clients) {
      for (const MetricEntry& entry : std::span(kClientMetrics).subspan(first, end - first)) {
        const LabelledName name = LabelledNameOf(entry);
        if (entry.type == MetricType::kHistogram) {
          AppendHistogram(&text, name, client.name, HistogramIn(client.metrics.values(), entry));
          continue;
        }
        AppendSeries(&text, name, "", client.name);
        absl::StrAppend(&text, client.metrics.values()[entry.place], "\n");
      }
    }
    first = end;
  }
  return text;
}

}  // namespace remora
