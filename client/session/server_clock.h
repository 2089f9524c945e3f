// A client's knowledge of its server's clock. This is pure arithmetic: the caller reads the client's own
// clock.
//
// A message of the server states the time of its clock (`server_ms`) at a moment between the sending of a
// request and the arrival of the answer. So at the time of sending, the server's clock was not beyond
// `server_ms`, and when the answer came, not before it. From there on both clocks ran, at rates that differ
// by at most kDriftPpm.
//
// If a record is nearer to its expiry than these two bounds are to each other, only the server can tell
// whether it has expired. The distance of the bounds is a round trip, plus 1 ms for each second since. That
// is at most 60 ms, because after 60 s the client asks the server in any case.
#pragma once

#include <chrono>
#include <cstdint>

#include "store/base/clock.h"
#include "store/format/types/expiry.h"

namespace remora {

/// Bounds of the server's clock at a time of the client's clock.
///
/// Thread safety: none.
class ServerTime {
 public:
  /// Largest difference between the rates of two clocks, in ppm: each kernel may slew its own by 500
  /// (adjtimex(2)).
  static constexpr std::int64_t kDriftPpm = 1000;
  /// Age from which the knowledge does not count any more. Should a clock drift more than that, this bounds
  /// the harm.
  static constexpr std::chrono::seconds kMaxAge{60};

  /// Takes the server's time from an answer. REQUIRES: sent <= received, both times of the client's clock.
  void Learn(std::int64_t server_ms, TimePoint sent, TimePoint received) {
    server_ms_ = server_ms;
    sent_ = sent;
    received_ = received;
  }

  /// Return the lower and the upper bound of the server's clock (its UnixMillis) at `time`.
  std::int64_t Earliest(TimePoint time) const { return server_ms_ + Least(time - received_); }
  std::int64_t Latest(TimePoint time) const { return server_ms_ - Least(sent_ - time); }

  enum class Life : std::uint8_t { kAlive = 1, kOver = 2, kAskServer = 3 };
  /// Decides whether a record had expired at the moment, between `begin` and `now`, at which it was the key's
  /// live one.
  ///   kAlive: it had not expired.
  ///   kOver: it had expired, so the key was absent then.
  ///   kAskServer: the bounds do not tell.
  Life Of(std::uint64_t expiry_ms, TimePoint begin, TimePoint now) const {
    if (now - received_ > kMaxAge) return Life::kAskServer;
    if (!HasExpired(expiry_ms, Latest(now))) return Life::kAlive;
    return HasExpired(expiry_ms, Earliest(begin)) ? Life::kOver : Life::kAskServer;
  }

 private:
  /// Returns the least number of milliseconds by which the server's clock moves while the client's moves by
  /// `span`, rounded down. For a negative span, returns how far it goes back at most.
  static std::int64_t Least(Duration span) {
    const Duration drift = std::chrono::abs(span) / (1'000'000 / kDriftPpm) + std::chrono::nanoseconds(1);
    return std::chrono::floor<std::chrono::milliseconds>(span - drift).count();
  }

  std::int64_t server_ms_ = 0;
  TimePoint sent_{};
  TimePoint received_{};
};

}  // namespace remora
