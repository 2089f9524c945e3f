// Failures of which the system says that it is short of something: descriptors, memory, or room in a file
// that a limit bounds. They have the code of their call, and a mark, which programs exit by.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace remora {

inline constexpr std::array kShortageErrors = {EMFILE, ENFILE, ENOMEM, EFBIG};

inline constexpr absl::string_view kShortageMark = "remora/shortage";

/// Returns whether errno has one of these.
inline bool IsShortage(int error) {
  return std::ranges::find(kShortageErrors, error) != kShortageErrors.end();
}

inline absl::Status MarkedAsShortage(absl::Status status) {
  status.SetPayload(kShortageMark, absl::Cord());
  return status;
}

inline bool IsShortage(const absl::Status& status) { return status.GetPayload(kShortageMark).has_value(); }

}  // namespace remora
