// Files of secrets: read only where others cannot read or change them.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace remora::rdma {

/// All that is in it; 1 MiB at most. NotFound. PermissionDenied: it cannot be read, or others could read or
/// change it (says what to do). InvalidArgument: no regular file, or too large. Messages do not name it.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path);

}  // namespace remora::rdma
