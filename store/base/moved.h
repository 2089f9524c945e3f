// The mark of an outcome that says: the key's slot is another server's, and nothing was done.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace remora {

inline constexpr absl::string_view kMovedMark = "remora/moved";

/// Returns a FailedPrecondition with the mark.
inline absl::Status MovedError(absl::string_view text) {
  absl::Status moved = absl::FailedPreconditionError(text);
  moved.SetPayload(kMovedMark, absl::Cord());
  return moved;
}

/// Returns whether a status has the mark.
inline bool IsMoved(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) && status.GetPayload(kMovedMark).has_value();
}

}  // namespace remora
