// The flags of kvserver about replication.
#pragma once

#include "absl/status/status.h"
#include "server/main/flags.h"
#include "tools/command_line/command_line.h"

namespace remora {

void AddReplicationFlags(command_line::CommandLine& line, Flags* flags);

/// Takes over the followers. The file of the token is read later. REQUIRES: the addresses and the store's
/// options are taken over.
///
/// - InvalidArgument: the store has no groups to send, or an address is wrong.
absl::Status TakeReplication(Flags* flags);

/// Reads the token of --replication_token_file, if there is one. Errors are those of ReadTokens, and
/// InvalidArgument: the file has several tokens.
absl::Status ReadReplicationToken(Flags* flags);

}  // namespace remora
