#include "bench/report.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace remora::bench {
namespace {

struct Quantile {
  const char* name;
  const char* json_name;
  double fraction;
};
constexpr Quantile kQuantiles[] = {{"p50", "p50", 0.5}, {"p99", "p99", 0.99}, {"p99.9", "p999", 0.999}};

// "1234567" as "1,234,567".
std::string Grouped(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

// Three digits or more, in the unit that suits.
std::string Time(double ns) {
  if (ns < 1e4) return absl::StrFormat("%.0f ns", ns);
  if (ns < 1e7) return absl::StrFormat("%.1f us", ns * 1e-3);
  if (ns < 1e10) return absl::StrFormat("%.1f ms", ns * 1e-6);
  return absl::StrFormat("%.1f s", ns * 1e-9);
}

std::uint64_t PerSecond(std::uint64_t operations, double seconds) {
  return seconds > 0 ? static_cast<std::uint64_t>(static_cast<double>(operations) / seconds) : 0;
}

std::string DurabilityName(const BenchOptions& options) {
  return options.target.store.durability == Durability::kLogged ? "logged" : "memory";
}

bool IsEmbedded(const BenchOptions& options) { return options.target.address == kEmbeddedTarget; }

const char* DistributionName(const BenchOptions& options) {
  return options.workload.distribution == RecordChooser::Kind::kUniform ? "uniform" : "zipfian";
}

// What the server had to do, and what the READs were good for. Nothing for an embedded store.
std::string DescribeWork(const PhaseResult& result) {
  std::string text;
  const auto reads = result.operations[static_cast<std::size_t>(OperationKind::kRead)];
  if (reads > 0) {
    absl::StrAppendFormat(&text,
                          "        client: %.3f READs per read, %d GETs begun again, %d answered by the "
                          "server, %d of them not in "
                          "its memory\n",
                          static_cast<double>(result.client.reads) / static_cast<double>(reads),
                          result.client.retries, result.client.locates, result.client.cold);
    if (result.client.location_looks > 0) {
      absl::StrAppendFormat(
          &text, "        locations: %.1f %% of reads, %d READs wasted, %d looks\n",
          100 * static_cast<double>(result.client.location_hits) / static_cast<double>(reads),
          result.client.location_wasted, result.client.location_looks);
    }
  }
  const auto counter = [&result](const char* name) {
    const auto found = result.server.find(name);
    return found == result.server.end() ? std::uint64_t{0} : found->second;
  };
  if (!result.server.empty()) {
    absl::StrAppendFormat(
        &text, "        server: %s requests, %s commit groups, %s wake-ups, %s bytes written, %s moved\n",
        Grouped(counter("receive_completions")), Grouped(counter("commit_groups")),
        Grouped(counter("wakeups")), Grouped(counter("bytes_written")), Grouped(counter("bytes_moved")));
  }
  return text;
}

// Appends `"name": value`, of which the value is JSON already.
void Field(std::string* json, std::string_view name, const std::string& value) {
  json->append(json->empty() ? "{\n  \"" : ",\n  \"").append(name).append("\": ").append(value);
}

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += absl::StrFormat("\\u%04x", c);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string Number(double number) { return absl::StrFormat("%.6g", number); }

void PhaseFields(std::string* json, const PhaseResult& result) {
  const std::string phase = result.name + "_";
  Field(json, phase + "seconds", Number(result.seconds));
  Field(json, phase + "client_cpu_seconds", Number(result.cpu_seconds));
  Field(json, phase + "operations", std::to_string(result.all_operations()));
  Field(json, phase + "operations_per_second",
        std::to_string(PerSecond(result.all_operations(), result.seconds)));
  for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
    if (result.operations[kind] == 0) continue;
    const std::string prefix = phase + kOperationNames[kind] + "_";
    const Histogram& latency = result.latency[kind];
    Field(json, prefix + "operations", std::to_string(result.operations[kind]));
    Field(json, prefix + "mean_ns", Number(latency.mean()));
    for (const Quantile& quantile : kQuantiles) {
      Field(json, absl::StrCat(prefix, quantile.json_name, "_ns"),
            std::to_string(latency.Quantile(quantile.fraction)));
    }
    Field(json, prefix + "max_ns", std::to_string(latency.max()));
  }
  Field(json, phase + "client_reads", std::to_string(result.client.reads));
  Field(json, phase + "client_requests", std::to_string(result.client.requests));
  Field(json, phase + "client_retries", std::to_string(result.client.retries));
  Field(json, phase + "client_locates", std::to_string(result.client.locates));
  Field(json, phase + "client_cold", std::to_string(result.client.cold));
  Field(json, phase + "client_location_hits", std::to_string(result.client.location_hits));
  Field(json, phase + "client_location_wasted", std::to_string(result.client.location_wasted));
  Field(json, phase + "client_location_looks", std::to_string(result.client.location_looks));
  for (const char* name :
       {"receive_completions", "wakeups", "commit_groups", "bytes_written", "bytes_moved"}) {
    const auto found = result.server.find(name);
    if (found != result.server.end()) {
      Field(json, absl::StrCat(phase, "server_", name), std::to_string(found->second));
    }
  }
  Field(json, phase + "errors", std::to_string(result.errors.total()));
}

}  // namespace

std::string DescribeRun(const BenchOptions& options) {
  const WorkloadOptions& workload = options.workload;
  std::string text = absl::StrFormat("kvbench: %s", options.target.address);
  if (IsEmbedded(options)) {
    absl::StrAppendFormat(&text, ", %s, %s bytes of memory", DurabilityName(options),
                          Grouped(options.target.store.memory_size));
  }
  absl::StrAppendFormat(&text, "\n         %s records of %d + %d bytes, %d thread%s",
                        Grouped(workload.records), kKeySize, workload.value_size, options.threads,
                        options.threads == 1 ? "" : "s");
  if (options.run) {
    absl::StrAppendFormat(&text, "; workload %c (%d %% read), %s, seed %d", workload.mix.name - 'a' + 'A',
                          workload.mix.read_percent, DistributionName(options), workload.seed);
    if (workload.rate > 0) absl::StrAppendFormat(&text, ", %.6g operations/s", workload.rate);
    if (workload.verify) text += ", values verified";
  }
  return text + "\n";
}

std::string TableHeading() {
  std::string text = absl::StrFormat("%-5s %-7s %14s %14s %10s", "", "", "operations", "per second", "mean");
  for (const Quantile& quantile : kQuantiles) absl::StrAppendFormat(&text, " %10s", quantile.name);
  return text + absl::StrFormat(" %10s\n", "max");
}

std::string TableRows(const BenchOptions& options, const PhaseResult& result) {
  std::string text;
  for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
    const std::uint64_t operations = result.operations[kind];
    if (operations == 0) continue;
    const Histogram& latency = result.latency[kind];
    absl::StrAppendFormat(&text, "%-5s %-7s %14s %14s %10s", result.name, kOperationNames[kind],
                          Grouped(operations), Grouped(PerSecond(operations, result.seconds)),
                          Time(latency.mean()));
    for (const Quantile& quantile : kQuantiles) {
      absl::StrAppendFormat(&text, " %10s", Time(static_cast<double>(latency.Quantile(quantile.fraction))));
    }
    absl::StrAppendFormat(&text, " %10s\n", Time(static_cast<double>(latency.max())));
  }
  const std::uint64_t all = result.all_operations();
  absl::StrAppendFormat(&text, "%-5s %-7s %14s %14s in %.3f s; client CPU %.3f s", result.name, "all",
                        Grouped(all), Grouped(PerSecond(all, result.seconds)), result.seconds,
                        result.cpu_seconds);
  if (all > 0) {
    absl::StrAppendFormat(&text, " (%.2f cores, %s per operation)", result.cpu_seconds / result.seconds,
                          Time(result.cpu_seconds * 1e9 / static_cast<double>(all)));
  }
  text += "\n";
  if (!IsEmbedded(options)) text += DescribeWork(result);
  return text;
}

std::string DescribeErrors(const PhaseResult& result) {
  std::string text;
  for (const auto& [kind, entry] : result.errors.entries()) {
    absl::StrAppendFormat(&text, "kvbench: %s: %s x %s; first: %s\n", result.name, Grouped(entry.count), kind,
                          entry.first_message);
  }
  return text;
}

std::string ToJson(const BenchOptions& options, std::span<const PhaseResult> results) {
  const WorkloadOptions& workload = options.workload;
  std::string json;
  Field(&json, "target", Quoted(options.target.address));
  if (IsEmbedded(options)) {
    Field(&json, "durability", Quoted(DurabilityName(options)));
    Field(&json, "memory_bytes", std::to_string(options.target.store.memory_size));
  }
  Field(&json, "workload", Quoted(std::string(1, workload.mix.name)));
  Field(&json, "distribution", Quoted(DistributionName(options)));
  Field(&json, "records", std::to_string(workload.records));
  Field(&json, "key_size", std::to_string(kKeySize));
  Field(&json, "value_size", std::to_string(workload.value_size));
  Field(&json, "threads", std::to_string(options.threads));
  Field(&json, "seed", std::to_string(workload.seed));
  Field(&json, "rate", Number(workload.rate));
  Field(&json, "verify", workload.verify ? "true" : "false");
  std::uint64_t errors = 0;
  for (const PhaseResult& result : results) {
    PhaseFields(&json, result);
    errors += result.errors.total();
  }
  Field(&json, "errors", std::to_string(errors));
  return json + "\n}\n";
}

}  // namespace remora::bench
