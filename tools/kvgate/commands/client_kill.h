// CLIENT KILL.
#pragma once

#include "tools/kvgate/call.h"

namespace remora::kvgate {

/// Ends connections: by their address, or by all of several filters.
void ClientKill(Call& call);

}  // namespace remora::kvgate
