// The machine that drives the operations of an AsyncClient.
//
//   begun ─▶ AsyncReads (reads.h) ◀─▶ AsyncMessages (messages.h) ─▶ OperationTable (operation_table.h)
//                                                                     ended ─▶ callback ─▶ free
//
// Each part owns its lists, and moves an operation to the next part. From every state, a deadline, Cancel or
// the end of the connection leads to the operation's end. A part returns an error if the connection has
// failed, and the machine breaks it. Then all operations end, unless the client makes another connection
// (connection.h). In that case it asks about writes whose replies were lost (lost_writes.h), and lookups
// begin again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "client/async/connection.h"
#include "client/async/messages.h"
#include "client/async/operation.h"
#include "client/async/operation_buffers.h"
#include "client/async/operation_table.h"
#include "client/async/poll_guard.h"
#include "client/async/reads.h"
#include "client/async_client.h"
#include "client/rpc/request_channel.h"
#include "client/session/session.h"
#include "rdma/adaptive_poll.h"
#include "rdma/transport.h"

namespace remora {

/// The parts, and the calls that go through all of them. Start allocates and registers all memory.
///
/// The class has more than 25 methods, because each call and each stage of a Poll is one.
///
/// Thread safety: none, but for attempts to connect (AsyncConnection).
class AsyncClient::Core {
 public:
  /// Makes the machine over `connection`. `dialer` makes later connections; null: the client makes none.
  static absl::StatusOr<std::unique_ptr<Core>> Start(std::unique_ptr<rdma::ClientConnection> connection,
                                                     Dialer dialer, const ClientOptions& options,
                                                     const AsyncOptions& async, const Clock& clock);
  /// Ends all operations with Cancelled, and calls their callbacks. REQUIRES: no other call follows.
  void Stop();

  // These begin an operation. REQUIRES: its arguments are in bounds. `done` is moved only once, into the
  // operation, because each move of it is a function call.

  /// Begins an operation that looks a key up. `into`, unless null: memory for the value.
  Begun BeginLookup(AsyncOperation::Kind kind, std::string_view key, Done&& done, const CallOptions& call,
                    const RegisteredBytes* into = nullptr);
  /// Shows a value in place, and ends. If that fails, begins an operation that shows a copy.
  Begun BeginVisit(std::string_view key, Show&& show, Done&& done, const CallOptions& call);
  /// Begins a write. `from`, unless null: registered memory with the value, which is then not copied.
  Begun BeginWrite(Operation message, std::string_view key, std::string_view value, const PutOptions& options,
                   Done&& done, const CallOptions& call, const RegisteredBytes* from = nullptr);
  /// Begins an operation that has nothing to do and ends OK.
  Begun BeginEmpty(Done&& done, const CallOptions& call);
  Begun BeginMessage(const RequestSpec& asked, Done&& done, const CallOptions& call,
                     const RegisteredBytes* from = nullptr);

  /// Drops the key's cached location, because a write may have made it obsolete.
  void Forget(std::uint64_t key_hash) {
    if (connection_.is_up())
      session().cache().locations().Forget(key_hash);  // else the cache was cleared with the connection
  }

  bool Cancel(OperationId id);
  std::size_t Poll();
  absl::StatusOr<std::size_t> Wait(TimePoint deadline);
  std::optional<TimePoint> next_deadline() const;
  void EndReconnect() {
    if (connection_.EndReconnect()) TakeAttempt();
  }

  AsyncConnection& connection() { return connection_; }
  const OperationTable& operations() const { return operations_; }
  Session& session() { return connection_.session(); }

 private:
  explicit Core(std::unique_ptr<Session> session);

  /// Shows the value of the operation's key in place. Returns whether `show` saw it; if not, it may have been
  /// called once.
  bool ShowInPlace(AsyncOperation& operation, Show& show);

  // Stages of a Poll. Each returns whether it did something.

  /// Breaks the connection if a part's stage said that it failed.
  bool Did(const absl::StatusOr<bool>& stage);
  bool TakeCompletions();
  bool has_work_in_flight() { return reads_.has_in_flight() || !connection_.channel().empty(); }
  /// Ends the operations whose results count by now. Returns whether there was one.
  bool EndConfirmed();
  /// Calls the callbacks of at most `most` operations. Returns how many it called.
  std::size_t Deliver(std::size_t most);
  absl::Status Take(const rdma::Completion& completion);

  /// Ends the operation, even if it has a READ or message in flight.
  void Abort(AsyncOperation& operation, absl::Status status);
  void AbortAll(const absl::Status& status);
  void Break(const absl::Status& cause);
  void TakeAttempt();
  void Resume(bool was_forgotten);

  OperationBuffers buffers_;  // destroyed after the session
  AsyncConnection connection_;
  OperationTable operations_;
  OperationList askers_;  // lookups and other messages that wait to ask the server
  AsyncReads reads_;
  AsyncMessages messages_;

  PollGuard guard_;
  rdma::AdaptivePoller spinner_;
  std::array<rdma::Completion, AsyncReads::kMaxReadsInFlight>
      completions_;  // of one Poll; a member, so that it is cleared only once
  std::uint32_t polls_ = 0;
  bool has_more_ = false;  // Poll has returned with work left
};

}  // namespace remora
