// The tables of several reports, and what stands beside them.
#pragma once

#include <string>
#include <vector>

#include "bench/kvbench/load/result.h"
#include "bench/kvbench/report/report.h"
#include "bench/kvbench/report/table.h"

namespace remora::bench {

/// Returns the phase that is shown in charts and medians: the run, or what there is; null: nothing.
const PhaseResult* ShownPhase(const RunReport& report);

/// A row for each phase and kind of operation. With several reports, rates have a ratio to the first one's.
Table SummaryTable(const std::vector<NamedReport>& reports);

/// A row for each kind of operation in runs with the same settings; empty: no two are alike.
Table MediansTable(const std::vector<NamedReport>& reports);

/// A row for each name that a report has in `texts`, and a column for each report.
Table TextsTable(const char* heading, const std::vector<NamedReport>& reports, Texts RunReport::*texts);

/// Names the settings of records, values and placement in which the reports differ, and the properties of
/// the machines: their numbers then say little about each other. Empty: they do not differ.
std::vector<std::string> Warnings(const std::vector<NamedReport>& reports);

/// A line for each kind of error in each phase.
std::vector<std::string> ErrorLines(const std::vector<NamedReport>& reports);

}  // namespace remora::bench
