// When records expire, as both sides reckon it. Pure functions.
//
// A record's expiry is a moment of its server's clock, in milliseconds since 1970
// (Clock::UnixMillis); from that moment on, the record counts for nothing. Clocks of other machines
// may differ by any amount. So a writer names a span (its ttl), and a reader bounds the server's
// clock (client/session/server_clock.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace remora {

/// The ttl of a record that never expires.
inline constexpr std::chrono::milliseconds kNeverExpires = std::chrono::milliseconds::max();

/// Longest ttl besides kNeverExpires: a hundred years. So no sum with a clock's time overflows.
inline constexpr std::chrono::milliseconds kMaxTtl = std::chrono::hours(24) * 36525;

/// Largest expiry that Until takes, in ms since 1970.
inline constexpr std::uint64_t kMaxExpiry = std::uint64_t{1} << 60;

/// Returns a ttl that ends at an expiry, in ms since 1970 by the server's clock, and not after a span. It is
/// for a caller that brings a record along with its expiry, from another store: however long that takes, the
/// expiry is the same. REQUIRES: 1 <= expiry_ms <= kMaxExpiry.
constexpr std::chrono::milliseconds Until(std::uint64_t expiry_ms) {
  return std::chrono::milliseconds::min() + std::chrono::milliseconds(expiry_ms);
}
/// Returns whether a ttl comes from Until.
constexpr bool IsExpiry(std::chrono::milliseconds ttl) {
  return ttl >= Until(1) && ttl <= Until(kMaxExpiry);  // no span is so long, nor what is left of one
}

/// Returns whether `ttl` is 1 ms to kMaxTtl, kNeverExpires, or Until. No other value passes for one
/// by mistake, such as the rest of a span that is over.
constexpr bool IsTtl(std::chrono::milliseconds ttl) {
  return (ttl.count() > 0 && ttl <= kMaxTtl) || ttl == kNeverExpires || IsExpiry(ttl);
}

/// Returns a record's expiry, in ms since 1970, when the server's clock says `server_ms`. 0: never. REQUIRES:
/// IsTtl(ttl).
constexpr std::uint64_t ExpiryOf(std::int64_t server_ms, std::chrono::milliseconds ttl) {
  if (ttl == kNeverExpires) return 0;
  if (IsExpiry(ttl)) return static_cast<std::uint64_t>((ttl - std::chrono::milliseconds::min()).count());
  return static_cast<std::uint64_t>(server_ms + ttl.count());
}

/// Returns whether a record's time is over when the server's clock says `server_ms`.
constexpr bool HasExpired(std::uint64_t expiry_ms, std::int64_t server_ms) {
  return expiry_ms != 0 && server_ms >= 0 && static_cast<std::uint64_t>(server_ms) >= expiry_ms;
}

/// Returns the form of a ttl in a message, and back: its milliseconds, the largest number for ever, 0 for
/// none. The number of a message may be anything.
constexpr std::int64_t EncodeTtl(std::optional<std::chrono::milliseconds> ttl) {
  return ttl ? static_cast<std::int64_t>(ttl->count()) : 0;
}
constexpr std::optional<std::chrono::milliseconds> DecodeTtl(std::int64_t ttl_ms) {
  if (ttl_ms == 0) return std::nullopt;
  return std::chrono::milliseconds(ttl_ms);
}

}  // namespace remora
