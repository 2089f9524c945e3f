// Delays requests of an auth token that has used up its rate. They wait in their order, a queue for each
// token.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/connection/authenticator.h"
#include "server/connection/client_session.h"
#include "server/connection/session_observer.h"
#include "server/request/pending_request.h"
#include "store/base/clock.h"
#include "store/server_store.h"

namespace remora {

/// Delays requests of clients whose auth token has used up its rate.
///
/// Thread safety: none; the server's one thread.
class RateLimiter final : public SessionObserver {
 public:
  /// The store outlives this.
  explicit RateLimiter(ServerStore& store) : store_(store) {}

  /// Returns whether the session's requests are limited at all.
  static bool Limits(const ClientSession& session) {
    return session.token_use() != nullptr && session.token_use()->has_rate();
  }
  /// Keeps a request until its turn. Returns false if that is now: the caller is to serve it.
  ///
  /// REQUIRES: Limits(*pending.session).
  bool Delays(const PendingRequest& pending);
  /// Returns whether no request waits.
  bool empty() const { return delayed_.empty(); }
  /// Takes at most `count` requests whose turn has come. They stay until the next
  /// call; the session of one that ends meanwhile becomes null.
  std::span<const PendingRequest> TakeDue(std::size_t count);
  /// Returns when TakeDue has work. Nothing: no request waits.
  std::optional<TimePoint> next_turn() const;

  void Forget(ClientSession& session) override;

 private:
  ServerStore& store_;
  absl::flat_hash_map<TokenUse*, std::deque<PendingRequest>> delayed_;  // no queue is empty
  std::vector<PendingRequest> due_;  // removed from delayed_, and to be dispatched
};

}  // namespace remora
