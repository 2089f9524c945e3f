// The rounds of a primary's lease line: a state machine without I/O (Q2 and Q3 of
// store/format/memory/lease_line.h).
#pragma once

#include <cstdint>
#include <optional>

#include "store/base/clock.h"
#include "store/format/memory/lease_line.h"

namespace remora {

/// Counts rounds, one at a time. A round is due T/8 after the one before began, or earlier if somebody waits
/// for it.
///
/// Thread safety: none; the server's one thread.
class LeaseRounds {
 public:
  /// The rounds of a reign. `lease`: T.
  LeaseRounds(std::uint64_t epoch, std::chrono::milliseconds lease)
      : epoch_(epoch), lease_(lease), pause_(Duration(lease) / 8) {}

  /// Returns the number of a round that begins after this call. Its end proves that no other server had taken
  /// this one's place before the call.
  std::uint64_t Await() { return awaited_ = begun_ + 1; }

  /// Begins a round if one is due. Returns whether it did; then the caller stores line(), and asks all
  /// followers afterwards.
  bool Begin(TimePoint now);
  /// Ends the round in progress if all followers have answered it: `answered` is the least number of a round
  /// that any follower has answered. Returns whether it did; then the caller stores line().
  bool End(std::uint64_t answered);

  std::uint64_t begun() const { return begun_; }
  std::uint64_t done() const { return done_; }
  /// Returns when the next round is due. Nothing: one is in progress.
  std::optional<TimePoint> next() const;
  /// Returns the lease line, without its checksum.
  LeaseLine line() const;

 private:
  bool is_in_progress() const { return begun_ != done_; }

  const std::uint64_t epoch_;
  const std::chrono::milliseconds lease_;
  const Duration pause_;
  std::uint64_t begun_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t awaited_ = 0;  // somebody waits for this round; 0: nobody has
  TimePoint next_{};
};

}  // namespace remora
