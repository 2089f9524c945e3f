// The state machine that drives the operations of an AsyncClient.
//
//   begun ─▶ readers_ ─▶ READ under way ─▶ Lookup judges ─▶ readers_ again, or askers_, or ended_
//     ├────▶ askers_, writers_ ─▶ message under way (channel_) ─▶ reply ─▶ ended_, or readers_
//     └────▶ writers_ ─▶ large_, one at a time (large_put.h) ─▶ reply ─▶ ended_
//                                                            ended_ ─▶ callback ─▶ free
//
// From every state, a deadline, Cancel or the end of the connection leads to ended_. The client may call a
// callback while the READ of its operation is still in flight. Then the operation's place becomes free when
// the READ completes: until then the device may write there. reconnect.cc handles all operations when the
// connection breaks.
//
// When the client calls a callback, registered memory (RegisteredBytes) belongs to the caller again. So an
// operation may have to end while the device can still access that memory: by a READ, or by a WRITE whose
// SEND or fence is not complete. Such an operation is in no list until the device has completed its work.
// When the connection broke, the client ends it before it calls the callback.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
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

/// The operations of an AsyncClient and their queues. Start allocates and registers all memory.
///
/// The class has more than 25 methods and 15 fields, because an operation goes through all of its queues.
/// Most methods are steps of that one machine, with a file for each stage of it (engine.cc, poll.cc,
/// large_put.cc, reconnect.cc). Buffers, descriptors, and the state of a recovery have owners of their own:
/// OperationBuffers, Waker, ReconnectAttempts, LostWrites.
///
/// Thread safety: none.
class AsyncClient::Core {
 public:
  /// Most READs in flight at once. With two sends for each credit, they are as many as a connection takes
  /// (QueueLimits).
  static constexpr std::size_t kMostReads = SessionBuffers::kMaxBatch;
  static_assert(kMostReads + 2 * RequestChannel::kMaxInFlight <= rdma::QueueLimits().sends);
  /// A WRITE and the READ behind it count as this many of kMostReads.
  static constexpr std::size_t kFencedWrite = 2;

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
  /// Begins a write. `from`, unless null: registered memory with the value, which is then not copied.
  Begun BeginWrite(Operation message, std::string_view key, std::string_view value, const PutOptions& options,
                   Done&& done, const CallOptions& call, const RegisteredBytes* from = nullptr);
  /// Begins an operation that has nothing to do and ends OK.
  Begun BeginNothing(Done&& done, const CallOptions& call);
  Begun BeginMessage(const RequestSpec& asked, Done&& done, const CallOptions& call,
                     const RegisteredBytes* from = nullptr);

  /// Drops the key's cached location, because a write may have made it obsolete.
  void Forget(std::uint64_t key_hash) {
    if (broken_.ok())
      session_->cache().locations().Forget(key_hash);  // else the cache was cleared with the connection
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
  // Defined in reconnect.cc. Between BeginAttempt and EndAttempt only Attempt uses the session, except for
  // its constant parts.
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
  /// Ends the process within a Poll: says `mistake` if it is one of a callback, or that two threads use the
  /// client.
  void CheckNotInPoll(const char* mistake) const;

  /// Takes a place for an operation, which is in no list yet. ResourceExhausted: no place is free.
  absl::StatusOr<AsyncOperation*> Begin(AsyncOperation::Kind kind, Done&& done, const CallOptions& call,
                                        const RegisteredBytes* memory);
  void StartLookup(AsyncOperation& operation);
  /// Returns the scatter-gather element of the operation's registered memory; nullopt: it has none.
  std::optional<rdma::Sge> MemoryOf(const AsyncOperation& operation) const;
  /// Moves the operation to the list that the next step of its lookup needs.
  void Advance(AsyncOperation& operation) {
    if (operation.lookup.step() != Lookup::Step::kRead) return EndRead(operation);
    session_->region().Prefetch(operation.lookup.offset(), operation.lookup.size());
    readers_.Push(operation);
  }
  /// Continues an operation whose lookup needs no READ for now.
  void EndRead(AsyncOperation& operation);
  void EndLookup(AsyncOperation& operation);
  /// Ends the operation: its callback is due, once, as soon as the device no longer accesses the caller's
  /// memory.
  void End(AsyncOperation& operation, absl::Status status);
  /// Counts an operation that has ended. REQUIRES: the session has a recorder.
  void Record(const AsyncOperation& operation) const;
  bool IsAtMemory(const AsyncOperation& operation) const;
  /// Makes the callback due if the operation has ended and the device no longer accesses the caller's memory.
  void EndIfMemoryIsFree(AsyncOperation& operation);
  /// Makes the callbacks due of all operations that waited for the device. REQUIRES: the connection has
  /// ended.
  void EndAllThatWaitForMemory();
  /// Ends the operation, even if it has a READ or message in flight.
  void Abort(AsyncOperation& operation, absl::Status status);
  void AbortAll(const absl::Status& status);
  absl::Status Overdue() const;
  void Free(AsyncOperation& operation) {
    if (operation.large_buffer != OperationBuffers::kNone) ReleaseLargeBuffer(operation);
    free_.push_back(operation.index);
  }
  /// Restarts the operation's deadline.
  void Progress(AsyncOperation& operation);

  // Stages of a Poll. Each returns whether it did something.
  bool SendMessages();
  bool PostReads();
  bool TakeCompletions();
  bool EndOverdue();
  /// Calls the callbacks of at most `most` operations. Returns how many it called.
  std::size_t Deliver(std::size_t most);

  absl::StatusOr<bool> Send(AsyncOperation& operation);
  /// Sends the first operation of a list; if it is a put, with the later ones that share its message. Returns
  /// how many it sent; 0: the channel takes none now.
  absl::StatusOr<std::size_t> SendFirst(const OperationList& waiting);
  /// Returns whether the put waits for Poll, so that others which begin until then can share its message.
  bool IsToShare(const AsyncOperation& operation, const RequestSpec& asked) const;
  /// Returns the list whose first operation may be sent next; null: none.
  OperationList* NextToSend();
  bool PrepareRead(AsyncOperation& operation);
  absl::Status PostFind(AsyncOperation& operation);
  void Take(const rdma::Completion& completion);
  void TakeRead(AsyncOperation& operation);
  void TakeReply(const rdma::Completion& completion);
  void TakeAnswer(std::uint32_t owner, const ServerReply& answer, bool may_learn);
  void EndMessage(AsyncOperation& operation, const ServerReply& answer, bool may_learn);
  void NoteRead(std::uint64_t key_hash);
  void Break(const absl::Status& cause);

  // Defined in large_put.cc.
  void BeginLargePut(AsyncOperation& operation);
  bool DriveLargePut();
  absl::StatusOr<bool> StepLargePut();
  absl::StatusOr<bool> SendOfLargePut(const RequestSpec& asked, std::uint64_t value_hash,
                                      LargePut::Step next);
  absl::StatusOr<bool> SendParts(const AsyncOperation& operation);
  absl::StatusOr<bool> WriteToGrant(AsyncOperation& operation);
  void TakeFence(AsyncOperation& operation);
  void TakeReplyOfLargePut(const ServerReply& answer, bool may_learn);
  /// Detaches the large put from its operation, which ends early.
  void LeaveLargePut();
  /// Drops the large put, whose reservation ended with the connection. Returns its operation; null if that
  /// has ended.
  AsyncOperation* LoseLargePut();

  // Defined in reconnect.cc.
  void Lose();
  bool TryToReconnect();
  bool PrepareAttempt();
  void TakeAttempt();
  void Resume(bool was_forgotten);
  void EndAnswer(AsyncOperation& operation, const ServerReply& answer);
  void SettleUndone();

  /// Gives the operation a large buffer; one that it has remains its own. Returns false if none is free now.
  bool TakeLargeBuffer(AsyncOperation& operation);
  void ReleaseLargeBuffer(AsyncOperation& operation);

  OperationBuffers buffers_;  // destroyed after the session
  std::unique_ptr<Session> session_;
  Waker waker_;
  RequestChannel& channel_;  // the session's
  LargePut large_;
  GenerationRead generation_read_;
  absl::Status broken_;  // why there is no connection now
  bool over_ = false;    // the client makes no other connection

  ReconnectAttempts reconnect_;  // used while there is no connection
  LostWrites lost_writes_;

  std::vector<AsyncOperation> operations_;  // never moved
  std::vector<std::uint32_t> free_;
  std::uint64_t last_serial_ = 0;
  std::size_t in_flight_ = 0;
  std::size_t reads_in_flight_ = 0;

  // Operations that wait:
  OperationList readers_;        // for a READ
  OperationList large_readers_;  // for a READ of a record that is larger than their own buffer
  OperationList askers_;         // to send a message that changes nothing
  OperationList writers_;        // to send a write
  OperationList ended_;          // for their callback
  bool asked_last_ = false;      // askers_ and writers_ take turns

  rdma::AdaptivePoller spinner_;
  std::array<rdma::Completion, kMostReads>
      completions_;                        // of one Poll; a member, so that it is cleared only once
  TimePoint earliest_ = TimePoint::max();  // lower bound of all deadlines
  std::uint32_t polls_ = 0;
  bool has_more_ = false;  // Poll has returned with work left
  TimePoint reads_reported_;
  std::thread::id poller_;  // that is in Poll, and its callbacks; none: nobody is
};

}  // namespace remora
