#include <sysexits.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <variant>

#include "absl/status/status.h"
#include "bench/kvbench/kvbench.h"
#include "bench/kvbench/options.h"
#include "store/base/clock.h"
#include "store/base/standard_streams.h"

int main(int argc, char** argv) {
  if (const absl::Status streams = remora::OccupyStandardStreams(); !streams.ok()) {
    std::cerr << "kvbench: " << streams.message() << '\n';
    return EX_OSERR;
  }
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond `ulimit -f` fails by itself
  const auto parsed = remora::bench::ParseCommandLine(argc, argv);
  if (const int* status = std::get_if<int>(&parsed)) return *status;
  const remora::SteadyClock clock;
  const int status = remora::bench::RunBench(std::get<remora::bench::BenchOptions>(parsed), clock,
                                             isatty(STDERR_FILENO) != 0, std::cout, std::cerr);
  std::cout.flush();
  if (std::cout.good()) return status;
  std::cerr << "kvbench: standard output cannot be written; redirect it elsewhere\n";
  return EX_IOERR;
}
