// HELP of the commands that have subcommands.
#pragma once

#include "tools/kvgate/call.h"
#include "tools/kvgate/command_table.h"

namespace remora::kvgate {

/// Replies to HELP, the first argument of a command with subcommands: a line of what it is, then two for each
/// subcommand. Returns false, and does nothing, if it is another subcommand.
bool RepliedHelp(Call& call);

/// Returns whether the first argument of the command names what it does.
bool HasSubcommands(const Command& command);

/// Returns the name of the command, with that of its subcommand if it has such a one: "client|list".
const char* FullName(const Command& command, const Request& request);

}  // namespace remora::kvgate
