// A client for many operations at once: one thread begins them, one after the other, and gets a callback at
// the end of each. The client starts no thread and does not block between the operations.
//
//   auto client = remora::AsyncClient::Connect("local:///run/remora.sock", {}, {}, clock);
//   for (const std::string& key : keys) {
//     (*client)->Get(key, [&](const remora::AsyncResult& got) { Use(got.status, got.value); });
//   }
//   (*client)->WaitAll(deadline);
//
// An event loop of another library watches fd() instead, and calls Poll. client/coroutine_client.h offers the
// same for coroutines.
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
#include "client/client_metrics.h"
#include "client/counters.h"
#include "client/options.h"
#include "client/registered_buffer.h"
#include "rdma/transport.h"
#include "store/base/clock.h"
#include "store/format/types/write_options.h"
#include "store/format/wire/write_batch.h"

namespace remora {

/// Options of an AsyncClient, besides ClientOptions.
struct AsyncOptions {
  /// Number of operations that may be in flight at once, 1 to kMaxAsyncDepth. Each takes 5 KiB of registered
  /// memory.
  std::size_t depth = 64;
};

/// Largest AsyncOptions::depth.
inline constexpr std::size_t kMaxAsyncDepth = 1024;

/// Options of one operation.
struct CallOptions {
  /// Time limit of the operation; with a large value, of each piece of it. Unset: ClientOptions::timeout.
  std::optional<std::chrono::milliseconds> timeout{};
};

/// Outcome of an operation.
struct AsyncResult {
  absl::Status status{};  // as for Client's call of that name; unless OK, ignore the other members
  /// The value, of a Get. It is valid until the callback returns, or is in the caller's registered memory.
  std::string_view value{};
  std::uint64_t version = 0;  // Get: the value's. Writes: their own; of a batch, the first
  std::int64_t number = 0;    // Increment: the sum. Append: the new size in bytes
  /// Time for which the key will exist, of a Ttl; nullopt means for ever.
  std::optional<std::chrono::milliseconds> ttl{};
  /// Expiry of the key, of a Get and a Ttl, in milliseconds since 1970 by the server's clock; 0 means never.
  /// A Put with Until(expiry_ms) keeps it (store/format/types/expiry.h).
  std::uint64_t expiry_ms = 0;
};

/// A client of one server, with one connection and many operations in flight.
///
/// Each call begins an operation and returns its ID at once, or a status if it did not begin it. In the
/// latter case the client sent nothing and never calls the callback:
///   InvalidArgument: as for Client.
///   ResourceExhausted: `depth` operations are in flight. Begin this one when another has ended.
///   Unavailable: the client will make no other connection (ClientOptions::reconnect). Make another client.
/// Keys, values and batches need not outlive the call, but registered memory must. Once the client has done
/// similar operations, it allocates memory for another one only in three cases. These are captures of the
/// callback beyond two words, the text of an error, and a copy of a large value (more than
/// kMaxSmallValueSize) until the callback returns.
///
/// The client calls the callback of an operation once, when the operation has ended, and only inside Poll,
/// Wait, WaitAll or the destructor. The callback may begin and cancel operations. It must not call those
/// four. Outcomes, besides the operation's own (client.h):
///   DeadlineExceeded: no answer came in time. A write may or may not have been done, or may be done later.
///     Unlike with Client, the connection stays usable.
///   Cancelled: the caller used Cancel, or destroyed the client. For a write, as above.
///   Unavailable: the connection broke, and the client got no other one before the operation's deadline. For
///     a write, as above.
///   Unknown: the answer to a write was lost with the connection, and the server behind the next one cannot
///     tell whether the write was done (Client).
///   Aborted: a write was not done, and the reason was lost with the connection. A later write was done, or
///     may have been, whose outcome no operation awaits any more.
///   FailedPrecondition, PermissionDenied, ResourceExhausted: as for Connect, when the client had to
///     reconnect. All operations in flight end so.
///   FailedPrecondition: the key's slot is another server's (kvserver --slots).
///
/// When the connection breaks, Poll makes another one, as soon as operations are in flight or the caller
/// begins one. It tries at once, then again and again, with pauses from some milliseconds up to a second. An
/// attempt takes as long as connecting does, at most ClientOptions::connect_timeout. Over the new connection
/// the client begins reads again, and asks the server whether each write that it had sent was done. If not,
/// the client sends it again, in its order. So each write is done once or not at all, as for Client.
///
/// The client does not notice a server that hangs but lives: operations end at their deadlines. It notices a
/// server that dies: within milliseconds (local transport), or when retransmission gives up, after some
/// seconds (verbs). With ClientOptions::reconnect off, or over a connection that the caller passed, all
/// operations in flight then end with Unavailable, and the client begins no others.
///
/// Order: the server does writes in the order in which the caller began them, with all their conditions.
/// Other operations that are in flight together have no order: a Get that begins behind a Put of the same key
/// may find the value before it. A Get that begins after the Put has ended does not: all operations are
/// linearizable, as with Client. Use Apply for a batch that is done as a whole or not at all.
///
/// Puts of small values that the caller begins while another message is in flight share a message. It holds
/// up to 16 of them, or up to 8 if the client may reconnect. The client sends it when that many wait, or at
/// the next Poll. A Put with a condition has its own message.
///
/// Large values go in pieces. The client reads up to four large values at once, and puts one at a time, in
/// the order of the writes. It sends later writes when all of that value was sent; reads continue meanwhile.
/// A large Put that ends early returns the memory that the server had reserved for it.
///
/// An operation that ended early, at its deadline or by Cancel, keeps its place among `depth` until its READs
/// are complete, which takes milliseconds. A message that it sent keeps no place, but one of the 16 credits
/// until the server answers.
///
/// When the client calls the callback, registered memory (Register) belongs to the caller again, however the
/// operation ended. So an operation with registered memory that is cancelled, or reaches its deadline, ends
/// only when the device has completed its work in flight. That takes microseconds or, if the server's machine
/// has died, until retransmission gives up.
///
/// For scans, counts, watches and backups use Client, which waits for the server, in another thread with a
/// connection of its own (examples/beside.cc). A page of a scan is half a window of work for the server, and
/// a watch waits for writes of others. So neither gains by being one of many operations in flight. The two
/// threads share only the data that the program hands over.
///
/// The class has more than 25 methods: one for each operation, with and without registered memory, and those
/// that wait.
///
/// Thread safety: none; one thread at a time, as for Client. In a forked child each call that begins an
/// operation ends with FailedPrecondition, and Poll does nothing. The child must not destroy the client.
class AsyncClient {
 public:
  using Done = absl::AnyInvocable<void(const AsyncResult&)>;
  using Show = absl::AnyInvocable<void(std::string_view value)>;
  using OperationId = std::uint64_t;  // never 0, and never reused
  using Begun = absl::StatusOr<OperationId>;

  /// Connects as Client::Connect does, with the same outcomes. InvalidArgument: also, the depth is out of
  /// bounds.
  static absl::StatusOr<std::unique_ptr<AsyncClient>> Connect(std::string_view address,
                                                              const ClientOptions& options = {},
                                                              const AsyncOptions& async = {},
                                                              const Clock& clock = DefaultClock());
  static absl::StatusOr<std::unique_ptr<AsyncClient>> Connect(Dialer dialer,
                                                              const ClientOptions& options = {},
                                                              const AsyncOptions& async = {},
                                                              const Clock& clock = DefaultClock());
  /// Connects over `connection`, which the caller has dialled. The client never makes another one.
  static absl::StatusOr<std::unique_ptr<AsyncClient>> Connect(
      std::unique_ptr<rdma::ClientConnection> connection, const ClientOptions& options = {},
      const AsyncOptions& async = {}, const Clock& clock = DefaultClock());
  /// Rejects at compile time a temporary clock, which would not outlive the client.
  template <typename To>
  static void Connect(To&& to, const ClientOptions& options, const AsyncOptions& async,
                      const Clock&& clock) = delete;

  /// Ends all operations in flight with Cancelled and calls their callbacks, which cannot begin operations
  /// any more. Registered buffers have no use afterwards; the caller may destroy them then.
  ~AsyncClient();
  AsyncClient(const AsyncClient&) = delete;
  AsyncClient& operator=(const AsyncClient&) = delete;

  // --- Operations: each does and costs the same as Client's call of that name. `done` may be empty. ---

  /// Reads the key's value, with its version and its expiry (AsyncResult).
  Begun Get(std::string_view key, Done done, const CallOptions& call = {});
  /// Reads the value to the beginning of `into`, memory that this client registered, without a copy.
  /// AsyncResult::value shows it there. Outcomes, besides those of Get:
  ///   OutOfRange: the value is larger than `into`.
  ///   InvalidArgument, returned at once: another client registered `into`.
  Begun Get(std::string_view key, const RegisteredBytes& into, Done done, const CallOptions& call = {});
  /// Calls `show` with the key's value where it is, as Client::Visit does. If this process maps the server's
  /// memory, that needs no wait: `show` is called inside this call. Where the value cannot be shown in place,
  /// `show` gets a copy of it, just before the callback. AsyncResult has the version alone. Outcomes as for
  /// Get:
  ///   OK: the last call of `show` saw the value, whole and unchanged, as it was at some moment of this
  ///     operation.
  ///   Any other: if `show` was called, what it saw does not count.
  /// `show` may be called twice. Then the first call saw bytes that were changing, so it must cope with any
  /// bytes. It must not use this client, nor throw, nor keep the view.
  Begun Visit(std::string_view key, Show show, Done done, const CallOptions& call = {});
  /// Tests whether the key exists. OK: it does. NotFound: it does not.
  Begun Exists(std::string_view key, Done done, const CallOptions& call = {});
  /// Reads the time until the key expires, and the moment (AsyncResult::ttl and expiry_ms). NotFound: the key
  /// does not exist.
  Begun Ttl(std::string_view key, Done done, const CallOptions& call = {});

  // If an operation ends OK, the client sets *PutOptions::version or *WriteOptions::version, unless null,
  // before it calls the callback.
  /// Stores the key's value, or replaces it. The client has copied the bytes when the call returns.
  Begun Put(std::string_view key, std::string_view value, Done done) {
    return Put(key, value, PutOptions(), std::move(done));
  }
  Begun Put(std::string_view key, std::string_view value, const PutOptions& options, Done done,
            const CallOptions& call = {});
  /// Puts a value that is in memory which this client registered, without a copy. The memory must not change
  /// until the client calls the callback. Outcomes, besides those of Put:
  ///   DataLoss: the memory changed meanwhile; the server did nothing.
  ///   InvalidArgument, returned at once: another client registered `value`.
  Begun Put(std::string_view key, const RegisteredBytes& value, const PutOptions& options, Done done,
            const CallOptions& call = {});
  /// Deletes the key. NotFound: the key does not exist.
  Begun Delete(std::string_view key, Done done) { return Delete(key, WriteOptions(), std::move(done)); }
  Begun Delete(std::string_view key, const WriteOptions& options, Done done, const CallOptions& call = {});
  /// Sets the key's time to live to `ttl` from now on; Persist removes its expiry. NotFound: the key does not
  /// exist.
  Begun Touch(std::string_view key, std::chrono::milliseconds ttl, Done done) {
    return Touch(key, ttl, WriteOptions(), std::move(done));
  }
  Begun Touch(std::string_view key, std::chrono::milliseconds ttl, const WriteOptions& options, Done done,
              const CallOptions& call = {});
  Begun Persist(std::string_view key, Done done) { return Touch(key, kNeverExpires, std::move(done)); }
  /// Adds `delta` to the number that the key's value spells. AsyncResult::number is the sum.
  Begun Increment(std::string_view key, std::int64_t delta, Done done) {
    return Increment(key, delta, PutOptions(), std::move(done));
  }
  Begun Increment(std::string_view key, std::int64_t delta, const PutOptions& options, Done done,
                  const CallOptions& call = {});
  Begun Append(std::string_view key, std::string_view bytes, Done done) {
    return Append(key, bytes, PutOptions(), std::move(done));
  }
  /// Appends bytes to a value. AsyncResult::number is the new size in bytes. Returns OutOfRange at once,
  /// without beginning, for more than kMaxSmallValueSize bytes.
  Begun Append(std::string_view key, std::string_view bytes, const PutOptions& options, Done done,
               const CallOptions& call = {});
  /// Does all writes of a batch or none. The client has copied the batch when the call returns. `durability`
  /// is that of the whole batch; unset, the server's default.
  Begun Apply(const WriteBatch& batch, Done done, const CallOptions& call = {}) {
    return Apply(batch, {}, std::move(done), call);
  }
  Begun Apply(const WriteBatch& batch, std::optional<Durability> durability, Done done,
              const CallOptions& call = {});
  /// Sends a message to the server, which answers it: one round trip.
  Begun Ping(Done done, const CallOptions& call = {});

  /// Registers memory as Client::Register does. Without a current connection, the registration takes effect
  /// with the next one. The memory remains the caller's and must outlive the returned buffer. Outcomes:
  ///   ResourceExhausted: the process may not lock enough memory.
  ///   FailedPrecondition: this process is a forked child.
  absl::StatusOr<std::unique_ptr<RegisteredBuffer>> Register(std::span<std::byte> bytes);

  /// Ends the operation with Cancelled, in the next Poll. Returns false if it has ended already. A write that
  /// the client has not sent yet, for lack of a credit, is not done; any other write may or may not be done.
  bool Cancel(OperationId operation);

  // --- Driving ---

  /// Does all work that is due, without waiting: posts READs, takes completions, calls callbacks. Returns how
  /// many operations ended.
  std::size_t Poll();

  /// Polls until at least one operation ends, or none is in flight; sleeps while nothing happens. Returns how
  /// many operations ended. DeadlineExceeded: none ended by `deadline`, a time of the client's clock.
  absl::StatusOr<std::size_t> Wait(TimePoint deadline);
  /// Polls until no operation is in flight. DeadlineExceeded: some still are at `deadline`.
  absl::Status WaitAll(TimePoint deadline);

  /// Returns how many operations have begun whose callbacks were not called yet.
  std::size_t in_flight() const;
  /// Returns how many more operations the caller may begin now.
  std::size_t free_slots() const;

  // For an event loop that sleeps on more than this client:
  //   Arm, then Poll; sleep until fd() is readable, or next_deadline(); Disarm, then Poll.
  // Beginning or cancelling an operation while the client is armed makes fd() readable, so the loop needs no
  // special case for it.

  /// Makes fd() turn readable from now on when Poll may have work to do. Earlier events do not count: Poll
  /// once after this.
  void Arm();
  /// Ends the effect of Arm. Call it after sleeping, and also after an Arm that no sleep followed.
  void Disarm();
  /// Returns the descriptor for poll(2), epoll(7) and the like. It is the same one for the client's life, and
  /// the client owns it.
  int fd() const;
  /// Returns when Poll is due at the latest, by the client's clock: for operations that reach their deadline,
  /// or to reconnect. Nullopt: no operation is in flight.
  std::optional<TimePoint> next_deadline() const;

  // For an event loop that must not wait for an unresponsive server. After the connection broke, Poll makes
  // another one and waits for it, for up to ClientOptions::connect_timeout. From the first BeginReconnect on
  // it does not: call BeginReconnect after each Poll. If BeginReconnect returns true, an attempt is due. Then
  // call Reconnect in any thread, where it waits for the server, and afterwards EndReconnect and Poll.
  // Between BeginReconnect and EndReconnect all calls behave as over a broken connection. But the caller must
  // not call Register, destroy a RegisteredBuffer, or destroy the client in between.
  bool BeginReconnect();
  void Reconnect();
  void EndReconnect();
  /// Has the next connection go to other addresses of the same server or shard, for one that has moved. The
  /// present one stays. REQUIRES: not between BeginReconnect and EndReconnect; Connect was given addresses.
  /// InvalidArgument: these are none.
  absl::Status SetAddresses(std::string_view addresses);

  /// Returns why there is no connection now. OK: there is one, as far as Poll has seen.
  const absl::Status& status() const;
  /// Returns the incarnation of the server, as Client::incarnation does; 0: there is no connection now, as
  /// far as Poll has seen.
  std::uint64_t incarnation() const;
  /// Returns the counters of this client since Connect.
  const ClientCounters& counters() const;
  /// Returns the metrics of this client since Connect, as Client::metrics does: with ClientOptions::metrics,
  /// any thread may call it. The time of an operation runs from its start to its end, with the time for which
  /// it waits for others. The path of a GET is that of its last begin, which a lost connection repeats.
  ClientMetrics metrics() const;
  /// Returns the clock that Connect was given.
  const Clock& clock() const;

 private:
  class Core;
  explicit AsyncClient(std::unique_ptr<Core> core);

  std::unique_ptr<Core> core_;
};

}  // namespace remora
