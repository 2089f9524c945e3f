// kvbench's command line.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "bench/driver.h"
#include "bench/target.h"

namespace remora::bench {

struct BenchOptions {
  bool load = false;
  bool run = false;
  std::uint32_t threads = 1;
  WorkloadOptions workload;
  TargetOptions target;
  std::string json_path;  // empty: none
};

/// The options, or the status to exit with when there is nothing to run: 0 after --help and --version, 64
/// (EX_USAGE of sysexits.h) when the command line is wrong. What there is to say was printed then.
std::variant<BenchOptions, int> ParseCommandLine(int argc, const char* const* argv);

}  // namespace remora::bench
