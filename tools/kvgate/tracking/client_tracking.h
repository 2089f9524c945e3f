// The subcommands of CLIENT for tracking, and the keys that commands read.
#pragma once

#include "tools/kvgate/call.h"
#include "tools/kvgate/command_table.h"

namespace remora::kvgate {

/// CLIENT TRACKING. The reply to ON waits for the watch of the server's changes.
Task<void> ClientTracking(Call& call);
void ClientCaching(Call& call);
void ClientGetRedirect(Call& call);
void ClientTrackingInfo(Call& call);

/// Ends the tracking of the client, if it tracks.
void EndTracking(Session& session, GateState& gate);

/// Registers the keys of a read, which has not begun. REQUIRES: the client tracks.
void RegisterKeys(Tracking& tracking, const Command& command, const Request& request);

/// Registers the keys of all reads of a transaction, which has not begun. A command in it may be CLIENT
/// CACHING: then also those of reads that Redis would leave out.
void RegisterQueue(Session& session, const CommandQueue& queue);

/// Has CLIENT CACHING end behind a command, other than CLIENT itself.
void EndCaching(const Call& call);

}  // namespace remora::kvgate
