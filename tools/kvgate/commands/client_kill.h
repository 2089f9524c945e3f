// CLIENT KILL.
#pragma once

#include <string_view>

#include "tools/kvgate/call.h"

namespace remora::kvgate {

/// Ends connections: by their address, or by all of several filters.
void ClientKill(Call& call);

/// Returns whether Redis knows clients of this type. Those of a gate are "normal" or "pubsub".
bool IsClientType(std::string_view text);

}  // namespace remora::kvgate
