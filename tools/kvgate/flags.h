// The command line of kvgate.
#pragma once

#include <optional>
#include <vector>

#include "tools/kvgate/gate_state.h"
#include "tools/kvgate/network/listen.h"

namespace remora::kvgate {

struct Flags {
  GateOptions gate;
  std::vector<ListenAddress> listen;  // gate.listen, parsed
  Reach reach = Reach::kLoopback;
};

/// Fills `flags`. Returns the exit status where there is nothing to run: after --help, or an error, which it
/// prints.
std::optional<int> ParseFlags(int argc, char** argv, Flags* flags);

}  // namespace remora::kvgate
