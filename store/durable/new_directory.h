// A directory that gets all of its files, or none.
#pragma once

#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace remora {

/// Has `fill` put files into a directory, all of them or none, and waits until the disk has the names.
///
/// If `path` is missing, its parent must exist. `fill` gets a directory beside it whose name is longer by
/// ".restore-" and six characters. That is renamed when `fill` returned OK, so `fill` syncs its files.
///
/// If `path` exists, it must be empty except for lost+found; it may be a mount point. `fill` gets a directory
/// inside it whose name begins with ".restore-". Then the files are moved out of there; that with the name
/// `last` comes last, and no program takes the others for the whole.
///
/// If the call fails, it deletes what it made. After `fill` returned, no thread may write there. Outcomes:
///   FailedPrecondition: `path` is not empty, or not a directory.
///   NotFound, PermissionDenied: the parent is missing, or this user may not write there.
///   Unavailable: the disk failed, or is full.
///   Any other: that of `fill`.
absl::Status FillNewDirectory(const std::string& path, std::string_view last,
                              absl::FunctionRef<absl::Status(const std::string& made)> fill);

}  // namespace remora
