// kvbench's command line.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "bench/kvbench/load/target.h"
#include "bench/kvbench/load/workload.h"

namespace remora::bench {

/// Format of the printed output.
enum class OutputFormat : std::uint8_t {
  kTable = 1,  // for people
  kYcsb = 2,   // YCSB's summary lines
};

struct BenchOptions {
  bool load = false;
  bool run = false;
  bool floor = false;  // instead of the run
  Workload workload;
  std::uint32_t processes = 1;
  /// Process whose CPU time is reported with the server's counters; 0: none.
  pid_t server_pid = 0;
  TargetOptions target;
  OutputFormat format = OutputFormat::kTable;
  // Files that are written beside it; empty: none.
  std::string json_path;
  std::string csv_path;
  std::string html_path;
  /// Not empty: nothing is run; these JSON files are shown instead.
  std::vector<std::string> reports;
  /// A setting by which they are to be shown; empty: beside each other.
  std::string by;
};

/// Returns the options, or the status to exit with when there is nothing to run: 0 after --help and
/// --version, 64 (EX_USAGE of sysexits.h) when the command line is wrong. Its message was printed then.
std::variant<BenchOptions, int> ParseCommandLine(int argc, const char* const* argv);

}  // namespace remora::bench
