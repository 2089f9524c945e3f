// The lease of a client on what it reads, and the request for another one (Q6 and Q7 of
// store/format/memory/lease_line.h).
//
// The holder says what to read and what to send, and does not wait. Confirm (client/session/confirm.h) waits
// for it where calls block; AsyncLease (client/async/lease.h) drives it where they do not.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "client/region/region_reader.h"
#include "client/rpc/request_channel.h"
#include "client/session/read_lease.h"
#include "client/session/server_view.h"
#include "store/base/clock.h"
#include "store/format/memory/lease_line.h"
#include "store/format/wire/messages.h"

namespace remora {

/// Returns Unavailable: the server does not show that it is still the primary.
absl::Status LeaseError(std::string_view why);

/// The lease on results that come over one connection, and the request for a lease that is in flight.
///
/// Thread safety: none. Ownership: the objects passed to the constructor outlive it.
class LeaseHolder {
 public:
  LeaseHolder(const Clock& clock, const ServerView& server, RegionReader& region)
      : clock_(clock), server_(server), region_(region) {}

  /// Forgets the lease and the request, because the connection has ended. Results need no lease until Begin.
  void Forget() {
    lease_.Forget();
    asked_.reset();
  }
  /// Needs a lease from now on, of a server with this line. The look at it began at `before`. Unavailable:
  /// the server is no primary with followers. REQUIRES: the line comes from LineIn.
  absl::Status Begin(const std::optional<LeaseLine>& line, TimePoint before);

  bool is_on() const { return lease_.is_on(); }

  // --- Results

  /// Returns whether results of READs and replies that have come count (Q7). If false, Confirm tells.
  [[gnu::always_inline]] bool IsCovered() const {
    if (!lease_.is_on()) [[likely]]
      return true;
    std::atomic_thread_fence(std::memory_order_acquire);  // the loads of the result come before the clock
    return lease_.Covers(clock_.Coarse());
  }
  /// Returns whether results count that had come at `ended`, a time of Clock::Now. That holds as well if the
  /// connection broke since.
  bool Holds(TimePoint ended) const { return !lease_.is_on() || lease_.Holds(ended); }

  // --- Looks at the lease line

  /// Returns the line in bytes that a READ brought. Nothing: it was torn.
  std::optional<LeaseLine> LineIn(std::span<const std::byte> bytes) const;
  /// Returns whether a look at `now` may take a lease. REQUIRES: Begin was OK.
  bool IsLookOfUse(TimePoint now) const { return lease_.is_on() && lease_.IsLookOfUse(now); }
  /// Takes a look that began at `before`. Unavailable: as LeaseError; the server is not the primary that it
  /// was. REQUIRES: the line comes from LineIn.
  absl::Status TakeLook(const LeaseLine& line, TimePoint before);
  /// Looks at the line if a look is of use, and a READ is a copy. Unavailable: as TakeLook.
  absl::Status LookIfMapped(TimePoint now);

  // --- The request for a lease

  static Request MakeRequest();
  /// Notes that the request is sent at `asked` or later.
  void Ask(TimePoint asked) { asked_ = asked; }
  bool has_asked() const { return asked_.has_value(); }
  /// Returns until when the server must answer. Another address may serve, so a call does not wait for this
  /// one until its own end. REQUIRES: has_asked.
  TimePoint answer_due() const { return *asked_ + 2 * Duration(lease_.lease_time()); }
  /// Takes the reply to the request, if there is one. Unavailable: as LeaseError; the server rejected it.
  absl::Status TakeAnswer(const ServerReply& answer);

 private:
  const Clock& clock_;
  const ServerView& server_;
  RegionReader& region_;
  ReadLease lease_;
  std::optional<TimePoint> asked_;  // when the unanswered request was sent
};

}  // namespace remora
