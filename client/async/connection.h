// The connection of an AsyncClient: its session, the descriptor that an event loop watches, and the attempts
// to make another connection, by the steps of client/session/reconnect.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "client/async/waker.h"
#include "client/rpc/request_channel.h"
#include "client/session/session.h"
#include "rdma/transport.h"
#include "store/base/clock.h"

namespace remora {

/// A connection that breaks and comes back. It knows no operations: the machine handles those (engine.h).
///
/// Thread safety: none, but Reconnect may run in another thread than the rest. Between BeginReconnect and
/// EndReconnect only Reconnect uses the session, except for its constant parts. The class has more than 25
/// methods, because each step of an attempt is one, and each state of a connection that ended.
class AsyncConnection {
 public:
  /// Result of an attempt to make another connection.
  enum class Outcome : std::uint8_t {
    kConnected = 1,  // operations go on
    kLater,          // another attempt follows
    kRejected,       // last_attempt() says why; operations end with that
  };

  explicit AsyncConnection(std::unique_ptr<Session> session)
      : session_(std::move(session)), channel_(session_->channel()) {}
  /// Opens the descriptor. Call it before all others.
  absl::Status Open();

  Session& session() { return *session_; }
  RequestChannel& channel() { return channel_; }
  Waker& waker() { return waker_; }

  bool is_up() const { return broken_.ok(); }
  /// Returns whether the client makes no other connection.
  bool is_over() const { return over_; }
  /// Returns why there is no connection now; OK: there is one.
  const absl::Status& status() const { return broken_; }
  /// Returns with what an operation ends whose deadline has passed.
  absl::Status Overdue() const;

  /// Returns why the transport ended the connection.
  absl::Status EndCause() const;
  /// Ends the broken connection, and lets the next one be made. REQUIRES: is_up, and `cause`
  /// is not OK.
  void Break(const absl::Status& cause);
  /// The server may have been replaced: the next attempt comes after a pause, and goes to the next address.
  void PassOn() {
    session_->connector().PassOn();
    pauses_ = true;
  }
  /// Makes no other connection from now on.
  void Close(absl::Status why);
  /// Ends what a broken connection still does in the caller's memory.
  void EndAccess() {
    if (!broken_.ok() && !in_progress_) session_->endpoint().End();
  }
  /// Makes the waker's descriptor report events of the new connection.
  absl::Status Watch();
  void Arm();
  void Disarm();

  // Attempts. `latest` is the latest deadline of an operation: after that, none waits for a connection.

  /// Makes an attempt if one is due and the caller makes none itself. Returns whether it did: then
  /// TakeAttempt follows.
  bool TryAttempt(TimePoint latest);
  bool BeginReconnect(TimePoint latest);
  void Reconnect() { attempt_ = session_->TryToReconnect(attempt_ends_); }
  /// Ends what BeginReconnect began. Returns whether there was an attempt: then TakeAttempt follows.
  bool EndReconnect() { return std::exchange(in_progress_, false); }
  Outcome TakeAttempt();
  const Session::Attempt& last_attempt() const { return attempt_; }
  TimePoint next_attempt() const { return next_attempt_; }
  /// Returns the client's metrics. Any thread may call it if there is a recorder.
  ClientMetrics Metrics() const;
  /// Returns whether BeginReconnect waits for EndReconnect.
  bool is_attempting() const { return in_progress_; }

 private:
  bool PrepareAttempt(TimePoint latest);

  std::unique_ptr<Session> session_;
  RequestChannel& channel_;  // the session's
  Waker waker_;
  absl::Status broken_;
  bool over_ = false;

  // Used while there is no connection:
  TimePoint next_attempt_;    // when it is due
  bool pauses_ = false;       // before the first attempt
  int attempts_ = 0;          // since the connection broke
  bool aside_ = false;        // the caller makes them (BeginReconnect), and Poll makes none
  bool in_progress_ = false;  // from BeginReconnect to EndReconnect
  ClientCounters counted_;    // as of BeginReconnect: another thread may change the session's meanwhile
  TimePoint attempt_ends_;    // deadline of the attempt in progress
  Session::Attempt attempt_;  // result of the last attempt
  absl::Status trouble_;      // why the last attempt failed
};

}  // namespace remora
