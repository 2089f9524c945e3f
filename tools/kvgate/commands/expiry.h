// Times at which keys expire, as commands say them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/base/clock.h"

namespace remora::kvgate {

/// Form of a time in an argument.
enum class TimeForm : std::uint8_t {
  kSeconds = 1,
  kMilliseconds = 2,
  kUnixSeconds = 3,
  kUnixMilliseconds = 4
};

inline bool IsUnix(TimeForm form) { return form >= TimeForm::kUnixSeconds; }
inline bool IsInSeconds(TimeForm form) {
  return form == TimeForm::kSeconds || form == TimeForm::kUnixSeconds;
}

/// A time, as it was given and as the store takes it.
struct ExpiryTime {
  std::int64_t unix_ms = 0;          // by the gate's clock, if the time was given as a span
  bool is_over = false;              // by the gate's clock
  std::chrono::milliseconds ttl{0};  // unless it is over
};

/// Reads a number as a time. Returns nothing if it has no number of 64 bits in milliseconds. A time behind
/// kMaxExpiry, in 36 million years, becomes kMaxExpiry.
std::optional<ExpiryTime> MakeExpiry(std::int64_t number, TimeForm form, const Clock& clock);

/// Returns Redis's error for a time that is out of bounds.
std::string InvalidExpiry(std::string_view command);

}  // namespace remora::kvgate
