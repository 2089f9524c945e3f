// Debian's abseil is built for C++14 and has a string_view type of its own, which does not convert by itself.
#pragma once

#include <string_view>

#include "absl/strings/string_view.h"

namespace remora {

/// Converts a std::string_view for abseil: StrCat, Status.
inline absl::string_view AbslView(std::string_view text) { return {text.data(), text.size()}; }

/// The other way: Status::message.
inline std::string_view StdView(absl::string_view text) { return {text.data(), text.size()}; }

}  // namespace remora
