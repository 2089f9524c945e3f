// doctor: checks of this machine and of a server.
#include <chrono>
#include <cstdlib>
#include <optional>

#include "server/main/commit_log_size.h"
#include "tools/kvctl/doctor/doctor.h"
#include "tools/kvctl/doctor/time_limit.h"
#include "tools/kvctl/kvctl.h"

namespace remora::kvctl {

Outcome Doctor(const Arguments& arguments) {
  const std::chrono::milliseconds timeout{arguments.timeout_ms};
  const doctor::Options options = {
      .version = REMORA_VERSION,
      .address = arguments.server,
      .connect = [arguments](const Clock& clock) { return Connect(arguments, clock); },
      // The look-up of a name, and a message, may take as long each.
      .patience = 3 * timeout,
      .data_dir = arguments.data_dir,
      .memory = arguments.memory,
      .commit_log = arguments.commit_log ? ReadCommitLogSize(*arguments.commit_log) : std::nullopt,
      .device = arguments.device,
  };
  const doctor::Checks checks = doctor::RunChecks(options);
  Outcome outcome =
      WriteOutput(arguments.json ? doctor::ToJson(checks, REMORA_VERSION) : doctor::ToText(checks));
  if (Failed(outcome)) return outcome;
  if (doctor::HasProblem(checks)) outcome.exit_code = kExitProblem;
  if (doctor::is_call_left) std::_Exit(outcome.exit_code);
  return outcome;
}

}  // namespace remora::kvctl
