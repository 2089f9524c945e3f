// A connected client: its connection, which it makes again when it breaks; and the waits of its calls.
//
// What a call reads and sends has owners of its own, which do not wait: RegionReader (client/region),
// RequestChannel (client/rpc), ReadCache (client/cache), ServerView and ScanWindow.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cache/read_cache.h"
#include "client/counters.h"
#include "client/options.h"
#include "client/region/region_reader.h"
#include "client/region/session_buffers.h"
#include "client/registered_buffer.h"
#include "client/rpc/payload_stream.h"
#include "client/rpc/request_channel.h"
#include "client/session/access_hints.h"
#include "client/session/call_guard.h"
#include "client/session/fork_guard.h"
#include "client/session/scan_window.h"
#include "client/session/server_view.h"
#include "rdma/adaptive_poll.h"
#include "rdma/transport.h"
#include "store/base/clock.h"
#include "store/format/types/write_options.h"
#include "store/format/wire/messages.h"

namespace remora {

inline constexpr std::string_view kForgotten =
    "the connection broke, and the server does not know this client any more: it was restarted, or has "
    "forgotten "
    "it; whether the write was done is unknown";

/// Returns the options with what is not set as the address wants it.
ClientOptions ResolvedFor(const rdma::Address& address, ClientOptions options);

inline std::string_view ValueIn(const RegisteredBytes& memory) {
  return {reinterpret_cast<const char*>(memory.bytes().data()), memory.bytes().size()};
}

/// One server, and a connection to it at a time. Everything is allocated and registered in Start; nothing is
/// per operation.
///
///   S1 Memory that the connection may read or write is registered with it, and its registrations end before
///   it does;
///      so when EndConnection returns, no device is at any memory of ours or the caller's.
///   S2 While broken_ is not OK, no READ and no request is posted.
///   S3 Of a write that was sent and not answered, unacknowledged_write_ is the request id, until its outcome
///   is known
///      or nobody wants to know it.
///
/// More than 25 methods and 15 fields: it is the one that makes the parts and hands them out, an accessor for
/// each. The state that it has itself is the connection, the identity that it is made with again, and the
/// call's deadline.
///
/// Thread safety: none.
class Session {
 public:
  /// Registers buffers, connects, checks that the server speaks the same format, and reads its superblock.
  /// `dialer`: for later connections, and for the second one that a token takes; none: there will be none.
  static absl::StatusOr<std::unique_ptr<Session>> Start(std::unique_ptr<rdma::ClientConnection> connection,
                                                        Dialer dialer, const ClientOptions& options,
                                                        const Clock& clock);
  ~Session();

  // --- Calls

  /// Each call of the public API begins here: its deadline runs from the first time that it has to wait.
  /// OK unless an earlier call left the connection in an unknown state.
  absl::Status BeginCall() {
    deadline_.reset();
    if (is_forked()) broken_ = absl::FailedPreconditionError(kForked);
    return broken_;
  }
  /// Whether BeginCall would return OK.
  bool is_ready() const { return broken_.ok() && !is_forked(); }
  /// Whether this is a forked child's copy: nothing may be done with it. No attempt to reconnect it succeeds.
  bool is_forked() const { return forks_ != Forks::Count(); }
  /// The call's deadline: begins to run if it did not yet.
  TimePoint deadline() {
    if (!deadline_.has_value()) deadline_ = clock_.Now() + options_.timeout;
    return *deadline_;
  }
  /// The call makes progress: its deadline runs anew.
  void RestartDeadline() { deadline_.reset(); }
  std::chrono::milliseconds timeout() const { return options_.timeout; }

  /// Not OK: the connection is broken, and every call fails.
  const absl::Status& status() const { return broken_; }
  /// Whether the connection is broken, also where no call has noticed. Reconnect heals it.
  bool is_broken() const { return !broken_.ok() || !connection_->status().ok(); }
  /// Makes every later call fail: what is in flight may still come, and would be taken for something else.
  absl::Status Break(absl::Status cause);

  // --- Parts

  ServerView& server() { return server_; }
  const ServerView& server() const { return server_; }
  const SessionBuffers& buffers() const { return buffers_; }
  RegionReader& region() { return region_; }
  const RegionReader& region() const { return region_; }
  ReadCache& cache() { return cache_; }
  const ReadCache& cache() const { return cache_; }
  RequestChannel& channel() { return channel_; }
  const RequestChannel& channel() const { return channel_; }
  ScanWindow& scan_window() { return scan_window_; }
  AccessHints& access_hints() { return hints_; }
  ClientCounters& counters() { return counters_; }
  InUse& in_use() { return in_use_; }
  const Clock& clock() const { return clock_; }
  TimePoint Coarse() const { return clock_.Coarse(); }
  rdma::ClientConnection& connection() { return *connection_; }
  /// Expires with the session: for what may outlive its client.
  std::weak_ptr<const void> life() const { return life_; }

  // --- Waits, until the call's deadline. Errors are the connection's, which is then broken.

  /// OK: all READs that the region reader has posted are done.
  absl::Status AwaitReads();
  /// READs it into the session's own buffer, where it stays until the next call.
  absl::StatusOr<const Superblock*> ReadSuperblock();

  /// Sends a request for RequestChannel::kCall, as soon as there is a credit and room, and awaits its reply,
  /// whose text stays until the next one. `send`: as RequestChannel::Send. REQUIRES: no other request for
  /// kCall is in flight.
  using Send = absl::FunctionRef<absl::StatusOr<bool>(RequestChannel&)>;
  absl::StatusOr<ServerReply> Exchange(Operation operation, Send send);
  absl::StatusOr<ServerReply> Call(const RequestSpec& spec);
  absl::StatusOr<ServerReply> Call(Operation operation, std::string_view key, std::uint64_t key_hash,
                                   std::string_view value) {
    return Call({.operation = operation, .key = key, .key_hash = key_hash, .value = value});
  }
  /// The same of a request that says all in itself.
  absl::StatusOr<ServerReply> CallBare(const Request& request);
  /// Waits until all of the staging memory, and the buffer for it, are the caller's.
  absl::Status AwaitStaging();
  /// Takes some completions. Replies to requests that are not the session's own go to `take`, by the caller's
  /// number.
  using TakeReply = absl::FunctionRef<void(std::uint32_t caller, const ServerReply& reply, bool may_learn)>;
  absl::Status AwaitReplies(TakeReply take);

  /// Each write begins here: it recovers the reply that it lost with an earlier connection, by asking for it.
  /// Nothing: none was lost, or the write was not done, and it is to be sent.
  absl::StatusOr<std::optional<ServerReply>> RecoverLostReply() {
    if (unacknowledged_write_ == 0) return std::nullopt;
    return QueryCompletion();
  }

  /// SENDs a request for a page, whose reply comes beside those of calls: to the scan window. REQUIRES: the
  /// last one was awaited.
  absl::Status PostScanPage(const Request& request);
  absl::Status AwaitScanPage();

  /// The key with this hash was read. Now and then, costs a request.
  [[gnu::always_inline]] void NoteRead(std::uint64_t key_hash) {
    if (hints_.Note(key_hash)) ReportReads();
  }

  // --- reconnect.cc

  bool reconnects() const { return dialer_ != nullptr && options_.reconnect; }
  /// Makes another connection, in the place of the one that broke for `cause`; tries until the deadline. All
  /// that was known of the server is forgotten. Unknown: there is another, but what became of the call's
  /// write, whose answer was lost, nobody knows. `cause`: there is no time. Unavailable: there was not
  /// enough. Others are final, as of Start.
  absl::Status Reconnect(const absl::Status& cause, TimePoint deadline);
  /// Makes one attempt at that, for a caller that does not wait in between. Not OK: `is_final`, or another
  /// may end better, after a pause. OK: `was_forgotten` says that the server does not know what this client
  /// wrote before.
  struct Attempt {
    absl::Status status;
    bool is_final = false;
    bool was_forgotten = false;
  };
  Attempt TryToReconnect(TimePoint deadline);
  /// The least time between two requests that only report reads.
  static constexpr std::chrono::milliseconds kReportPause{100};
  /// Returns the pause behind the attempt of this number, from 0 on.
  static Duration Pause(int attempt);
  /// The call does not want to know any more what became of its write.
  void AbandonWrite() { unacknowledged_write_ = 0; }
  /// Ends the connection: no device is at any memory of ours any more. It counts as broken.
  void EndConnection();
  /// Waits until the device is not at any memory of a caller's, or the connection has ended.
  void LetGo();
  /// Registers a buffer with this connection, if it is good, and all that will follow, until Remove.
  absl::Status Add(RegisteredBuffer* buffer);
  void Remove(RegisteredBuffer* buffer);
  /// InvalidArgument: it is another client's.
  absl::Status CheckOwn(const RegisteredBytes& memory) const;
  /// REQUIRES: CheckOwn.
  static rdma::Sge SgeOf(const RegisteredBytes& memory);

 private:
  /// This client to the server, over all its connections.
  struct Identity {
    std::uint64_t id = 0;    // HelloRequest::client; 0: nobody that comes again
    bool returns = false;    // the server has accepted the id
    bool forgotten = false;  // the id before was, and there was no connection since
  };

  Session(Dialer dialer, const ClientOptions& options, const Clock& clock);

  static std::uint64_t RandomClientId();  // not 0
  // Of handshake.cc.
  /// Connects over `connection`, or, with a token, over one that is dialled behind it: from now on the one.
  /// Not OK: it is broken.
  absl::Status Open(std::unique_ptr<rdma::ClientConnection> connection, TimePoint deadline);
  absl::StatusOr<HelloNonce> AskForNonce(rdma::ClientConnection& connection, const HelloRequest& hello,
                                         TimePoint deadline);
  absl::Status Join(std::unique_ptr<rdma::ClientConnection> connection, const HelloRequest& hello,
                    TimePoint deadline);
  absl::Status Greet(const HelloRequest& hello, TimePoint deadline);
  absl::Status AdoptSuperblock();
  absl::Status ReadFirstDirectory();
  // Of reconnect.cc.
  void ForgetServer();
  void Deregister();
  absl::Status OpenAnother(TimePoint deadline);
  /// Opens Start's connection; where there is a dialer, with more than one attempt.
  absl::Status OpenFirst(std::unique_ptr<rdma::ClientConnection> connection);
  TimePoint NextAttemptEnds(TimePoint deadline);
  absl::StatusOr<std::optional<ServerReply>> QueryCompletion();

  absl::Status Read(std::span<std::byte> to, std::uint64_t offset);
  void ReportReads();
  /// Waits for some completions, and takes them.
  absl::Status TakeSome(const TakeReply* take = nullptr);
  absl::StatusOr<std::size_t> AwaitSome();
  absl::Status Take(const rdma::Completion& completion, const TakeReply* take);
  absl::Status TakeReceive(const rdma::Completion& completion, const TakeReply* take);

  const Clock& clock_;
  const std::uint64_t forks_ = Forks::Count();
  const Dialer dialer_;  // null: there is one connection, and no other
  const ClientOptions options_;
  std::string secret_;  // of the token; empty: there is none

  // The call.
  std::optional<TimePoint> deadline_;
  absl::Status broken_;
  InUse in_use_;
  StoredReply reply_;
  std::uint64_t unacknowledged_write_ = 0;  // S3; 0: none

  // Of the identity, and of attempts to connect.
  Identity identity_;
  RefusalReason refusal_ = RefusalReason{};  // of the last attempt, if that was refused
  int unanswered_attempts_ = 0;              // since the last connection was made

  // The parts.
  ClientCounters counters_;
  ServerView server_;
  ReadCache cache_;
  AccessHints hints_;
  TimePoint reads_reported_;  // when a request was last sent for that alone
  SessionBuffers buffers_;
  RegionReader region_;
  RequestChannel channel_;
  ScanWindow scan_window_;
  std::vector<RegisteredBuffer*> user_buffers_;  // their registrations end before the connection

  // The completions of a poll; here, so that none begins with writing them.
  std::array<rdma::Completion, 8> completions_;
  rdma::AdaptivePoller spinner_;
  const std::shared_ptr<const void> life_ = std::make_shared<const char>();
  std::unique_ptr<rdma::ClientConnection> connection_;
};

}  // namespace remora
