#include "tools/kvctl/top/lines.h"

#include <jansson.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

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
  bool is_of_shards = true;  // beside the name of a shard, there is no place for all
};

constexpr Column kColumns[] = {
    {"puts", "puts", Shown::kRate},
    {"deletes", "deletes", Shown::kRate},
    {"scans", "scans", Shown::kRate, false},
    {"reads", "reads_reported", Shown::kRate},
    {"fetches", "fetches", Shown::kRate, false},
    {"evicted", "evictions", Shown::kRate},
    {"clients", "connections", Shown::kNumber},
    {"keys", "keys", Shown::kNumber},
    {"free", "memory_bytes_free", Shown::kBytes},
    {"unsync", "writes_unsynced", Shown::kNumber},
};

/// Returns the sum over the intervals, each of another server.
std::string Cell(std::span<const Interval> intervals, const Column& column) {
  double rate = 0;
  std::uint64_t value = 0;
  for (const Interval& interval : intervals) {
    rate += interval.Rate(column.metric);
    value += interval.Value(column.metric);
  }
  if (column.shown == Shown::kRate) return ShortNumber(rate);
  return column.shown == Shown::kBytes ? ShortBytes(value) : ShortNumber(static_cast<double>(value));
}

/// Returns a line of the columns, without its end. `cell`: the text of one.
template <typename OfColumn>
std::string LineOf(bool is_of_shards, OfColumn cell) {
  std::string text;
  for (const Column& column : kColumns) {
    if (is_of_shards && !column.is_of_shards) continue;
    absl::StrAppendFormat(&text, "%s%7s", text.empty() ? "" : " ", cell(column));
  }
  return text;
}

/// Returns a new object with seconds, rates and metrics.
json_t* NewObject(const Interval& interval) {
  json_t* const rates = json_object();
  for (const MetricEntry& entry : kMetrics) {
    if (entry.type != MetricType::kCounter || !interval.Has(entry.name)) continue;
    json_object_set_new(rates, entry.name, json_real(interval.Rate(entry.name)));
  }
  json_t* const metrics = json_object();
  for (const auto& [name, value] : interval.after().metrics) {
    json_object_set_new(metrics, name.c_str(), json::NewCount(value));
  }
  return json_pack("{s:f, s:o, s:o}", "seconds", interval.seconds(), "rates", rates, "metrics", metrics);
}

/// Returns the line of an object, with the time before all else.
std::string JsonText(std::uint64_t unix_ms, json_t* object) {
  const json::Value all(json_pack("{s:o}", "unix_ms", json::NewCount(unix_ms)));
  json_object_update(all.get(), object);
  json_decref(object);
  return json::Text(all.get(), JSON_REAL_PRECISION(9)) + "\n";
}

}  // namespace

std::string Header() {
  return LineOf(/*is_of_shards=*/false, [](const Column& column) { return std::string(column.title); }) +
         "\n";
}

std::string Line(const Interval& interval) {
  return LineOf(/*is_of_shards=*/false,
                [&](const Column& column) {
                  return Cell({&interval, 1}, column);
                }) +
         "\n";
}

std::string JsonLine(const Interval& interval) {
  return JsonText(interval.after().unix_ms, NewObject(interval));
}

std::vector<std::string> TableOf(std::span<const ShardInterval> shards) {
  constexpr std::string_view kTitle = "shard", kAll = "all";
  std::size_t width = kTitle.size();
  std::vector<Interval> answered;
  for (const ShardInterval& shard : shards) {
    width = std::max(width, shard.name.size());
    if (shard.interval) answered.push_back(*shard.interval);
  }
  std::vector<std::string> lines;
  const auto add = [&](std::string_view name, const auto& cell) {
    lines.push_back(absl::StrFormat("%-*s %s", static_cast<int>(width), std::string(name),
                                    LineOf(/*is_of_shards=*/true, cell)));
  };
  add(kTitle, [](const Column& column) { return std::string(column.title); });
  for (const ShardInterval& shard : shards) {
    add(shard.name, [&](const Column& column) {
      return shard.interval ? Cell({&*shard.interval, 1}, column) : std::string("-");
    });
  }
  add(kAll, [&](const Column& column) { return Cell(answered, column); });
  return lines;
}

std::string JsonLine(std::uint64_t unix_ms, std::span<const ShardInterval> shards) {
  json_t* const objects = json_object();
  for (const ShardInterval& shard : shards) {
    json_t* const object = shard.interval ? NewObject(*shard.interval)
                                          : json_pack("{s:o}", "error", json::NewString(shard.trouble));
    json_object_set_new(objects, shard.name.c_str(), object);
  }
  return JsonText(unix_ms, json_pack("{s:o}", "shards", objects));
}

}  // namespace remora::top
