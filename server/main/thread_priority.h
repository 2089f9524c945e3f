// Priority of the server thread.
#pragma once

#include "absl/status/status.h"

namespace remora {

/// Gives the calling thread the nice value `nice`, from -20 to 0; 0: leaves its own. Threads and processes
/// that it starts later have 0. PermissionDenied: the process may not have so low a value.
absl::Status RaiseThreadPriority(int nice);

}  // namespace remora
