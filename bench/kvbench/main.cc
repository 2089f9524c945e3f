#include <sysexits.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <ostream>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "bench/kvbench/kvbench.h"
#include "bench/kvbench/load/interruption.h"
#include "bench/kvbench/options.h"
#include "store/base/standard_streams.h"
#include "tools/command_line/say.h"

int main(int argc, char** argv) {
  remora::command_line::EndWithoutMemory("kvbench");

  if (const absl::Status streams = remora::OccupyStandardStreams(); !streams.ok()) {
    remora::command_line::SayError("kvbench: " + std::string(streams.message()));
    return EX_OSERR;
  }
  // A write beyond `ulimit -f`, or to a pipe that nobody reads any more, fails by itself.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  const auto parsed = remora::bench::ParseCommandLine(argc, argv);
  if (const int* status = std::get_if<int>(&parsed)) return *status;
  const remora::bench::BenchClock clock;
  // Not std::cerr: results are not to be lost where nobody reads the errors.
  remora::command_line::ErrorBuffer error_buffer;
  std::ostream errors(&error_buffer);
  const int status = remora::bench::RunBench(std::get<remora::bench::BenchOptions>(parsed), clock,
                                             isatty(STDERR_FILENO) != 0, std::cout, errors);
  std::cout.flush();
  if (std::cout.good()) return status;
  remora::command_line::SayError("kvbench: standard output cannot be written; redirect it elsewhere");
  return EX_IOERR;
}
