// The tables of a page.
#pragma once

#include <string>
#include <vector>

#include "bench/kvbench/load/result.h"
#include "bench/kvbench/report/report.h"

namespace remora::bench {

/// Returns the phase that is shown in charts and medians: the run, or what there is; null: nothing.
const PhaseResult* ShownPhase(const RunReport& report);

/// A row for each phase and kind of operation. With several reports, rates have a ratio to the first one's.
std::string SummaryTable(const std::vector<NamedReport>& reports);

/// A row for each kind of operation in runs with the same settings; empty: no two are alike.
std::string MediansTable(const std::vector<NamedReport>& reports);

/// A row for each name that a report has in `texts`, and a column for each report.
std::string TextsTable(const char* heading, const std::vector<NamedReport>& reports, Texts RunReport::*texts);

}  // namespace remora::bench
