// What kvbench says: a table for people, a flat JSON object for programs.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "bench/driver.h"
#include "bench/options.h"

namespace remora::bench {

/// Two lines: what is about to run.
std::string DescribeRun(const BenchOptions& options);

/// The heading of the table, and the rows of one phase with what belongs to it.
std::string TableHeading();
std::string TableRows(const BenchOptions& options, const PhaseResult& result);

/// The errors, one line for each kind; empty when there are none.
std::string DescribeErrors(const PhaseResult& result);

/// One object without nesting. Latencies are in nanoseconds; a key's phase and operation come first:
/// "run_read_p99_ns". What was not measured is left out.
std::string ToJson(const BenchOptions& options, std::span<const PhaseResult> results);

}  // namespace remora::bench
