// What a client knows of its server's clock. Pure arithmetic; who calls it looks at the client's own.
//
// A message of the server says what its clock was (`server_ms`) at a moment between the sending of a request
// and the coming of the answer. So at the time of the sending, the server's clock was not beyond that, and
// when the answer came, not before it. From there on, both clocks ran, at rates that differ by kDrift at
// most.
//
// Records that are nearer to their expiry than these two bounds are to each other, are the server's to judge.
// That is: a round trip, and 1 ms for each second since, 60 ms at most, for then it is asked in any case.
#pragma once

#include <chrono>
#include <cstdint>

#include "store/base/clock.h"
#include "store/format/types/expiry.h"

namespace remora {

/// Thread Safety: none.
class ServerTime {
 public:
  /// Between the rates of two clocks: each kernel may slew its own by 500 ppm (adjtimex(2)).
  static constexpr std::int64_t kDriftPpm = 1000;
  /// What was learned earlier is not relied upon: should a clock run wilder than that, little harm is done.
  static constexpr std::chrono::seconds kMaxAge{60};

  /// REQUIRES: sent <= received, both of the client's clock.
  void Learn(std::int64_t server_ms, TimePoint sent, TimePoint received) {
    server_ms_ = server_ms;
    sent_ = sent;
    received_ = received;
  }

  /// The server's clock (its UnixMillis) at `time`, at the least and at the most.
  std::int64_t Earliest(TimePoint time) const { return server_ms_ + Least(time - received_); }
  std::int64_t Latest(TimePoint time) const { return server_ms_ - Least(sent_ - time); }

  enum class Life : std::uint8_t { kAlive = 1, kOver = 2, kAskServer = 3 };
  /// Of a record that was the key's live one at a moment between `begin` and `now`. kAlive: it had not
  /// expired at that moment. kOver: it had, so the key was absent then.
  Life Of(std::uint64_t expiry_ms, TimePoint begin, TimePoint now) const {
    if (now - received_ > kMaxAge) return Life::kAskServer;
    if (!HasExpired(expiry_ms, Latest(now))) return Life::kAlive;
    return HasExpired(expiry_ms, Earliest(begin)) ? Life::kOver : Life::kAskServer;
  }

 private:
  /// Milliseconds by which the server's clock moves at the least while ours moves by `span`, rounded down; of
  /// a negative span, what it goes back at the most.
  static std::int64_t Least(Duration span) {
    const Duration drift = std::chrono::abs(span) / (1'000'000 / kDriftPpm) + std::chrono::nanoseconds(1);
    return std::chrono::floor<std::chrono::milliseconds>(span - drift).count();
  }

  std::int64_t server_ms_ = 0;
  TimePoint sent_{};
  TimePoint received_{};
};

}  // namespace remora
