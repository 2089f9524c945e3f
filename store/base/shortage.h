// Causes of a failure, as marks of its status. The status keeps the code of its call; programs choose their
// exit status by the mark, and a reply carries it to the client (ReplyFlag).
//
//   shortage  The system is short of something: descriptors, memory, or space in a file that a limit bounds.
//   disk      The disk under a store is full, or fails.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace remora {

inline constexpr std::array kShortageErrors = {EMFILE, ENFILE, ENOMEM, EFBIG};

/// The part of an error's text that names a shortage.
inline constexpr absl::string_view kShortageText =
    "the system is short of descriptors or memory right now, or a file is as large as may be (ulimit -n, -f, "
    "-v)";

inline constexpr absl::string_view kShortageMark = "remora/shortage";
inline constexpr absl::string_view kDiskMark = "remora/disk";

/// Returns whether errno has one of these.
inline bool IsShortage(int error) {
  return std::ranges::find(kShortageErrors, error) != kShortageErrors.end();
}

inline bool IsShortage(const absl::Status& status) { return status.GetPayload(kShortageMark).has_value(); }
inline bool IsDiskFailure(const absl::Status& status) { return status.GetPayload(kDiskMark).has_value(); }

inline absl::Status MarkedAsShortage(absl::Status status) {
  status.SetPayload(kShortageMark, absl::Cord());
  return status;
}

inline absl::Status MarkedAsDiskFailure(absl::Status status) {
  status.SetPayload(kDiskMark, absl::Cord());
  return status;
}

/// Marks the failure of a call on a file by its errno.
inline absl::Status MarkedByErrno(int error, absl::Status status) {
  return IsShortage(error) ? MarkedAsShortage(std::move(status)) : MarkedAsDiskFailure(std::move(status));
}

/// Returns `status`, which says more about `cause`, with the marks of `cause`.
inline absl::Status WithMarksOf(const absl::Status& cause, absl::Status status) {
  if (IsShortage(cause)) status = MarkedAsShortage(std::move(status));
  if (IsDiskFailure(cause)) status = MarkedAsDiskFailure(std::move(status));
  return status;
}

}  // namespace remora
