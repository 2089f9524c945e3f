// Files of secrets: read only where others cannot read or change them.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace remora::rdma {

/// Returns the content of a file, of 1 MiB at most. Messages do not name the file.
///
/// - NotFound.
/// - PermissionDenied: it cannot be read, or others could read or change it (says what to do).
/// - InvalidArgument: no regular file, or too large.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path);

}  // namespace remora::rdma
