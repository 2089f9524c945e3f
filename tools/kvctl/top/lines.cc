#include "tools/kvctl/top/lines.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "store/format/memory/metric_registry.h"
#include "tools/json/json.h"

namespace remora::top {
namespace {

enum class Shown { kRate = 1, kNumber, kBytes };

struct Column {
  const char* title;  // 7 characters at most
  const char* metric;
  Shown shown;
};

constexpr Column kColumns[] = {
    {"puts", "puts", Shown::kRate},
    {"deletes", "deletes", Shown::kRate},
    {"scans", "scans", Shown::kRate},
    {"reads", "reads_reported", Shown::kRate},
    {"fetches", "fetches", Shown::kRate},
    {"evicted", "evictions", Shown::kRate},
    {"clients", "connections", Shown::kNumber},
    {"keys", "keys", Shown::kNumber},
    {"free", "memory_bytes_free", Shown::kBytes},
    {"unsync", "writes_unsynced", Shown::kNumber},
};

std::string Cell(const Interval& interval, const Column& column) {
  switch (column.shown) {
    case Shown::kRate:
      return ShortNumber(interval.Rate(column.metric));
    case Shown::kBytes:
      return ShortBytes(interval.Value(column.metric));
    default:
      return ShortNumber(static_cast<double>(interval.Value(column.metric)));
  }
}

}  // namespace

std::string Header() {
  std::string text;
  for (const Column& column : kColumns)
    absl::StrAppendFormat(&text, "%s%7s", text.empty() ? "" : " ", column.title);
  return text + "\n";
}

std::string Line(const Interval& interval) {
  std::string text;
  for (const Column& column : kColumns) {
    absl::StrAppendFormat(&text, "%s%7s", text.empty() ? "" : " ", Cell(interval, column));
  }
  return text + "\n";
}

std::string JsonLine(const Interval& interval) {
  json_t* const rates = json_object();
  for (const MetricEntry& entry : kMetrics) {
    if (entry.type != MetricType::kCounter || !interval.Has(entry.name)) continue;
    json_object_set_new(rates, entry.name, json_real(interval.Rate(entry.name)));
  }
  json_t* const metrics = json_object();
  for (const auto& [name, value] : interval.after().metrics) {
    json_object_set_new(metrics, name.c_str(), json::NewCount(value));
  }
  const json::Value all(json_pack("{s:o, s:f, s:o, s:o}", "unix_ms", json::NewCount(interval.after().unix_ms),
                                  "seconds", interval.seconds(), "rates", rates, "metrics", metrics));
  return json::Text(all.get(), JSON_REAL_PRECISION(9)) + "\n";
}

}  // namespace remora::top
