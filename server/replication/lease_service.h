// The primary's side of leases: it drives the rounds, writes the lease line, and answers clients that ask for
// a lease.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "server/connection/session_observer.h"
#include "server/replication/lease_rounds.h"
#include "server/replication/replication_sender.h"
#include "server/request/pending_request.h"
#include "server/request/reply_sender.h"
#include "store/server_store.h"

namespace remora {

/// The lease line of a primary that serves.
///
/// Thread safety: none; the server's one thread.
class LeaseService final : public SessionObserver {
 public:
  /// The line of a reign, in `region`. The references, and the region, outlive this.
  LeaseService(std::uint64_t epoch, std::chrono::milliseconds lease, ServerStore& store, ReplySender& replies,
               ReplicationSender& sender, std::span<std::byte> region);

  /// Takes a ping that asks for a lease. Step answers it, once a round has ended that began after this, or
  /// with FailedPrecondition if a follower has rejected this primary.
  void Take(const PendingRequest& pending);
  /// Begins no rounds until this is called again.
  void SetHeld(bool is_held) { is_held_ = is_held; }
  /// Begins and ends rounds. Returns false if there was nothing to do.
  bool Step();
  /// Returns the number of the last round that has begun.
  std::uint64_t begun() const { return rounds_.begun(); }
  /// Returns when Step has work that nobody announces. Nothing: with the next answer of a follower.
  std::optional<TimePoint> next_work() const { return is_held_ ? std::nullopt : rounds_.next(); }

  void Forget(ClientSession& session) override;

 private:
  struct Waiting {
    PendingRequest pending;
    std::uint64_t round = 0;
  };

  void StoreLine();
  /// Begins a round that is due, and asks the followers behind it.
  bool BeginRound();
  void Answer();
  void RejectAll();

  ServerStore& store_;
  ReplySender& replies_;
  ReplicationSender& sender_;
  const std::span<std::byte> region_;
  LeaseRounds rounds_;
  bool is_held_ = false;
  std::deque<Waiting> waiting_;  // by rounds
};

}  // namespace remora
