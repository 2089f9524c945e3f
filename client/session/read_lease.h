// The lease of a client, as arithmetic (Q6 and Q7 of store/format/memory/lease_line.h): the caller reads the
// clock and the line, and sends the request.
//
// Two looks take a lease without a message: the later one shows the end of a round that began after the
// earlier one. A client that has been idle has no earlier look that is of use. It asks the server, which
// answers once a round has ended that began after the question.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "store/base/clock.h"
#include "store/format/memory/lease_line.h"

namespace remora {

/// A client's lease on what it reads of one server, over one connection.
///
/// Thread safety: none.
class ReadLease {
 public:
  /// Returns whether a line is one of this incarnation, is whole, and is within its bounds (Q1).
  static bool IsWhole(const LeaseLine& line, std::uint64_t incarnation);

  /// Needs no lease from now on: the server has no followers.
  void Forget() { *this = {}; }
  /// Needs a lease from now on, of a server with this line. The look at it began at `before`. Returns false
  /// if the server is no primary with followers. REQUIRES: the line is whole.
  bool Begin(const LeaseLine& line, TimePoint before);
  bool is_on() const { return is_on_; }
  std::chrono::milliseconds lease_time() const { return std::chrono::milliseconds(first_.lease_ms); }

  /// Returns whether results count that were read before `coarse`, a time of Clock::Coarse, and no look is
  /// due. REQUIRES: is_on.
  bool Covers(TimePoint coarse) const { return coarse < look_at_; }
  /// Returns whether results count that were read before `ended`, a time of Clock::Now.
  bool Holds(TimePoint ended) const { return ended < end_; }
  TimePoint end() const { return end_; }
  /// Returns whether a look at `now` may take a lease that lasts longer than that: the earlier look is not
  /// too old.
  bool IsLookOfUse(TimePoint now) const;

  /// Takes a look that began at `before` and showed this line. Returns false if the line is of another reign,
  /// or goes back: the server is not the primary that it was. REQUIRES: the line is whole.
  bool Take(const LeaseLine& line, TimePoint before);
  /// Takes the server's answer to a question that was sent at `asked` or later.
  void TakeAnswer(TimePoint asked) { Extend(asked, asked); }

 private:
  struct Look {
    TimePoint before;
    std::uint64_t begun = 0;
  };

  /// Returns how long a lease lasts (Q6).
  Duration span() const;
  /// The lease lasts from `from` on. `now` is a time at which no look is due.
  void Extend(TimePoint from, TimePoint now);

  static constexpr TimePoint kLongAgo{Duration::min() / 2};

  bool is_on_ = false;
  LeaseLine first_{};  // the line of Begin, whose epoch and T stay
  std::uint64_t done_ = 0;
  Look look_{};                   // the earlier one, which a later line may prove
  TimePoint end_ = kLongAgo;      // of the lease
  TimePoint look_at_ = kLongAgo;  // when a look is due; well before end_
};

}  // namespace remora
