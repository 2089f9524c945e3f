// Decides whether a command of a connection runs now, waits for EXEC, or is rejected.
#pragma once

#include <string>
#include <string_view>

#include "tools/kvgate/call.h"
#include "tools/kvgate/command_table.h"

namespace remora::kvgate {

/// Returns whether this is a part of a request of HTTP. A browser sends one to any port of this machine that
/// a page names, with a body of the page's choice. So the connection ends there, as with a Redis.
bool IsOfHttp(const Request& request);

/// Returns the error of a command that may not run. Empty: it may.
std::string Rejection(const Call& call);

/// Replies with the error, and has EXEC do nothing if the command was for a transaction. An EXEC that is
/// itself rejected ends the transaction.
void Reject(Call& call, std::string_view rejection);

/// Returns whether the command waits for EXEC.
bool IsQueued(const Call& call);

/// Returns how the command runs beside others. One that does not exist, or waits for EXEC, is done at once.
Order OrderOfCall(const Call& call);

/// Hands the request to the transaction, and replies. REQUIRES: IsQueued(call).
void Enqueue(Call& call);

}  // namespace remora::kvgate
