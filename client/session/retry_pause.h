// The pause between attempts of a client.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "store/base/clock.h"
#include "store/base/random_id.h"

namespace remora {

/// Returns the pause before an attempt. `attempt`: how many were made. The pause begins with `first`, doubles
/// with each attempt up to `longest`, and is shortened at random by up to a half. So the clients of a server
/// do not come together.
inline Duration RetryPause(Duration first, Duration longest, int attempt) {
  constexpr int kMaxDoublings = 8;
  const Duration pause = std::min<Duration>(first * (1 << std::min(attempt, kMaxDoublings)), longest);
  return pause - pause * static_cast<std::int64_t>(RandomId() % 1024) / 2048;
}

/// Returns the pause before a call is made again whose slot is another server's. `attempt`: as for
/// RetryPause.
inline Duration MovedPause(int attempt) {
  return RetryPause(std::chrono::milliseconds(2), std::chrono::milliseconds(64), attempt);
}

}  // namespace remora
