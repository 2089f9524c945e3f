// The client for many operations at once: one thread begins them, one after the other, and is told of the end
// of each. Nobody waits in between, and no thread is started.
//
//   auto client = remora::AsyncClient::Connect("local:///run/remora.sock", {}, {}, clock);
//   for (const std::string& key : keys) {
//     (*client)->Get(key, [&](const remora::AsyncResult& got) { Use(got.status, got.value); });
//   }
//   (*client)->WaitAll(deadline);
//
// An event loop of somebody else's watches fd() instead, and calls Poll. client/coroutine_client.h: the same
// for coroutines.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/counters.h"
#include "client/options.h"
#include "client/registered_buffer.h"
#include "rdma/transport.h"
#include "store/base/clock.h"
#include "store/format/types/write_options.h"
#include "store/format/wire/write_batch.h"

namespace remora {

struct AsyncOptions {
  /// Operations that may be under way at once, 1 to kMaxAsyncDepth. Each takes 5 KiB of registered memory.
  std::size_t depth = 64;
};

inline constexpr std::size_t kMaxAsyncDepth = 1024;

/// Of one operation.
struct CallOptions {
  /// Unset: ClientOptions::timeout. With a large value, for each piece of it.
  std::optional<std::chrono::milliseconds> timeout{};
};

/// How an operation ended.
struct AsyncResult {
  absl::Status status{};  // as of the call of that name of Client; unless OK, the rest says nothing
  /// Get: until the callback returns, or, if it was read into memory of the caller's, there.
  std::string_view value{};
  std::uint64_t version = 0;  // Get: of the value. Writes: their own; a batch's first
  std::int64_t number = 0;    // Increment: the sum. Append: the size
  /// Ttl: what is left, or nothing, which is for ever.
  std::optional<std::chrono::milliseconds> ttl{};
};

/// One connection to one server, with many operations under way.
///
/// Each call begins an operation and returns at once: its name, or why it was not begun; then nothing was
/// sent, and the callback is never called:
///   InvalidArgument    as Client.
///   ResourceExhausted  `depth` operations are under way: begin it when one has ended.
///   Unavailable        there will be no other connection (ClientOptions::reconnect). Make another client.
/// Keys, values and batches need not outlive the call, but registered memory. Nothing is allocated for an
/// operation like those before but what its callback captures beyond two words, what an error's text takes,
/// and, for a large value (more than kMaxSmallValueSize), a copy of it until the callback returns.
///
/// The callback of an operation is called once, when it has ended, and only inside Poll, Wait, WaitAll or the
/// destructor. It may begin and cancel operations. It must not call those four. Outcomes, beside the
/// operation's own (client.h):
///   DeadlineExceeded  no answer in time. Of a write it is not known whether it was done, or will be.
///                     Unlike with Client, the connection stays good.
///   Cancelled         by Cancel, or the client was destroyed. Of a write, as above.
///   Unavailable       the connection broke, and there was no other before the operation's deadline. Of a
///                     write, as above.
///   Unknown           a write, and its answer was lost with the connection: the next one was to a server
///                     that cannot tell whether it was done (Client).
///   Aborted           a write: it was not done, and a later one was, or may have been, of which nobody wants
///                     to know any more; why, was lost with the connection.
///   FailedPrecondition, PermissionDenied, ResourceExhausted: as Connect, when there was to be another
///                     connection; so end all that are under way.
///
/// Where the connection breaks, Poll makes another, if there are operations under way or when one is begun:
/// at once, then again and again, with pauses of some milliseconds first and a second at last; an attempt
/// takes as long as connecting does, at most ClientOptions::connect_timeout. There, what reads begins again,
/// and the server tells of each write that was sent whether it was done; if not, it is sent again, in its
/// order. So each is done once, or not, as Client says. A server that hangs, but lives, is not noticed:
/// operations end at their deadlines. One that dies is, within milliseconds (local), or when retransmission
/// gives up, after some seconds (verbs). With ClientOptions::reconnect off, or over a connection of the
/// caller's own, all that are under way end with Unavailable, and none can be begun any more.
///
/// Order: writes are done in the order in which they were begun, with all their conditions. Nothing else is
/// promised of operations that are under way together: a Get that is begun behind a Put of the same key may
/// find the value before. One that is begun when the Put has ended does not: all is linearizable, as with
/// Client. A batch that is done all or none is Apply.
///
/// Puts of small values that are begun while another message is under way share one (up to 16 of them; up to
/// 8 where the client would make another connection): when so many wait, or at the next Poll. One with a
/// condition goes alone.
///
/// Large values go in pieces: up to four are read at once, and one is put at a time, in the order of the
/// writes; those behind it are sent when all of it was, and reads go on meanwhile. One that ends early gives
/// back what the server had reserved for it.
///
/// An operation that ended early, at its deadline or by Cancel, keeps its place among `depth` until what it
/// had under way is complete: a READ, milliseconds; what was sent, until the server answers, keeps one of its
/// 16 credits, and no place.
///
/// Memory of the caller's (Register) is the caller's again when the callback is called, however the operation
/// ended. So one that names such memory, and whose deadline has come, or that is cancelled, ends when the
/// device is done with what is under way: microseconds; or, where the server's machine has died, when
/// retransmission gives up.
///
/// For scans, counts, watches and backups there is Client, which waits for the server: in a thread of its
/// own, with a connection of its own (examples/beside.cc). A page of a scan is half a window of work for the
/// server, and a watch waits for what others write: neither gains by being one of many under way here, and
/// what the two threads share is only what the program hands over.
///
/// Thread Safety: none; one thread at a time, as Client. In a forked child nothing can be begun,
/// FailedPrecondition, and Poll does nothing; do not destroy it there.
class AsyncClient {
 public:
  using Done = absl::AnyInvocable<void(const AsyncResult&)>;
  using OperationId = std::uint64_t;  // never 0, and never the same again
  using Begun = absl::StatusOr<OperationId>;

  /// As Client::Connect. InvalidArgument: a depth out of bounds, too.
  static absl::StatusOr<std::unique_ptr<AsyncClient>> Connect(std::string_view address,
                                                              const ClientOptions& options,
                                                              const AsyncOptions& async, const Clock& clock);
  static absl::StatusOr<std::unique_ptr<AsyncClient>> Connect(Dialer dialer, const ClientOptions& options,
                                                              const AsyncOptions& async, const Clock& clock);
  /// Over this connection alone: there will be no other.
  static absl::StatusOr<std::unique_ptr<AsyncClient>> Connect(
      std::unique_ptr<rdma::ClientConnection> connection, const ClientOptions& options,
      const AsyncOptions& async, const Clock& clock);
  /// A clock that does not outlive the call.
  template <typename To>
  static void Connect(To&& to, const ClientOptions& options, const AsyncOptions& async,
                      const Clock&& clock) = delete;

  /// Ends what is under way with Cancelled, and calls the callbacks; they cannot begin anything any more.
  /// What was registered is of no use any more; it may be destroyed behind this.
  ~AsyncClient();
  AsyncClient(const AsyncClient&) = delete;
  AsyncClient& operator=(const AsyncClient&) = delete;

  // --- Operations. What they do and cost: as the call of that name of Client. `done` may be empty.
  // ----------

  Begun Get(std::string_view key, Done done, const CallOptions& call = {});
  /// To the beginning of memory that this client registered, without a copy, as Client.
  Begun Get(std::string_view key, const RegisteredBytes& into, Done done, const CallOptions& call = {});
  /// OK: the key is there. NotFound.
  Begun Exists(std::string_view key, Done done, const CallOptions& call = {});
  Begun Ttl(std::string_view key, Done done, const CallOptions& call = {});

  // PutOptions::version and WriteOptions::version, unless null, are set before the callback is called, if the
  // operation ends OK.
  Begun Put(std::string_view key, std::string_view value, Done done) {
    return Put(key, value, PutOptions(), std::move(done));
  }
  Begun Put(std::string_view key, std::string_view value, const PutOptions& options, Done done,
            const CallOptions& call = {});
  /// Of a value in memory that this client registered, without a copy, as Client. It must stay as it is until
  /// the callback is called.
  Begun Put(std::string_view key, const RegisteredBytes& value, const PutOptions& options, Done done,
            const CallOptions& call = {});
  Begun Delete(std::string_view key, Done done) { return Delete(key, WriteOptions(), std::move(done)); }
  Begun Delete(std::string_view key, const WriteOptions& options, Done done, const CallOptions& call = {});
  Begun Touch(std::string_view key, std::chrono::milliseconds ttl, Done done) {
    return Touch(key, ttl, WriteOptions(), std::move(done));
  }
  Begun Touch(std::string_view key, std::chrono::milliseconds ttl, const WriteOptions& options, Done done,
              const CallOptions& call = {});
  Begun Persist(std::string_view key, Done done) { return Touch(key, kNeverExpires, std::move(done)); }
  Begun Increment(std::string_view key, std::int64_t delta, Done done) {
    return Increment(key, delta, PutOptions(), std::move(done));
  }
  Begun Increment(std::string_view key, std::int64_t delta, const PutOptions& options, Done done,
                  const CallOptions& call = {});
  Begun Append(std::string_view key, std::string_view bytes, Done done) {
    return Append(key, bytes, PutOptions(), std::move(done));
  }
  /// OutOfRange, at once: more than kMaxSmallValueSize bytes.
  Begun Append(std::string_view key, std::string_view bytes, const PutOptions& options, Done done,
               const CallOptions& call = {});
  Begun Apply(const WriteBatch& batch, Done done, const CallOptions& call = {}) {
    return Apply(batch, {}, std::move(done), call);
  }
  Begun Apply(const WriteBatch& batch, std::optional<Durability> durability, Done done,
              const CallOptions& call = {});
  Begun Ping(Done done, const CallOptions& call = {});

  /// As Client::Register. Where there is no connection right now, it takes effect with the next one.
  absl::StatusOr<std::unique_ptr<RegisteredBuffer>> Register(std::span<std::byte> bytes);

  /// Ends the operation with Cancelled, in the next Poll. False: it has ended already. A write that was not
  /// sent yet, for want of a credit, is not done; of another it is not known.
  bool Cancel(OperationId operation);

  // --- Driving
  // ----------------------------------------------------------------------------------------------

  /// Does what there is to do, without waiting; READs are posted here. Returns how many operations ended.
  std::size_t Poll();

  /// Polls until at least one operation ends, or none is under way; how many ended. Sleeps when nothing
  /// comes. DeadlineExceeded: none did by `deadline`, a point of the clock.
  absl::StatusOr<std::size_t> Wait(TimePoint deadline);
  /// Until none is under way. DeadlineExceeded: some still are.
  absl::Status WaitAll(TimePoint deadline);

  /// Operations that were begun, and whose callback was not called yet.
  std::size_t in_flight() const;
  /// How many more may be begun right now.
  std::size_t room() const;

  // For an event loop that sleeps on more than this client:
  //   Arm, then Poll; sleep until fd() is readable, or next_deadline(); Disarm, then Poll.
  // What is begun or cancelled while armed makes fd() readable, so that it needs no thought.
  /// From now on, fd() turns readable when Poll may have something to do; not for what came earlier: Poll
  /// once behind it.
  void Arm();
  /// After sleeping; also after an Arm that was not followed by it.
  void Disarm();
  /// For poll, epoll and the like; the client's.
  int fd() const;
  /// When Poll is due at the latest: for operations that reach their deadline, or to connect anew. Nothing:
  /// none is under way.
  std::optional<TimePoint> next_deadline() const;

  // For an event loop that must not wait for a server that does not answer. Where the connection broke, Poll
  // makes another and waits for it, for up to ClientOptions::connect_timeout; but not from the first
  // BeginAttempt on, which belongs behind each Poll. If it returns true, an attempt is due: Attempt waits for
  // the server, in any thread; behind it, EndAttempt and Poll. Between BeginAttempt and EndAttempt all calls
  // go on as over a broken connection, but that nothing may be registered, and no RegisteredBuffer end, nor
  // the client.
  bool BeginAttempt();
  void Attempt();
  void EndAttempt();

  /// Why there is no connection right now. OK: there is one, as far as Poll has seen.
  const absl::Status& status() const;
  const ClientCounters& counters() const;
  const Clock& clock() const;

 private:
  class Core;
  explicit AsyncClient(std::unique_ptr<Core> core);

  std::unique_ptr<Core> core_;
};

}  // namespace remora
