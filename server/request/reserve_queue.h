// The queue of clients that reserve space for large values. They get it in the order of their requests, so
// that small reservations do not delay a large one for ever.
#pragma once

#include <deque>
#include <optional>

#include "server/connection/client_session.h"
#include "server/connection/session_observer.h"
#include "server/request/large_writes.h"
#include "server/request/pending_request.h"
#include "server/request/reply_sender.h"
#include "store/base/clock.h"
#include "store/server_store.h"

namespace remora {

/// Queues requests for space, and answers them in the order in which they came.
///
/// Thread safety: none; the server's one thread.
class ReserveQueue final : public SessionObserver {
 public:
  /// All outlive this.
  ReserveQueue(ServerStore& store, LargeWrites& large_writes, ReplySender& replies)
      : store_(store), large_writes_(large_writes), replies_(replies) {}

  /// Queues a kReserve, or rejects it. It gives back what its client has reserved before.
  void Add(const PendingRequest& pending);
  /// Answers the requests for which there is space now, and ends expired reservations. Returns false if it
  /// answered none.
  bool AnswerDue();
  /// Returns whether no client waits.
  bool empty() const { return turns_.empty(); }
  /// Returns when the next reservation ends. Nothing: nothing is reserved.
  std::optional<TimePoint> next_expiry() const { return large_writes_.next_expiry(); }

  void Forget(ClientSession& session) override;

 private:
  /// A reserve that waits for space.
  struct Turn {
    PendingRequest pending;
    TimePoint asked{};     // last
    bool is_asked = true;  // else it was answered with kAskAgain
  };

  /// Answers a reserve if it is time, and returns whether it is over. `has_space`: nobody before it
  /// waits for space; false, once it does.
  bool TakeTurn(Turn& turn, TimePoint now, bool* has_space);

  ServerStore& store_;
  LargeWrites& large_writes_;
  ReplySender& replies_;
  std::deque<Turn> turns_;  // in the order in which they came; one for a connection at most
};

}  // namespace remora
