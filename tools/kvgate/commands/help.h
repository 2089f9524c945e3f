// HELP of the commands that have subcommands.
#pragma once

#include "tools/kvgate/call.h"

namespace remora::kvgate {

/// Replies to HELP, the first argument of a command with subcommands: a line of what it is, then two for each
/// subcommand. Returns false, and does nothing, if it is another subcommand.
bool RepliedHelp(Call& call);

}  // namespace remora::kvgate
