#include <unistd.h>

#include <iostream>
#include <variant>

#include "bench/kvbench.h"
#include "bench/options.h"
#include "store/base/clock.h"

int main(int argc, char** argv) {
  const auto parsed = remora::bench::ParseCommandLine(argc, argv);
  if (const int* status = std::get_if<int>(&parsed)) return *status;
  const remora::SteadyClock clock;
  return remora::bench::RunBench(std::get<remora::bench::BenchOptions>(parsed), clock,
                                 isatty(STDERR_FILENO) != 0, std::cout, std::cerr);
}
