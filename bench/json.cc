// Reports as JSON, and back.
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "bench/report.h"
#include "store/base/status_macros.h"

namespace remora::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

// --- Writing ------------------------------------------------------------------------------------------

Json LatencyJson(const Histogram::Sparse& latency) {
  Json cells = Json::array();
  for (const Histogram::Sparse::Cell& cell : latency.cells) cells.push_back({cell.number, cell.count});
  return {{"sum_ns", latency.sum}, {"min_ns", latency.min}, {"max_ns", latency.max}, {"cells", cells}};
}

Json QuantilesJson(const Histogram& latency) {
  Json json = {{"mean_ns", latency.mean()}, {"min_ns", latency.min()}};
  for (const NamedQuantile& quantile : kQuantiles) {
    json[absl::StrCat(quantile.json_name, "_ns")] = latency.Quantile(quantile.fraction);
  }
  json["max_ns"] = latency.max();
  return json;
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
    {"location_wasted", &ClientCounters::location_wasted},
    {"location_looks", &ClientCounters::location_looks},
};

Json PhaseJson(const PhaseResult& phase) {
  Json json = {{"phase", phase.name},
               {"seconds", phase.seconds},
               {"client_cpu_seconds", phase.cpu_seconds},
               {"operations", phase.all_operations()},
               {"operations_per_second", phase.per_second(phase.all_operations())}};
  Json& kinds = json["by_operation"] = Json::object();
  for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
    if (phase.operations[kind] == 0) continue;
    Json& entry = kinds[kOperationNames[kind]] = QuantilesJson(phase.latency[kind]);
    entry["operations"] = phase.operations[kind];
    entry["latency"] = LatencyJson(phase.latency[kind].ToSparse());
  }
  if (phase.cut_short) json["cut_short"] = true;
  json["interval_seconds"] = phase.interval_seconds;
  Json& series = json["series"] = Json::array();
  for (const Interval& interval : phase.series) {
    series.push_back({{"operations", interval.operations}, {"latency", LatencyJson(interval.latency)}});
  }
  Json& client = json["client"] = Json::object();
  for (const ClientCounter& counter : kClientCounters) client[counter.name] = phase.client.*counter.member;
  json["server"] = phase.server;
  Json& errors = json["errors"] = Json::array();
  for (const auto& [key, entry] : phase.errors.entries()) {
    errors.push_back({{"operation", kOperationNames[static_cast<std::size_t>(key.first)]},
                      {"kind", key.second},
                      {"count", entry.count},
                      {"first_message", entry.first_message}});
  }
  return json;
}

// Messages may quote bytes that are no UTF-8.
std::string Text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// --- Reading ------------------------------------------------------------------------------------------
// Whatever is missing, or of another type, throws one of nlohmann's exceptions, which Parse catches.

struct Contradiction {
  const char* what;
};

Histogram::Sparse ReadLatency(const Json& json) {
  Histogram::Sparse latency{json.at("sum_ns"), json.at("min_ns"), json.at("max_ns"), {}};
  for (const Json& cell : json.at("cells")) latency.cells.push_back({cell.at(0), cell.at(1)});
  if (!Histogram().Merge(latency)) throw Contradiction{"a latency's cells are not a histogram's"};
  return latency;
}

OperationKind ReadKind(const std::string& name) {
  for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
    if (name == kOperationNames[kind]) return static_cast<OperationKind>(kind);
  }
  throw Contradiction{"an operation has an unknown name"};
}

PhaseResult ReadPhase(const Json& json) {
  PhaseResult phase;
  phase.name = json.at("phase");
  phase.seconds = json.at("seconds");
  phase.cpu_seconds = json.at("client_cpu_seconds");
  for (const auto& [name, entry] : json.at("by_operation").items()) {
    const auto kind = static_cast<std::size_t>(ReadKind(name));
    phase.operations[kind] = entry.at("operations");
    phase.latency[kind].Merge(ReadLatency(entry.at("latency")));
  }
  phase.cut_short = json.value("cut_short", false);
  phase.interval_seconds = json.at("interval_seconds");
  for (const Json& interval : json.at("series")) {
    phase.series.push_back({interval.at("operations"), ReadLatency(interval.at("latency"))});
  }
  if (!(phase.seconds >= 0) || (!phase.series.empty() && !(phase.interval_seconds > 0))) {
    throw Contradiction{"a time is not positive"};
  }
  for (const ClientCounter& counter : kClientCounters) {
    phase.client.*counter.member = json.at("client").at(counter.name);
  }
  for (const auto& [name, growth] : json.at("server").items()) phase.server[name] = growth;
  for (const Json& error : json.at("errors")) {
    phase.errors.Add(ReadKind(error.at("operation")), error.at("kind"),
                     error.at("first_message").get<std::string>(), error.at("count"));
  }
  return phase;
}

RunReport ReadReport(const Json& json) {
  if (json.at("format") != kFormat) throw Contradiction{"it has another format"};
  RunReport report;
  for (const auto& [name, value] : json.at("settings").items()) report.settings.emplace_back(name, value);
  for (const Json& phase : json.at("phases")) report.phases.push_back(ReadPhase(phase));
  return report;
}

template <typename Read>
auto Parse(const std::string& text, Read read) -> absl::StatusOr<decltype(read(Json()))> {
  try {
    return read(Json::parse(text));
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("no JSON of kvbench: ", error.what()));
  } catch (const Contradiction& error) {
    return absl::InvalidArgumentError(absl::StrCat("no JSON of kvbench: ", error.what));
  }
}

}  // namespace

std::string ToJson(const PhaseResult& result) { return Text(PhaseJson(result), -1); }

std::string ToJson(const RunReport& report) {
  Json json = {{"format", kFormat}, {"version", REMORA_VERSION}, {"settings", Json::object()}};
  for (const auto& [name, value] : report.settings) json["settings"][name] = value;
  json["phases"] = Json::array();
  for (const PhaseResult& phase : report.phases) json["phases"].push_back(PhaseJson(phase));
  json["errors"] = report.errors();
  return Text(json, 1) + "\n";
}

absl::StatusOr<PhaseResult> ParsePhase(const std::string& json) { return Parse(json, ReadPhase); }
absl::StatusOr<RunReport> ParseReport(const std::string& json) { return Parse(json, ReadReport); }

}  // namespace remora::bench
