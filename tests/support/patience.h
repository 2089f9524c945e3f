// How long tests wait for something that is to happen.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace remora {

/// Returns `full`, or ten seconds at most in a run with a deliberate fault (tests/mutation). Such a run waits
/// in vain, and its test fails in any case.
inline std::chrono::seconds Patience(std::chrono::seconds full) {
  return std::getenv("REMORA_MUTANT") == nullptr ? full : std::min(full, std::chrono::seconds(10));
}

}  // namespace remora
