// Versions that are greater than all that were given up to a moment.
//
// A store gives the versions 1, 2, 3 and so on. If it gives fewer than 2^22 a second on the long average, and
// nobody sets the clock back, then 2^22 times the seconds since 1970 exceeds them all.
#pragma once

#include <algorithm>
#include <cstdint>

#include "store/format/memory/layout.h"

namespace remora {

/// Returns a version beyond those that any store has given up to this second.
inline std::uint64_t FirstVersionOf(std::int64_t unix_s) {
  return static_cast<std::uint64_t>(std::clamp<std::int64_t>(unix_s, 0, kMaxVersion >> 22)) << 22;
}

}  // namespace remora
