// The command line of kvgate.
#pragma once

#include <optional>
#include <vector>

#include "rdma/address.h"
#include "tools/kvgate/gate_state.h"

namespace remora::kvgate {

struct Flags {
  GateOptions gate;
  std::vector<rdma::Address> listen;  // gate.listen, parsed
  bool insecure_open = false;
};

/// Fills `flags`. Returns the exit status where there is nothing to run: after --help, or an error, which it
/// prints.
std::optional<int> ParseFlags(int argc, char** argv, Flags* flags);

}  // namespace remora::kvgate
