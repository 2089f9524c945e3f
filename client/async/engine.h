// What drives the operations of an AsyncClient.
//
//   begun ─▶ readers_ ─▶ READ under way ─▶ Lookup judges ─▶ readers_ again, or askers_, or ended_
//     ├────▶ askers_, writers_ ─▶ message under way (channel_) ─▶ reply ─▶ ended_, or readers_
//     └────▶ writers_ ─▶ large_, one at a time (large_put.h) ─▶ reply ─▶ ended_
//                                                            ended_ ─▶ callback ─▶ free
//
// Deadline, Cancel and the connection's end lead from everywhere to ended_. A place whose READ is still under
// way when its callback was called is free at the READ's completion: until then the device may write there.
// What becomes of all that when the connection breaks: async_reconnect.cc.
//
// Memory of the caller's (RegisteredBytes) is his again when the callback is called. So an operation that
// ends while the device may be at it, by a READ, or by a WRITE whose SEND or fence is not complete, is in no
// list until it is not; and where the connection broke, that has ended before the callback is called.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "client/async/large_put.h"
#include "client/async/operation.h"
#include "client/async/operation_buffers.h"
#include "client/async/recovery.h"
#include "client/async/waker.h"
#include "client/async_client.h"
#include "client/get/lookup.h"
#include "client/rpc/request_channel.h"
#include "client/session/session.h"
#include "rdma/adaptive_poll.h"
#include "rdma/transport.h"

namespace remora {

/// Everything is allocated and registered in Start.
///
/// More than 25 methods and 15 fields: an operation goes through all of its queues, and most methods are
/// steps of that one machine, a file for each stage of it (engine.cc, poll.cc, large_put.cc, reconnect.cc).
/// Memory, descriptors, and what is known while it recovers have owners of their own: OperationBuffers,
/// Waker, ReconnectAttempts, LostWrites.
///
/// Thread safety: none.
class AsyncClient::Core {
 public:
  /// READs under way at once: with two requests for each credit, as many as a connection takes (QueueLimits).
  static constexpr std::size_t kMostReads = SessionBuffers::kMaxBatch;
  static_assert(kMostReads + 2 * RequestChannel::kMaxInFlight <= rdma::QueueLimits().sends);
  /// A WRITE and the READ behind it count as so many of them.
  static constexpr std::size_t kFencedWrite = 2;

  /// `dialer`: for later connections; none: there will be none.
  static absl::StatusOr<std::unique_ptr<Core>> Start(std::unique_ptr<rdma::ClientConnection> connection,
                                                     Dialer dialer, const ClientOptions& options,
                                                     const AsyncOptions& async, const Clock& clock);
  /// Ends all operations with Cancelled, and calls their callbacks. The last call.
  void Stop();

  // REQUIRES: what is asked for is in bounds. What `done` is, is moved once, to where it stays: each move is
  // a call.
  /// `into`: where the value is wanted.
  Begun BeginLookup(AsyncOperation::Kind kind, std::string_view key, Done&& done, const CallOptions& call,
                    const RegisteredBytes* into = nullptr);
  /// `from`: where the value is, which then is not copied.
  Begun BeginWrite(Operation message, std::string_view key, std::string_view value, const PutOptions& options,
                   Done&& done, const CallOptions& call, const RegisteredBytes* from = nullptr);
  /// What is done already.
  Begun BeginNothing(Done&& done, const CallOptions& call);
  Begun BeginMessage(const RequestSpec& asked, Done&& done, const CallOptions& call,
                     const RegisteredBytes* from = nullptr);

  /// A key's old place may be of no use any more.
  void Forget(std::uint64_t key_hash) {
    if (broken_.ok())
      session_->cache().locations().Forget(key_hash);  // else all are forgotten with the connection
  }

  bool Cancel(OperationId id);
  std::size_t Poll();
  absl::StatusOr<std::size_t> Wait(TimePoint deadline);
  absl::Status WaitAll(TimePoint deadline);

  std::size_t in_flight() const { return in_flight_; }
  std::size_t room() const { return free_.size(); }
  void Arm();
  void Disarm();
  int fd() const { return waker_.fd(); }
  std::optional<TimePoint> next_deadline() const;
  // Defined in async_reconnect.cc. Between BeginAttempt and EndAttempt only Attempt uses the session, except
  // for its constant parts.
  bool BeginAttempt();
  void Attempt() { reconnect_.result = session_->TryToReconnect(reconnect_.ends); }
  void EndAttempt();
  const absl::Status& status() const { return broken_; }
  Session& session() { return *session_; }
  const Session& session() const { return *session_; }

 private:
  explicit Core(std::unique_ptr<Session> session)
      : session_(std::move(session)), channel_(session_->channel()) {}
  absl::Status Prepare(std::size_t depth);

  /// A place for an operation; in no list yet.
  absl::StatusOr<AsyncOperation*> Begin(AsyncOperation::Kind kind, Done&& done, const CallOptions& call,
                                        const RegisteredBytes* memory);
  void StartLookup(AsyncOperation& operation);
  /// Of its memory; nothing: it has none.
  std::optional<rdma::Sge> MemoryOf(const AsyncOperation& operation) const;
  /// To where its lookup stands.
  void Advance(AsyncOperation& operation) {
    if (operation.lookup.step() != Lookup::Step::kRead) return EndRead(operation);
    session_->region().Prefetch(operation.lookup.offset(), operation.lookup.size());
    readers_.Push(operation);
  }
  /// There is nothing more to READ, for now.
  void EndRead(AsyncOperation& operation);
  void EndLookup(AsyncOperation& operation);
  /// Its callback is due, once; as soon as the device is not at the caller's memory.
  void End(AsyncOperation& operation, absl::Status status);
  bool IsAtMemory(const AsyncOperation& operation) const;
  /// If it has ended, and that was what its callback was waiting for.
  void EndIfMemoryIsFree(AsyncOperation& operation);
  /// There is no connection: nothing has to be waited for.
  void EndAllThatWaitForMemory();
  /// The same, whatever it has under way.
  void Abort(AsyncOperation& operation, absl::Status status);
  void AbortAll(const absl::Status& status);
  absl::Status Overdue() const;
  void Free(AsyncOperation& operation) {
    if (operation.large_buffer != OperationBuffers::kNone) ReleaseLargeBuffer(operation);
    free_.push_back(operation.index);
  }
  /// Its deadline runs anew.
  void Progress(AsyncOperation& operation);

  // Each says whether it did something.
  bool SendMessages();
  bool PostReads();
  bool TakeCompletions();
  bool EndOverdue();
  /// Calls the callbacks of at most so many.
  std::size_t Deliver(std::size_t most);

  absl::StatusOr<bool> Send(AsyncOperation& operation);
  /// The first of a list, and with a put those behind it that share its message. How many; 0: none right now.
  absl::StatusOr<std::size_t> SendFirst(const OperationList& waiting);
  /// Whether it is to wait for Poll, with others that come till then.
  bool IsToShare(const AsyncOperation& operation, const RequestSpec& asked) const;
  /// Whose first operation may be sent; null: nobody's.
  OperationList* NextToSend();
  bool PrepareRead(AsyncOperation& operation);
  void Take(const rdma::Completion& completion);
  void TakeRead(AsyncOperation& operation);
  void TakeReply(const rdma::Completion& completion);
  void TakeAnswer(std::uint32_t owner, const ServerReply& answer, bool may_learn);
  void EndMessage(AsyncOperation& operation, const ServerReply& answer, bool may_learn);
  void NoteRead(std::uint64_t key_hash);
  void Break(const absl::Status& cause);

  // Of async_large.cc.
  void BeginLargePut(AsyncOperation& operation);
  bool DriveLargePut();
  absl::StatusOr<bool> StepLargePut();
  absl::StatusOr<bool> SendOfLargePut(const RequestSpec& asked, std::uint64_t value_hash,
                                      LargePut::Step next);
  absl::StatusOr<bool> SendParts(const AsyncOperation& operation);
  absl::StatusOr<bool> WriteToGrant(AsyncOperation& operation);
  void TakeFence(AsyncOperation& operation);
  void TakeReplyOfLargePut(const ServerReply& answer, bool may_learn);
  /// Its operation ends early.
  void LeaveLargePut();
  /// The connection is gone, and what was reserved with it. Whose it was; null: nobody's any more.
  AsyncOperation* LoseLargePut();

  // Of async_reconnect.cc.
  void Lose();
  bool TryToReconnect();
  bool PrepareAttempt();
  void TakeAttempt();
  void Resume(bool was_forgotten);
  void EndAnswer(AsyncOperation& operation, const ServerReply& answer);
  void SettleUndone();

  /// False: there is none right now. One that it has stays its own.
  bool TakeLargeBuffer(AsyncOperation& operation);
  void ReleaseLargeBuffer(AsyncOperation& operation);

  OperationBuffers buffers_;  // destroyed behind the session
  std::unique_ptr<Session> session_;
  Waker waker_;
  RequestChannel& channel_;  // the session's
  LargePut large_;
  GenerationRead generation_read_;
  absl::Status broken_;  // why there is no connection right now
  bool over_ = false;    // nor will there be one

  ReconnectAttempts reconnect_;  // while there is none
  LostWrites lost_writes_;

  std::vector<AsyncOperation> operations_;  // never moved
  std::vector<std::uint32_t> free_;
  std::uint64_t last_serial_ = 0;
  std::size_t in_flight_ = 0;
  std::size_t reads_in_flight_ = 0;

  // Operations that wait to READ; to READ what is larger than their own buffer; to send what changes nothing;
  // to write; for their callback.
  OperationList readers_;
  OperationList large_readers_;
  OperationList askers_;
  OperationList writers_;
  OperationList ended_;
  bool asked_last_ = false;  // those who ask and those who write take turns

  rdma::AdaptivePoller spinner_;
  std::array<rdma::Completion, kMostReads> completions_;  // of one Poll; kept, to be cleared only once
  TimePoint earliest_ = TimePoint::max();                 // no deadline is earlier; one may be later
  std::uint32_t polls_ = 0;
  bool has_more_ = false;  // to do, where Poll has returned
  TimePoint reads_reported_;
  bool in_poll_ = false;
};

}  // namespace remora
