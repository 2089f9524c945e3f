// Reports as CSV, and in YCSB's words.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "bench/kvbench/report/report.h"

namespace remora::bench {
namespace {

void CsvRow(std::string* csv, const PhaseResult& phase, const char* operation, double begin, double end,
            std::uint64_t operations, const ValueBytes& bytes, const Histogram& latency) {
  const auto rate = [begin, end](std::uint64_t count) {
    return end > begin ? static_cast<double>(count) / (end - begin) : 0;
  };
  absl::StrAppendFormat(csv, "%s,%s,%.6f,%.6f,%d,%.6g,%.6g,%d", phase.name, operation, begin, end, operations,
                        rate(operations), latency.mean(), latency.min());
  for (const NamedQuantile& quantile : kQuantiles) {
    absl::StrAppendFormat(csv, ",%d", latency.Quantile(quantile.fraction));
  }
  absl::StrAppendFormat(csv, ",%d,%d,%d,%.6g,%.6g\n", latency.max(), bytes.read, bytes.written,
                        rate(bytes.read), rate(bytes.written));
}

const char* YcsbName(OperationKind kind) {
  switch (kind) {
    case OperationKind::kInsert:
      return "INSERT";
    case OperationKind::kRead:
      return "READ";
    case OperationKind::kUpdate:
      return "UPDATE";
    case OperationKind::kReadModifyWrite:
      return "READ-MODIFY-WRITE";
    case OperationKind::kScan:
      break;
  }
  return "SCAN";
}

}  // namespace

std::string ToCsv(const RunReport& report) {
  std::string csv =
      "phase,operation,begin_seconds,end_seconds,operations,operations_per_second,mean_ns,min_ns";
  for (const NamedQuantile& quantile : kQuantiles) absl::StrAppend(&csv, ",", quantile.json_name, "_ns");
  csv +=
      ",max_ns,value_bytes_read,value_bytes_written,value_bytes_read_per_second,"
      "value_bytes_written_per_second\n";
  for (const PhaseResult& phase : report.phases) {
    for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
      if (phase.operations[kind] == 0) continue;
      CsvRow(&csv, phase, kOperationNames[kind], 0, phase.seconds, phase.operations[kind], phase.bytes[kind],
             phase.latency[kind]);
    }
    double begin = 0;
    for (const Interval& interval : phase.series) {
      Histogram latency;
      latency.Merge(interval.latency);
      const double end = std::max(begin, std::min(begin + phase.interval_seconds, phase.seconds));
      CsvRow(&csv, phase, "all", begin, end, interval.operations, interval.bytes, latency);
      begin = end;
    }
  }
  return csv;
}

std::string ToYcsb(const PhaseResult& result) {
  std::string text;
  absl::StrAppendFormat(&text, "[OVERALL], RunTime(ms), %.0f\n", result.seconds * 1e3);
  absl::StrAppendFormat(&text, "[OVERALL], Throughput(ops/sec), %.6f\n",
                        result.per_second(result.all_operations()));
  for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
    const char* const name = YcsbName(static_cast<OperationKind>(kind));
    const Histogram& latency = result.latency[kind];
    if (result.operations[kind] > 0) {
      absl::StrAppendFormat(&text, "[%s], Operations, %d\n", name, result.operations[kind]);
      absl::StrAppendFormat(&text, "[%s], AverageLatency(us), %.3f\n", name, latency.mean() / 1e3);
      absl::StrAppendFormat(&text, "[%s], MinLatency(us), %.3f\n", name,
                            static_cast<double>(latency.min()) / 1e3);
      absl::StrAppendFormat(&text, "[%s], MaxLatency(us), %.3f\n", name,
                            static_cast<double>(latency.max()) / 1e3);
      for (const NamedQuantile& quantile : kQuantiles) {
        absl::StrAppendFormat(&text, "[%s], %sPercentileLatency(us), %.3f\n", name, quantile.ycsb_name,
                              static_cast<double>(latency.Quantile(quantile.fraction)) / 1e3);
      }
      absl::StrAppendFormat(&text, "[%s], Return=OK, %d\n", name, result.operations[kind]);
    }
    for (const auto& [key, entry] : result.errors.entries()) {
      if (key.first != static_cast<OperationKind>(kind)) continue;
      const std::string code = absl::StrReplaceAll(absl::AsciiStrToUpper(key.second), {{" ", "_"}});
      absl::StrAppendFormat(&text, "[%s], Return=%s, %d\n", name, code, entry.count);
    }
  }
  return text;
}

}  // namespace remora::bench
