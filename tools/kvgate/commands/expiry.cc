#include "tools/kvgate/commands/expiry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/format/types/expiry.h"

namespace remora::kvgate {

std::optional<ExpiryTime> MakeExpiry(std::int64_t number, TimeForm form, const Clock& clock) {
  std::int64_t given_ms = number;
  if (IsInSeconds(form) && __builtin_mul_overflow(number, std::int64_t{1000}, &given_ms)) return std::nullopt;
  const std::int64_t now_ms = clock.UnixMillis();
  ExpiryTime time{.unix_ms = given_ms};
  if (!IsUnix(form) && __builtin_add_overflow(given_ms, now_ms, &time.unix_ms)) return std::nullopt;
  time.unix_ms = std::min(time.unix_ms, static_cast<std::int64_t>(kMaxExpiry));
  time.is_over = time.unix_ms <= now_ms;
  if (time.is_over) return time;
  // A span begins when the server does the write. A longer one than it takes is a moment.
  const bool is_span = !IsUnix(form) && given_ms <= kMaxTtl.count();
  time.ttl = is_span ? std::chrono::milliseconds(given_ms) : Until(static_cast<std::uint64_t>(time.unix_ms));
  return time;
}

std::string InvalidExpiry(std::string_view command) {
  return absl::StrCat("ERR invalid expire time in '", AbslView(command), "' command");
}

}  // namespace remora::kvgate
