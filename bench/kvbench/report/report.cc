#include "bench/kvbench/report/report.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/kvbench/report/units.h"
#include "store/format/types/write_options.h"
#include "tools/command_line/say.h"

namespace remora::bench {
namespace {

const char* DistributionName(const Workload& workload) {
  switch (workload.distribution.kind) {
    case RequestDistribution::Kind::kUniform:
      return "uniform";
    case RequestDistribution::Kind::kZipfian:
      return "zipfian";
    case RequestDistribution::Kind::kLatest:
      return "latest";
    case RequestDistribution::Kind::kHotspot:
      return "hotspot";
    case RequestDistribution::Kind::kExponential:
      return "exponential";
    case RequestDistribution::Kind::kSequential:
      break;
  }
  return "sequential";
}

bool IsEmbedded(const BenchOptions& options) { return IsInProcess(options.target.address); }

// "95 % read, 5 % update".
std::string DescribeMix(const Mix& mix) {
  std::string text;
  const auto part = [&text](const char* name, double share) {
    if (share > 0) absl::StrAppendFormat(&text, "%s%.4g %% %s", text.empty() ? "" : ", ", share * 100, name);
  };
  part("read", mix.read);
  part("update", mix.update);
  part("insert", mix.insert);
  part("read-modify-write", mix.read_modify_write);
  part("scan", mix.scan);
  return text;
}

const char* LengthsName(Fields::Lengths lengths) {
  switch (lengths) {
    case Fields::Lengths::kConstant:
      return "constant";
    case Fields::Lengths::kUniform:
      return "uniform";
    case Fields::Lengths::kHistogram:
      return "histogram";
    case Fields::Lengths::kZipfian:
      break;
  }
  return "zipfian";
}

// "64 bytes", "10 x up to 100 bytes (uniform)" or "4096 to 65536 bytes (zipfian)".
std::string DescribeFields(const Fields& fields) {
  const bool is_constant = fields.lengths == Fields::Lengths::kConstant;
  std::string text;
  if (fields.count > 1 || (!is_constant && fields.least == 1)) absl::StrAppend(&text, fields.count, " x ");
  if (!is_constant && fields.least == 1) text += "up to ";
  if (!is_constant && fields.least > 1) absl::StrAppend(&text, fields.least, " to ");
  absl::StrAppend(&text, fields.longest(), " bytes");
  if (!is_constant) absl::StrAppend(&text, " (", LengthsName(fields.lengths), ")");
  return text;
}

// Describes the work of the server, and the use of the READs. Nothing for an embedded store.
std::string DescribeWork(const PhaseResult& result) {
  std::string text;
  const auto reads = result.operations[static_cast<std::size_t>(OperationKind::kRead)];
  // Told where each read is an operation: a read-modify-write would count as none.
  if (reads > 0 && result.operations[static_cast<std::size_t>(OperationKind::kReadModifyWrite)] == 0) {
    absl::StrAppendFormat(&text,
                          "        client: %.3f READs per read, %d GETs begun again, %d answered by the "
                          "server, %d of them not in its memory\n",
                          static_cast<double>(result.client.reads) / static_cast<double>(reads),
                          result.client.retries, result.client.locates, result.client.cold);
    if (result.client.generation_reads > 0) {
      absl::StrAppendFormat(
          &text, "        locations: %.1f %% of reads, %d false hits, %d READs of the generation\n",
          100 * static_cast<double>(result.client.location_hits) / static_cast<double>(reads),
          result.client.location_false_hits, result.client.generation_reads);
    }
    if (result.client.mirror_reads > 0) {
      absl::StrAppendFormat(&text, "        mirror: %d false hits, %d READs of %d bytes for upkeep\n",
                            result.client.mirror_false_hits, result.client.mirror_reads,
                            result.client.mirror_read_bytes);
    }
  }
  const auto counter = [&result](const char* name) {
    const auto found = result.server.find(name);
    return found == result.server.end() ? std::uint64_t{0} : found->second;
  };
  if (const std::uint64_t ns = counter("processor_ns"), operations = result.all_operations();
      ns > 0 && operations > 0) {
    absl::StrAppendFormat(&text, "        server: %.3f processor seconds per million operations\n",
                          static_cast<double>(ns) * 1e-3 / static_cast<double>(operations));
  }
  if (result.server.count("receive_completions") > 0) {
    absl::StrAppendFormat(
        &text, "        server: %s requests, %s commit groups, %s wake-ups, %s bytes written, %s moved\n",
        Grouped(counter("receive_completions")), Grouped(counter("commit_groups")),
        Grouped(counter("wakeups")), Grouped(counter("bytes_written")), Grouped(counter("bytes_moved")));
  }
  return text;
}

// Two columns in MB/s: the heading stands before anything was measured.
std::string BandwidthCells(const PhaseResult& result, const ValueBytes& bytes) {
  const auto text = [&result](std::uint64_t count) {
    return count == 0 ? "-" : NumberIn(kByteRateUnits[0], result.per_second(count));
  };
  return absl::StrFormat("%10s %12s", text(bytes.read), text(bytes.written));
}

}  // namespace

std::string Grouped(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string TimeText(double ns) {
  if (ns < 1e4) return absl::StrFormat("%.0f ns", ns);
  if (ns < 1e7) return absl::StrFormat("%.1f us", ns * 1e-3);
  if (ns < 1e10) return absl::StrFormat("%.1f ms", ns * 1e-6);
  return absl::StrFormat("%.1f s", ns * 1e-9);
}

std::uint64_t RunReport::errors() const {
  std::uint64_t total = 0;
  for (const PhaseResult& phase : phases) total += phase.errors.total();
  return total;
}

RunReport MakeReport(const BenchOptions& options, Texts environment, std::vector<PhaseResult> phases) {
  const Workload& workload = options.workload;
  RunReport report{{}, std::move(phases), std::move(environment)};
  const auto add = [&report](const char* name, const auto& value) {
    report.settings.emplace_back(name, std::string(absl::StrCat(value)));
  };
  add("target", options.target.address);
  if (IsEmbedded(options)) {
    add("durability", DurabilityName(options.target.store.durability));
    add("memory_bytes", options.target.store.memory_size);
  }
  add("workload", workload.name);
  add("mix", DescribeMix(workload.mix));
  add("readproportion", workload.mix.read);
  add("requestdistribution", DistributionName(workload));
  add("recordcount", workload.records);
  add("operationcount", workload.operations);
  add("maxexecutiontime", workload.max_seconds);
  add("target_per_second", workload.rate);
  add("threadcount", workload.threads);
  add("processes", options.processes);
  add("depth", workload.depth);
  add("fieldcount", workload.fields.count);
  add("fieldlength", workload.fields.longest());
  add("fieldlengthdistribution", LengthsName(workload.fields.lengths));
  if (workload.fields.lengths != Fields::Lengths::kConstant) add("minfieldlength", workload.fields.least);
  add("seed", workload.seed);
  add("dataintegrity", workload.verify ? "true" : "false");
  return report;
}

std::string DescribeRun(const BenchOptions& options) {
  const Workload& workload = options.workload;
  std::string text = absl::StrFormat("kvbench: %s", command_line::Printable(options.target.address));
  if (IsEmbedded(options)) {
    absl::StrAppendFormat(&text, ", %s, %s bytes of memory", DurabilityName(options.target.store.durability),
                          Grouped(options.target.store.memory_size));
  }
  absl::StrAppendFormat(&text, "\n         %s records of %d + %s, ", Grouped(workload.records),
                        KeyMaker(workload.keys).Make(workload.first_record).size(),
                        DescribeFields(workload.fields));
  if (options.processes > 1) absl::StrAppendFormat(&text, "%d processes of ", options.processes);
  absl::StrAppendFormat(&text, "%d thread%s", workload.threads, workload.threads == 1 ? "" : "s");
  if (workload.depth > 1) {
    absl::StrAppendFormat(&text, ", %d %s", workload.depth,
                          options.target.batch ? "in a batch" : "in flight");
  }
  if (options.run) {
    absl::StrAppendFormat(&text, "; workload %s (%s), %s, seed %d", command_line::Printable(workload.name),
                          DescribeMix(workload.mix), DistributionName(workload), workload.seed);
    if (workload.rate > 0) absl::StrAppendFormat(&text, ", %.6g operations/s", workload.rate);
    if (workload.verify) text += ", values verified";
  }
  return text + "\n";
}

std::string TableHeading() {
  std::string text = absl::StrFormat("%-5s %-7s %14s %14s %10s %12s %10s", "", "", "operations", "per second",
                                     "read MB/s", "written MB/s", "mean");
  for (const NamedQuantile& quantile : kQuantiles) absl::StrAppendFormat(&text, " %10s", quantile.name);
  return text + absl::StrFormat(" %10s\n", "max");
}

std::string TableRows(const BenchOptions& options, const PhaseResult& result) {
  std::string text;
  for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
    const std::uint64_t operations = result.operations[kind];
    if (operations == 0) continue;
    const Histogram& latency = result.latency[kind];
    absl::StrAppendFormat(&text, "%-5s %-7s %14s %14s %s %10s", result.name, kOperationNames[kind],
                          Grouped(operations),
                          Grouped(static_cast<std::uint64_t>(result.per_second(operations))),
                          BandwidthCells(result, result.bytes[kind]), TimeText(latency.mean()));
    for (const NamedQuantile& quantile : kQuantiles) {
      absl::StrAppendFormat(&text, " %10s",
                            TimeText(static_cast<double>(latency.Quantile(quantile.fraction))));
    }
    absl::StrAppendFormat(&text, " %10s\n", TimeText(static_cast<double>(latency.max())));
  }
  const std::uint64_t all = result.all_operations();
  absl::StrAppendFormat(&text, "%-5s %-7s %14s %14s %s in %.3f s%s; client CPU %.3f s", result.name, "all",
                        Grouped(all), Grouped(static_cast<std::uint64_t>(result.per_second(all))),
                        BandwidthCells(result, result.all_bytes()), result.seconds,
                        result.cut_short ? ", cut short" : "", result.cpu_seconds);
  if (all > 0) {
    absl::StrAppendFormat(&text, " (%.2f cores, %s per operation)", result.cpu_seconds / result.seconds,
                          TimeText(result.cpu_seconds * 1e9 / static_cast<double>(all)));
  }
  text += "\n";
  if (!IsEmbedded(options)) text += DescribeWork(result);
  return text;
}

std::string DescribeErrors(const PhaseResult& result) {
  std::string text;
  for (const auto& [key, entry] : result.errors.entries()) {
    absl::StrAppendFormat(&text, "kvbench: %s: %s: %s x %s; first: %s\n", result.name,
                          kOperationNames[static_cast<std::size_t>(key.first)], Grouped(entry.count),
                          command_line::Printable(key.second), command_line::Printable(entry.first_message));
  }
  return text;
}

}  // namespace remora::bench
