// Reports as JSON, and back.
#include "tools/json/json.h"

#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "bench/kvbench/report/report.h"
#include "store/base/status_macros.h"

namespace remora::bench {
namespace {

using json::NewCount;
using json::NewString;

constexpr int kFormat = 1;

// --- Writing ------------------------------------------------------------------------------------------
// Each function returns a new reference, which the call takes over that it is made for.

json_t* NewLatency(const Histogram::Sparse& latency) {
  json_t* const cells = json_array();
  for (const Histogram::Sparse::Cell& cell : latency.cells) {
    json_array_append_new(cells, json_pack("[o, o]", NewCount(cell.number), NewCount(cell.count)));
  }
  return json_pack("{s:o, s:o, s:o, s:o}", "sum_ns", NewCount(latency.sum), "min_ns", NewCount(latency.min),
                   "max_ns", NewCount(latency.max), "cells", cells);
}

json_t* NewQuantiles(const Histogram& latency) {
  json_t* const quantiles =
      json_pack("{s:f, s:o}", "mean_ns", latency.mean(), "min_ns", NewCount(latency.min()));
  for (const NamedQuantile& quantile : kQuantiles) {
    json_object_set_new(quantiles, absl::StrCat(quantile.json_name, "_ns").c_str(),
                        NewCount(latency.Quantile(quantile.fraction)));
  }
  json_object_set_new(quantiles, "max_ns", NewCount(latency.max()));
  return quantiles;
}

/// Adds the bytes of values; with a phase, their rates, too.
void AddBytes(json_t* object, const ValueBytes& bytes, const PhaseResult* phase = nullptr) {
  json_object_set_new(object, "value_bytes_read", NewCount(bytes.read));
  json_object_set_new(object, "value_bytes_written", NewCount(bytes.written));
  if (phase == nullptr) return;
  json_object_set_new(object, "value_bytes_read_per_second", json_real(phase->per_second(bytes.read)));
  json_object_set_new(object, "value_bytes_written_per_second", json_real(phase->per_second(bytes.written)));
}

json_t* NewKinds(const PhaseResult& phase) {
  json_t* const kinds = json_object();
  for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
    if (phase.operations[kind] == 0) continue;
    json_t* const entry = NewQuantiles(phase.latency[kind]);
    json_object_set_new(entry, "operations", NewCount(phase.operations[kind]));
    AddBytes(entry, phase.bytes[kind], &phase);
    json_object_set_new(entry, "latency", NewLatency(phase.latency[kind].ToSparse()));
    json_object_set_new(kinds, kOperationNames[kind], entry);
  }
  return kinds;
}

json_t* NewSeries(const PhaseResult& phase) {
  json_t* const series = json_array();
  for (const Interval& interval : phase.series) {
    json_t* const entry = json_pack("{s:o, s:o}", "operations", NewCount(interval.operations), "latency",
                                    NewLatency(interval.latency));
    AddBytes(entry, interval.bytes);
    json_array_append_new(series, entry);
  }
  return series;
}

json_t* NewErrors(const PhaseResult& phase) {
  json_t* const errors = json_array();
  for (const auto& [key, entry] : phase.errors.entries()) {
    json_array_append_new(
        errors, json_pack("{s:s, s:o, s:o, s:o}", "operation",
                          kOperationNames[static_cast<std::size_t>(key.first)], "kind", NewString(key.second),
                          "count", NewCount(entry.count), "first_message", NewString(entry.first_message)));
  }
  return errors;
}

struct ClientCounter {
  const char* name;
  std::uint64_t ClientCounters::*member;
};
constexpr ClientCounter kClientCounters[] = {
    {"reads", &ClientCounters::reads},
    {"requests", &ClientCounters::requests},
    {"retries", &ClientCounters::retries},
    {"locates", &ClientCounters::locates},
    {"cold", &ClientCounters::cold},
    {"location_hits", &ClientCounters::location_hits},
    {"location_false_hits", &ClientCounters::location_false_hits},
    {"generation_reads", &ClientCounters::generation_reads},
    {"mirror_hits", &ClientCounters::mirror_hits},
    {"mirror_false_hits", &ClientCounters::mirror_false_hits},
    {"mirror_reads", &ClientCounters::mirror_reads},
    {"mirror_read_bytes", &ClientCounters::mirror_read_bytes},
};

json_t* NewTexts(const Texts& texts) {
  json_t* const object = json_object();
  for (const auto& [name, value] : texts) json_object_set_new(object, name.c_str(), NewString(value));
  return object;
}

json_t* NewPhase(const PhaseResult& phase) {
  json_t* const client = json_object();
  for (const ClientCounter& counter : kClientCounters) {
    json_object_set_new(client, counter.name, NewCount(phase.client.*counter.member));
  }
  json_t* const server = json_object();
  for (const auto& [name, growth] : phase.server) json_object_set_new(server, name.c_str(), NewCount(growth));
  json_t* const all = json_pack("{s:o, s:f, s:f, s:o, s:f, s:o, s:f, s:o, s:o, s:o, s:o}",          //
                                "phase", NewString(phase.name),                                     //
                                "seconds", phase.seconds,                                           //
                                "client_cpu_seconds", phase.cpu_seconds,                            //
                                "operations", NewCount(phase.all_operations()),                     //
                                "operations_per_second", phase.per_second(phase.all_operations()),  //
                                "by_operation", NewKinds(phase),                                    //
                                "interval_seconds", phase.interval_seconds,                         //
                                "series", NewSeries(phase),                                         //
                                "client", client,                                                   //
                                "server", server,                                                   //
                                "errors", NewErrors(phase));
  AddBytes(all, phase.all_bytes(), &phase);
  if (phase.cut_short) json_object_set_new(all, "cut_short", json_true());
  return all;
}

std::string Text(const json::Value& value, std::size_t flags) {
  char* const text = json_dumps(value.get(), flags | JSON_REAL_PRECISION(15));
  std::string copy(text == nullptr ? "" : text);
  std::free(text);
  return copy;
}

// --- Reading ------------------------------------------------------------------------------------------
// Where a value is missing or has another type, these functions throw a Mistake, which Parse catches.

struct Mistake {
  std::string what;
};

/// Calls json_unpack: `format` has the names and types of the members, `places` take their values.
template <typename... Places>
void Unpack(json_t* value, const char* format, Places... places) {
  json_error_t error;
  if (json_unpack_ex(value, &error, 0, format, places...) != 0) throw Mistake{error.text};
}

std::uint64_t ReadCount(const json_t* value) {
  if (!json_is_integer(value) || json_integer_value(value) < 0) throw Mistake{"a count is no whole number"};
  return static_cast<std::uint64_t>(json_integer_value(value));
}

/// Returns by how much a counter of the server grew. A gauge may have shrunk: the number is modulo 2^64.
std::uint64_t ReadGrowth(const json_t* value) {
  if (!json_is_integer(value)) throw Mistake{"a growth is no whole number"};
  return static_cast<std::uint64_t>(json_integer_value(value));
}

std::string ReadText(const json_t* value) {
  if (!json_is_string(value)) throw Mistake{"a text is no string"};
  return {json_string_value(value), json_string_length(value)};
}

/// Calls `read` for each element.
template <typename Read>
void ForEachElement(json_t* array, Read read) {
  if (!json_is_array(array)) throw Mistake{"a list is no array"};
  for (std::size_t i = 0; i < json_array_size(array); ++i) read(json_array_get(array, i));
}

/// Calls `read` for each member's name and value.
template <typename Read>
void ForEachMember(json_t* object, Read read) {
  if (!json_is_object(object)) throw Mistake{"a table is no object"};
  for (void* at = json_object_iter(object); at != nullptr; at = json_object_iter_next(object, at)) {
    read(std::string(json_object_iter_key(at)), json_object_iter_value(at));
  }
}

Histogram::Sparse ReadLatency(json_t* value) {
  json_t *sum, *min, *max, *cells;
  Unpack(value, "{s:o, s:o, s:o, s:o}", "sum_ns", &sum, "min_ns", &min, "max_ns", &max, "cells", &cells);
  Histogram::Sparse latency{ReadCount(sum), ReadCount(min), ReadCount(max), {}};
  ForEachElement(cells, [&](json_t* cell) {
    json_t *number, *count;
    Unpack(cell, "[o, o]", &number, &count);
    if (ReadCount(number) > std::numeric_limits<std::uint32_t>::max()) throw Mistake{"a cell has no number"};
    latency.cells.push_back({static_cast<std::uint32_t>(ReadCount(number)), ReadCount(count)});
  });
  if (!Histogram().Merge(latency)) throw Mistake{"a latency's cells are not a histogram's"};
  return latency;
}

OperationKind ReadKind(const std::string& name) {
  for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
    if (name == kOperationNames[kind]) return static_cast<OperationKind>(kind);
  }
  throw Mistake{"an operation has an unknown name"};
}

/// Reads what AddBytes adds; reports of earlier versions have none of it.
ValueBytes ReadBytes(json_t* object) {
  const auto count = [object](const char* name) {
    const json_t* const value = json_object_get(object, name);
    return value == nullptr ? 0 : ReadCount(value);
  };
  return {count("value_bytes_read"), count("value_bytes_written")};
}

PhaseResult ReadPhase(json_t* value) {
  PhaseResult phase;
  json_t *name, *kinds, *series, *client, *server, *errors;
  Unpack(value, "{s:o, s:F, s:F, s:o, s:F, s:o, s:o, s:o, s:o}",                                  //
         "phase", &name, "seconds", &phase.seconds, "client_cpu_seconds", &phase.cpu_seconds,     //
         "by_operation", &kinds, "interval_seconds", &phase.interval_seconds, "series", &series,  //
         "client", &client, "server", &server, "errors", &errors);
  phase.name = ReadText(name);
  phase.cut_short = json_is_true(json_object_get(value, "cut_short"));
  ForEachMember(kinds, [&](const std::string& kind_name, json_t* entry) {
    const auto kind = static_cast<std::size_t>(ReadKind(kind_name));
    phase.operations[kind] = ReadCount(json_object_get(entry, "operations"));
    phase.bytes[kind] = ReadBytes(entry);
    phase.latency[kind].Merge(ReadLatency(json_object_get(entry, "latency")));
  });
  ForEachElement(series, [&](json_t* interval) {
    phase.series.push_back({ReadCount(json_object_get(interval, "operations")), ReadBytes(interval),
                            ReadLatency(json_object_get(interval, "latency"))});
  });
  if (!(phase.seconds >= 0) || (!phase.series.empty() && !(phase.interval_seconds > 0))) {
    throw Mistake{"a time is not positive"};
  }
  for (const ClientCounter& counter : kClientCounters) {
    phase.client.*counter.member = ReadCount(json_object_get(client, counter.name));
  }
  ForEachMember(server, [&](const std::string& counter, json_t* growth) {
    phase.server[counter] = ReadGrowth(growth);
  });
  ForEachElement(errors, [&](json_t* error) {
    phase.errors.Add(
        ReadKind(ReadText(json_object_get(error, "operation"))), ReadText(json_object_get(error, "kind")),
        ReadText(json_object_get(error, "first_message")), ReadCount(json_object_get(error, "count")));
  });
  return phase;
}

Texts ReadTexts(json_t* object) {
  Texts texts;
  ForEachMember(object,
                [&](const std::string& name, json_t* value) { texts.emplace_back(name, ReadText(value)); });
  return texts;
}

RunReport ReadReport(json_t* value) {
  RunReport report;
  json_t *format, *settings, *phases;
  Unpack(value, "{s:o, s:o, s:o}", "format", &format, "settings", &settings, "phases", &phases);
  if (ReadCount(format) != kFormat) throw Mistake{"it has another format"};
  report.cut_short = json_is_true(json_object_get(value, "cut_short"));
  report.settings = ReadTexts(settings);
  if (json_t* const environment = json_object_get(value, "environment"); environment != nullptr) {
    report.environment = ReadTexts(environment);
  }
  ForEachElement(phases, [&](json_t* phase) { report.phases.push_back(ReadPhase(phase)); });
  return report;
}

template <typename Read>
auto Parse(const std::string& text, Read read) -> absl::StatusOr<decltype(read(nullptr))> {
  json_error_t error;
  const json::Value value(json_loadb(text.data(), text.size(), JSON_ALLOW_NUL, &error));
  if (value == nullptr) return absl::InvalidArgumentError(absl::StrCat("no JSON of kvbench: ", error.text));
  try {
    return read(value.get());
  } catch (const Mistake& mistake) {
    return absl::InvalidArgumentError(absl::StrCat("no JSON of kvbench: ", mistake.what));
  }
}

}  // namespace

std::string ToJson(const PhaseResult& result) { return Text(json::Value(NewPhase(result)), JSON_COMPACT); }

std::string ToJson(const RunReport& report) {
  json_t* const phases = json_array();
  for (const PhaseResult& phase : report.phases) json_array_append_new(phases, NewPhase(phase));
  const json::Value value(json_pack("{s:i, s:s, s:o, s:o, s:o, s:o}", "format", kFormat, "version",
                                    REMORA_VERSION, "environment", NewTexts(report.environment), "settings",
                                    NewTexts(report.settings), "phases", phases, "errors",
                                    NewCount(report.errors())));
  if (report.cut_short) json_object_set_new(value.get(), "cut_short", json_true());
  return Text(value, JSON_INDENT(1)) + "\n";
}

absl::StatusOr<PhaseResult> ParsePhase(const std::string& text) { return Parse(text, ReadPhase); }
absl::StatusOr<RunReport> ParseReport(const std::string& text) { return Parse(text, ReadReport); }

}  // namespace remora::bench
