// The gate of --redis: a kvgate that the server starts beside itself (child_program.h).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/main/child_program.h"

namespace remora {

/// Returns the path of the kvgate beside this program. NotFound: there is none that may be run.
absl::StatusOr<std::string> FindGate();

/// Returns OK if the address is redis://HOST:PORT or redis:///PATH, and other machines do not reach it, or
/// may (`is_open`). Else InvalidArgument, which says what to do.
absl::Status CheckGateAddress(std::string_view address, bool is_open);

}  // namespace remora
