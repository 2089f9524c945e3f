// Output of kvbench: a table for people, and other programs' formats.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/kvbench/load/result.h"
#include "bench/kvbench/options.h"
#include "bench/kvbench/report/environment.h"

namespace remora::bench {

/// One run of kvbench, as it is kept in a file, and shown again.
struct RunReport {
  /// Settings of the run, by the names of properties, as text; in order.
  Texts settings;
  std::vector<PhaseResult> phases;
  Texts environment;       // when it began; empty in a report of an earlier version
  bool cut_short = false;  // by a signal, in the last phase or behind it

  std::uint64_t errors() const;
};

RunReport MakeReport(const BenchOptions& options, Texts environment, std::vector<PhaseResult> phases);

// --- For people (report.cc) ---------------------------------------------------------------------------

/// Describes the coming run in two lines.
std::string DescribeRun(const BenchOptions& options);

/// The heading of the table, and the rows of one phase with what belongs to it.
std::string TableHeading();
std::string TableRows(const BenchOptions& options, const PhaseResult& result);

/// The errors, one line for each kind; empty when there are none.
std::string DescribeErrors(const PhaseResult& result);

/// "1234567" as "1,234,567".
std::string Grouped(std::uint64_t number);
/// A duration with three digits or more, in the unit that suits.
std::string TimeText(double ns);

// --- For programs -------------------------------------------------------------------------------------

/// One row for each phase and kind of operation, and one for each interval of the time series, after a
/// heading (formats.cc).
std::string ToCsv(const RunReport& report);

/// The summary that YCSB prints of a phase (formats.cc): lines of `[READ], 99thPercentileLatency(us), 1.234`.
std::string ToYcsb(const PhaseResult& result);

struct NamedReport {
  std::string name;
  RunReport report;
};

/// One page with tables and charts, which compares the reports if there are several, and has the medians of
/// those with the same settings (html.cc). Well-formed XML that needs no other file. `curves`: as Curves
/// makes them, to be shown instead.
std::string ToHtml(const std::vector<NamedReport>& reports, const std::string& curves = {});

/// Returns the tables of that page as text for a terminal (text.cc).
std::string ToText(const std::vector<NamedReport>& reports);

/// How throughput and latency change with a setting, with a line for each workload and depth (curves.cc); of
/// several runs at one point, the one of the median throughput.
/// InvalidArgument: a report has no such setting, or it is no number. REQUIRES: one report at least.
absl::StatusOr<std::string> Curves(const std::vector<NamedReport>& reports, std::string_view setting);

/// docs/reference/kvbench.md describes it (json.cc).
std::string ToJson(const RunReport& report);
std::string ToJson(const PhaseResult& result);

/// Reads the output of ToJson. InvalidArgument: it is something else, or numbers in it contradict each other.
absl::StatusOr<RunReport> ParseReport(const std::string& json);
absl::StatusOr<PhaseResult> ParsePhase(const std::string& json);

}  // namespace remora::bench
