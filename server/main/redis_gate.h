// The gate of --redis: a kvgate that the server starts beside itself (child_program.h).
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/main/child_program.h"
#include "server/main/flags.h"
#include "tools/command_line/command_line.h"

namespace remora {

/// Returns the path of the kvgate beside this program. NotFound: there is none that may be run.
absl::StatusOr<std::string> FindGate();

/// Adds --redis, and the flags that need it.
void AddGateFlags(command_line::CommandLine& line, GateFlags* gate);

/// InvalidArgument: the gate of --redis could not serve at its addresses, not be a client of this server, or
/// not be a node of --cluster_nodes. REQUIRES: `listen` is taken over.
absl::Status CheckGateFlags(const Flags& flags);

/// Returns the flag of a gate for one server, which it reaches by a local address. Empty: there is no gate.
std::string GatesServer(const Flags& flags);
/// Returns how to run and watch the gate; the caller sets `log`, `on_ready` and `on_failure`. `path`: of
/// FindGate. `servers`: the gate's flag for the servers that it reaches.
ChildProgramOptions GateProgram(const Flags& flags, std::string path, std::string servers);

}  // namespace remora
