// Sends replies to clients, with the fields that all of them have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "server/connection/acceptor.h"
#include "server/connection/client_session.h"
#include "server/request/pending_request.h"
#include "store/format/wire/messages.h"
#include "store/server_store.h"

namespace remora {

/// Completes replies and sends them over the sessions of their requests.
///
/// Thread safety: none; the server's one thread.
class ReplySender {
 public:
  /// Both outlive this.
  ReplySender(ServerStore& store, Acceptor& acceptor) : store_(store), acceptor_(acceptor) {}
  ReplySender(const ReplySender&) = delete;
  ReplySender& operator=(const ReplySender&) = delete;

  /// Completes the reply and sends it, followed by `behind`. Does nothing if `session` is null. Ends a
  /// session that takes no replies.
  void Send(ClientSession* session, Reply& reply, std::string_view behind);
  /// Completes a reply to a kLocate and sends it with the value. REQUIRES: the session takes it
  /// (ClientSession::TakesLongReply).
  void SendValue(ClientSession& session, Reply& reply, std::string_view value);
  /// Answers a request with the status of its work.
  void Answer(const PendingRequest& pending, const absl::Status& status, Reply reply = {});

  /// Tells that requests were received. The next reply reads the clock, since its time must not be before
  /// them.
  void ForgetTime() { reply_ms_.reset(); }
  /// Sets the time (Clock::UnixMillis) in all replies until ForgetTime.
  void SetTime(std::int64_t unix_ms) { reply_ms_ = unix_ms; }

  /// Returns how many clients got a reply and have not sent another request since.
  std::size_t expected_requests() const { return expected_; }
  void CountRequest() {
    if (expected_ > 0) --expected_;
  }
  /// Tells that no request has come for a while: resets expected_requests().
  void ExpectNone() { expected_ = 0; }

 private:
  /// Sets the fields that all replies have.
  void Complete(Reply& reply);

  ServerStore& store_;
  Acceptor& acceptor_;
  std::optional<std::int64_t> reply_ms_;
  std::size_t expected_ = 0;
};

}  // namespace remora
