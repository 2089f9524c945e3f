// kvgate: lets programs that speak to Redis use a Remora server. See --help.
#include <malloc.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sysexits.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/main/beats.h"
#include "store/base/clock.h"
#include "store/base/shortage.h"
#include "store/base/standard_streams.h"
#include "tools/command_line/say.h"
#include "tools/kvgate/flags.h"
#include "tools/kvgate/gate.h"

namespace remora::kvgate {
namespace {

int ExitStatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
      return EX_USAGE;
    case absl::StatusCode::kAlreadyExists:
      return EX_TEMPFAIL;
    case absl::StatusCode::kPermissionDenied:
      return EX_NOPERM;
    case absl::StatusCode::kResourceExhausted:
      return EX_OSERR;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return EX_UNAVAILABLE;
    case absl::StatusCode::kFailedPrecondition:
      return EX_CANTCREAT;
    default:
      return EX_SOFTWARE;
  }
}

int Fail(const absl::Status& status) {
  command_line::SayError(absl::StrCat("kvgate: ", status.message()));
  return ExitStatusOf(status);
}

/// Lets large values go back to the system when they are freed. Otherwise the allocator would keep ever
/// larger ones after each that it frees (mallopt(3)), in pieces.
void ReturnLargeMemory() {
  constexpr int kLarge = 256 << 10;
  ::mallopt(M_MMAP_THRESHOLD, kLarge);
  ::mallopt(M_TRIM_THRESHOLD, kLarge);
}

/// Each client takes a descriptor.
void RaiseFileLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// Returns a descriptor that becomes readable at TERM and INT, in any thread.
int BlockSignals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return ::signalfd(-1, &signals, SFD_CLOEXEC);
}

int Run(int argc, char** argv) {
  Flags flags;
  if (const std::optional<int> exit_status = ParseFlags(argc, argv, &flags)) return *exit_status;
  ReturnLargeMemory();
  RaiseFileLimit();
  const int stop_fd = BlockSignals();
  if (stop_fd < 0) {
    return Fail(absl::ResourceExhaustedError("start: no descriptor is left for signals; raise ulimit -n"));
  }
  const SteadyClock clock;
  auto gate = Gate::Start(std::move(flags.gate), flags.listen, flags.reach, clock);
  if (!gate.ok()) return Fail(gate.status());
  if (std::puts("ready") < 0 || std::fflush(stdout) != 0) {
    return Fail(absl::FailedPreconditionError(
        "start: standard output takes no text; redirect it to a file or a pipe with a reader"));
  }
  const absl::Status run = (*gate)->Run(stop_fd, AskedBeats(std::getenv(kBeatVariable), ::getppid()));
  return run.ok() ? EX_OK : Fail(run);
}

}  // namespace
}  // namespace remora::kvgate

int main(int argc, char** argv) {
  remora::command_line::EndWithoutMemory("kvgate");
  if (const absl::Status streams = remora::OccupyStandardStreams(); !streams.ok()) {
    remora::command_line::SayError(absl::StrCat("kvgate: ", streams.message()));
    return EX_OSERR;
  }
  return remora::kvgate::Run(argc, argv);
}
