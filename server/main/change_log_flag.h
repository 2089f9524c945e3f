// The flag --change_log: changes that a server without a data directory keeps for watches.
#pragma once

#include "absl/status/status.h"
#include "server/main/flags.h"
#include "tools/command_line/command_line.h"

namespace remora {

/// Adds --change_log.
void AddChangeLogFlag(command_line::CommandLine& line, Flags* flags);

/// Checks it. REQUIRES: --durability is taken over. InvalidArgument: it is too small or too large, or the
/// server has a log on disk.
absl::Status CheckChangeLogFlag(const Flags& flags);

}  // namespace remora
