// The transport: one-sided reads and writes, and messages, in the words of librdmacm (<rdma/rdma_verbs.h>).
// It knows regions and messages, and nothing of keys. Implementations: verbs/verbs.h, local/local.h,
// tcp/tcp.h; tests/conformance and tests/simulation have a simulated one. All keep this contract.
// transport_test.cc and transport_failure_test.cc of tests/unit/rdma check the real ones.
//
//   client                                   server
//   Dial(address)                            Listen(address); RegisterRead(memory)...
//   RegisterMessages, PostRecv, OfferWrite   NextRequest() -> connection
//   Connect(request data)          ----->      peer_data(); ProvideWrite, ProvideMessages, PostRecv
//   peer_data()                    <-----      Accept(data)   or   Reject(data)
//   PostReadv, PostWritev, PostSend; Poll / Wait    Listener::Poll / Arm; PostWritev, PostSend
//
// Ordering, on one connection (what a reliable connected queue pair gives; rdma_post_send(3)):
//   O1  Requests start in the order posted. A message arrives after the bytes of every WRITE posted
//       before it: at the receive completion those bytes are whole and visible.
//   O2  A READ posted after a WRITE of the same place sees the written bytes.
//   O3  Inside one READ nothing is ordered and nothing wider than one byte is read whole: words may be
//       torn, and later bytes may be older than earlier ones. Readers verify what they read.
//   O4  A READ returns bytes that were there at some moment between its post and its completion.
//   O5  READs and SENDs complete in the order posted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/address.h"
#include "rdma/local_access.h"
#include "rdma/shared_memory.h"
#include "rdma/tls.h"
#include "store/base/clock.h"
#include "store/format/wire/remote_region.h"

namespace remora::rdma {

/// Private data of the connection handshake, at most (RDMA_PS_TCP with librdmacm: rdma_connect(3),
/// rdma_accept(3), rdma_reject(3)). A receiver may see zero bytes after what was sent.
inline constexpr std::size_t kMaxConnectData = 56;
inline constexpr std::size_t kMaxAcceptData = 196;
inline constexpr std::size_t kMaxRejectData = 148;

/// Largest message (PostSend). Those of kMaxShortMessage bytes and less cost least.
inline constexpr std::size_t kMaxMessageSize = 9216;
inline constexpr std::size_t kMaxShortMessage = 256;

/// Most entries of one scatter/gather list.
inline constexpr std::size_t kMaxSges = 4;

/// Largest memory that a client may offer to its server (OfferWrite).
inline constexpr std::size_t kMaxOfferedSize = std::size_t{8} << 20;

/// Bounds of the requests in flight on a connection. Both sides of a connection use the same
/// values.
struct QueueLimits {
  std::uint32_t sends = 64;     // READs, WRITEs and SENDs posted and not yet completed
  std::uint32_t receives = 32;  // receives posted and not yet filled
  std::uint32_t reads = 16;     // READs that the device works on at once (initiator_depth)
};

/// Choice whether a memory window (ibv_alloc_mw(3)) binds the memory that a client may WRITE to its
/// connection. With a window, the device rejects WRITEs of all others, even if they know the key.
enum class MemoryWindows : std::uint8_t {
  kAuto = 1,  // where the device has them (type 2B); Listener::binds_writes says
  kOff = 2,
};

/// Memory that a transport takes of its own accord to share it with peers.
struct SharedBytes {
  std::size_t listener = 0;    // for each listener
  std::size_t connection = 0;  // for each of its connections, beside what is registered with it
  std::size_t ahead = 0;  // not bytes: how often a listener has what it provides to one, for those to come
};
/// Returns what a transport of this kind takes on a server, in bytes, when its queues have these limits.
SharedBytes SharedBytesOf(TransportKind kind, const QueueLimits& limits);

/// Descriptors that a server's end takes, at most, including those in transfer.
struct Descriptors {
  std::size_t listener = 0;
  std::size_t connection = 0;  // each that was accepted
};
/// Returns how many descriptors a transport of this kind takes on a server.
Descriptors DescriptorsOf(TransportKind kind);

/// Memory of this process made known to a transport (an ibv_mr). Destruction deregisters it
/// (rdma_dereg_mr(3)): afterwards no peer can reach it, except on the local transport, where a client
/// keeps what it has mapped (see local.h). It must outlive the requests that use it, and must be
/// destroyed before its memory, its connection and its listener.
class Registration {
 public:
  virtual ~Registration() = default;
  /// Returns the memory, and the key for an Sge of it (the lkey of an ibv_mr).
  std::span<std::byte> bytes() const { return bytes_; }
  std::uint32_t local_key() const { return local_key_; }
  /// Returns the description that a peer needs to read or write the memory. Size 0 for message
  /// buffers.
  const RemoteRegion& remote() const { return remote_; }

 protected:
  Registration(std::span<std::byte> bytes, std::uint32_t local_key, RemoteRegion remote)
      : bytes_(bytes), local_key_(local_key), remote_(remote) {}

 private:
  std::span<std::byte> bytes_;
  std::uint32_t local_key_;
  RemoteRegion remote_;
};

/// One entry of a scatter/gather list: bytes inside a Registration of the same connection or its listener.
struct Sge {
  std::byte* data = nullptr;
  std::uint32_t size = 0;
  std::uint32_t local_key = 0;
};

/// Returns the entry for bytes [offset, offset + size) of `registration`. REQUIRES: they are inside it, and
/// `size` is less than 2^32.
inline Sge MakeSge(const Registration& registration, std::size_t offset, std::size_t size) {
  return {registration.bytes().data() + offset, static_cast<std::uint32_t>(size), registration.local_key()};
}

class Connection;
class MappedRegion;

enum class CompletionKind : std::uint8_t {
  kRead = 1,
  kSend = 2,
  kReceive = 3,
  kDisconnected = 4,  // the last completion of a connection, once
};

/// The completion of one posted request (ibv_wc). A WRITE has none of its own: it has succeeded when the next
/// SEND or READ of its connection completes, and a failed WRITE breaks the connection.
struct Completion {
  Connection* connection = nullptr;
  std::uint64_t context = 0;     // as given to Post*
  std::uint32_t byte_count = 0;  // kReceive: the message's size
  CompletionKind kind = CompletionKind::kDisconnected;
  /// Success. False: the request failed or was flushed, its buffers hold nothing of use, and
  /// connection->status() has the first cause.
  bool ok = false;
};

/// One reliable, ordered channel to one peer (an rdma_cm_id with its queue pair).
///
/// A failed request of any kind breaks the connection: status() keeps the first cause, every request
/// in flight completes with ok = false, then kDisconnected comes. A connection never heals; make another.
/// Causes, as status codes: Unavailable (peer closed, died, or cannot be reached), PermissionDenied
/// (the peer's device rejected an access), Internal (anything else, with the device's own words).
///
/// Buffers that are named in a posted request belong to the transport until its completion.
/// Destruction ends the connection; requests still in flight get no completion, their
/// buffers are the caller's again when the destructor returns. A server's peer may READ until its end has
/// been brought about (Listener::AwaitEnds).
///
/// Thread safety: none; one thread at a time. The deadline arguments are points of the Clock given to Dial or
/// Listen.
class Connection {
 public:
  virtual ~Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // --- Set-up --------------------------------------------------------------------------------

  /// Registers memory of this process to send from, receive into, and read into (rdma_reg_msgs(3)).
  /// The caller keeps ownership of `bytes`.
  ///
  /// Cost: a system call and pinned pages; not for the data path.
  /// - ResourceExhausted: too little locked memory (the error says how much, and which limit), or
  ///   no device resources.
  virtual absl::StatusOr<std::unique_ptr<Registration>> RegisterMessages(std::span<std::byte> bytes) = 0;

  /// Returns the data that the peer sent along: to a server the request data; to a client the
  /// accept or reject data.
  virtual std::span<const std::byte> peer_data() const = 0;

  /// Either end, once it is accepted: tells the peer that this ends (rdma_disconnect(3)). Call it
  /// before the memory that was registered for the connection goes. Then the peer's requests in
  /// flight fail as Unavailable. If the memory went first, the peer's device would report a
  /// rejected access (PermissionDenied, Internal).
  ///
  /// Afterwards the connection and its registrations can only be destroyed. A server's device does
  /// so later: before the memory that the connection has provided goes, and before AwaitEnds
  /// returns.
  virtual void Disconnect() {}

  // --- Data path. Post* return at once; an error means that nothing was posted and why: -------------
  // --- InvalidArgument (out of the region's range, too many entries, too long; a caller's bug), -----
  // --- ResourceExhausted (a queue limit reached: poll first), or status() when it is broken. --------

  /// WRITEs `from`, in order, to the peer's `region` at `offset` (rdma_post_writev(3)). No completion;
  /// post a SEND or a READ behind it. The buffers are the caller's again at the completion of that. A server
  /// WRITEs to what its client has named; if that may not be written there, only this connection breaks.
  virtual absl::Status PostWritev(std::span<const Sge> from, const RemoteRegion& region,
                                  std::uint64_t offset) = 0;

  /// Sends one message (rdma_post_send(3)) of at most kMaxMessageSize. Completion kSend.
  /// ResourceExhausted: also when long messages fill the space for messages; send again when the peer
  /// has taken some.
  virtual absl::Status PostSend(std::uint64_t context, const Sge& from) = 0;

  /// Offers a buffer for one message (rdma_post_recv(3)); messages fill them in the order posted.
  /// Completion kReceive. A message longer than its buffer breaks the connection. Without a posted receive
  /// the peer's messages, and on verbs its READs behind them, wait: keep as many posted as the peer may send.
  virtual absl::Status PostRecv(std::uint64_t context, const Sge& into) = 0;

  /// Returns OK while the connection is usable; else the first cause. Valid as long as the connection.
  virtual const absl::Status& status() const = 0;

  /// Describes the other end for log lines: "pid 12 uid 1000" or "10.0.0.7:40312".
  virtual std::string peer() const = 0;

  /// Pointer that the user of the connection keeps with it, like the context of an rdma_cm_id.
  /// Transports ignore it. Null at first.
  void* owner() const { return owner_; }
  void set_owner(void* owner) { owner_ = owner; }

 protected:
  Connection() = default;

 private:
  void* owner_ = nullptr;
};

/// The record that came with a bucket (ClientConnection::PostFind).
struct FoundRecord {
  std::uint64_t offset = 0;  // in the region
  std::uint32_t size = 0;    // 0: none came
};

/// The client's end of a connection.
class ClientConnection : public Connection {
 public:
  // --- Set-up --------------------------------------------------------------------------------

  /// Says, before Connect, which memory (Writers::kPeers) may be registered for the server to WRITE.
  /// Touches and pins none of it: that is RegisterWrite's, now, later or never. One memory, of
  /// kMaxOfferedSize at most, which must outlive the connection. A server that maps it keeps it mapped until
  /// the connection ends; it can write it from Connect on. InvalidArgument: of another kind, or larger.
  /// FailedPrecondition: too late, or a second one.
  virtual absl::Status OfferWrite(SharedMemory& memory) = 0;

  /// Registers what it has offered for its server to WRITE (rdma_reg_write(3)), at any time. Errors
  /// as RegisterMessages; FailedPrecondition: not offered.
  virtual absl::StatusOr<std::unique_ptr<Registration>> RegisterWrite(SharedMemory& memory) = 0;

  /// Asks for the connection with `request_data` (at most kMaxConnectData) and waits for the answer.
  /// OK: peer_data() is what the server accepted with. FailedPrecondition: the server rejected; peer_data()
  /// is what it said. Unavailable: nobody listens there. DeadlineExceeded.
  virtual absl::Status Connect(std::span<const std::byte> request_data, TimePoint deadline) = 0;

  // --- Data path ------------------------------------------------------------------------------

  /// READs peer bytes [offset, offset + sum of sizes) of `region` into `to` (rdma_post_readv(3)).
  /// Completion kRead.
  virtual absl::Status PostReadv(std::uint64_t context, std::span<const Sge> to, const RemoteRegion& region,
                                 std::uint64_t offset) = 0;

  /// Returns whether PostFind can be used, where it saves a round trip.
  virtual bool finds() const { return false; }
  /// READs the bucket at `offset` of `region`, and the record that its first slot with this fingerprint
  /// names, if that fits into `record`. Each is a READ as PostReadv's, and nothing is verified. The bucket
  /// may be newer than the slot that was followed. Until the completion (kRead), `found` is the transport's.
  virtual absl::Status PostFind(std::uint64_t context, const Sge& bucket, const Sge& record,
                                const RemoteRegion& region, std::uint64_t offset, std::uint32_t fingerprint,
                                FoundRecord* found);

  /// Returns, after Connect, an object that READs this region at once, without a completion, where a READ
  /// is a copy (rdma/local/mapped_region.h). It is the connection's, and of the region that was asked for
  /// last; when the connection breaks, it reads nothing any more. Null: there is none.
  virtual MappedRegion* Mapped(const RemoteRegion& /*region*/) { return nullptr; }

  /// Takes up to out.size() completions; returns how many. Never blocks.
  virtual std::size_t Poll(std::span<Completion> out) = 0;

  /// Returns whether something may come while the caller polls. False: the server's thread was last
  /// seen on the caller's CPU, and cannot run before the caller sleeps. A hint, which may be wrong.
  virtual bool PollingPays() { return true; }

  /// Returns how often a word of memory can be polled in the time that one Poll takes which finds nothing.
  virtual int PollCost() const { return 1; }

  /// Sleeps until Poll may return something, or DeadlineExceeded. No wake-up is lost: an
  /// event between the last Poll and this call ends it at once. It may return OK early.
  virtual absl::Status Wait(TimePoint deadline) = 0;

  // Functions to sleep on more than this connection, in the words of Listener.
  /// Makes wait_fd() turn readable, from now on, when Poll may have something. After Arm, Poll
  /// until it returns nothing before sleeping, because earlier events are not signalled.
  virtual void Arm() = 0;
  /// Undoes Arm, after sleeping and before the next Poll. Also after an Arm that was not followed
  /// by sleeping.
  virtual void Disarm() = 0;
  /// Returns a descriptor for the connection's life, owned by it, from Connect on. Behind
  /// kDisconnected it may be readable for ever.
  virtual int wait_fd() const = 0;
};

/// The server's end of a connection. It takes its part of a device (a queue pair) with the first
/// Register*, Provide* or Accept. So a rejected client costs no more than the message that says so.
/// Its completions come with those of its listener (Listener::Poll).
class ServerConnection : public Connection {
 public:
  /// Provides, before Accept, registered memory that the registration owns, zero-filled, of `size` at least;
  /// of what was made ahead, where the transport does so. ProvideMessages: to send from and receive into.
  /// ProvideWrite: for this connection's peer to WRITE, bound to the connection where Listener::binds_writes;
  /// `name` as SharedMemory::Create's. Errors as RegisterMessages.
  virtual absl::StatusOr<std::unique_ptr<Registration>> ProvideMessages(std::size_t size);
  virtual absl::StatusOr<std::unique_ptr<Registration>> ProvideWrite(std::string_view name,
                                                                     std::size_t size) = 0;

  /// Returns whether a message of `size` bytes can be sent now, and behind it as many as
  /// QueueLimits::receives, each of at most two times kMaxShortMessage bytes. Messages that the peer has not
  /// taken yet may fill the space for them.
  virtual bool TakesLong(std::size_t /*size*/) const { return true; }

  /// Answers a request that NextRequest returned. Never waits for the client; once the client has
  /// seen it, it may send. Where the transport answers in a thread of its own, a client that is gone by then
  /// is one that disconnects. After Reject the connection is of no use and should be destroyed.
  virtual absl::Status Accept(std::span<const std::byte> data) = 0;
  virtual void Reject(std::span<const std::byte> data) = 0;

  /// Registers, after Accept, bytes [offset, offset + size) of `memory`, which may be given to others
  /// to READ, for this connection's peer to WRITE until the Registration is destroyed. When that has
  /// returned, not a byte of it changes by the peer's doing any more, and a WRITE to it breaks the peer's
  /// connection. The peer may be told by a message posted behind this. Bound as ProvideWrite's.
  /// Unimplemented: this transport cannot take back what it gave. ResourceExhausted: also where the queue is
  /// full (PostSend). Errors and cost as RegisterMessages.
  virtual absl::StatusOr<std::unique_ptr<Registration>> GrantWrite(SharedMemory& memory, std::size_t offset,
                                                                   std::size_t size) = 0;

  /// Asks, after Accept, the peer's device whether it is there; its process notices nothing.
  /// If nothing answers, the connection breaks (Unavailable), as it does when any request is in
  /// flight. So the server calls this now and then on a connection with nothing in flight. Returns
  /// false if this transport always notices by itself.
  virtual bool Probe() { return false; }
};

/// READs that threads of a process have answered, and their cost.
struct ServedReads {
  std::uint64_t reads = 0;
  std::uint64_t bytes = 0;  // of the answers
  Duration cpu_time{};      // of those threads, in all that they do
};

/// The server's end of an address.
///
/// Thread safety: none; the listener and all its connections are used by one thread at a time. The local
/// transport further requires that the thread which called Listen lives until it destroys the listener:
/// when that thread ends, clients take the server for dead (see local.h).
class Listener {
 public:
  virtual ~Listener() = default;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// Returns the address that Listen was asked for, with the port that was really taken.
  virtual const Address& address() const = 0;
  /// Returns the addresses that it listens at, as "127.0.0.1:7470". A name may have several. Empty: the
  /// transport listens at address() itself.
  virtual std::vector<std::string> sockets() const { return {}; }
  /// Returns the limits that Listen was given.
  virtual const QueueLimits& limits() const = 0;

  /// Returns whether only the peer of a connection can write the memory that the connection
  /// registers or grants. If false, every client of this process's listeners that knows the key
  /// can, and the key may be guessed.
  virtual bool binds_writes() const = 0;

  /// Registers `memory` for every connection of this listener to READ (rdma_reg_read(3)), writable by none.
  /// Before the first NextRequest. `memory` (Writers::kOwnerOnly) must outlive the listener. The key is good
  /// for this listener's connections alone. At most 8. Errors as Connection::RegisterMessages.
  virtual absl::StatusOr<RemoteRegion> RegisterRead(SharedMemory& memory) = 0;

  /// Returns the next client that asks to connect; null: there is none. The caller owns its connection, which
  /// must be destroyed before the listener.
  virtual std::unique_ptr<ServerConnection> NextRequest() = 0;

  /// Calls `count`, from other threads than the caller's, with what threads of this process have done for
  /// READs of clients, soon after it was done. `count` must be callable until the listener is destroyed.
  /// Before the first NextRequest. Most transports need no threads for READs, and never call it.
  virtual void CountReads([[maybe_unused]] std::function<void(const ServedReads&)> count) {}

  /// Lets threads of this listener serve requests while the server thread sleeps. Such a thread has queued
  /// completions, and calls `serve`, which polls this listener. False: the server thread is awake, or falls
  /// asleep now; the listener wakes it. `serve` must be callable until the listener is destroyed. Before the
  /// first NextRequest. Most transports need no threads for requests, and never call it.
  virtual void ServeBy([[maybe_unused]] std::function<bool()> serve) {}

  /// Returns the number of clients that came and never became a request. They sent nothing in time,
  /// or no valid hello, or the listener had no space for them.
  virtual std::uint64_t dropped_handshakes() const { return 0; }
  /// Returns how many of the dropped handshakes failed for want of a descriptor. Those clients were
  /// told.
  virtual std::uint64_t without_descriptor() const { return 0; }

  /// Returns a line for the log about a client that was rejected before it became a request. Nothing: there
  /// is none.
  virtual std::optional<std::string> NextRejection() { return std::nullopt; }

  /// Waits until the connections that were disconnected or destroyed before have ended. Then none
  /// of their peers can READ the registered memory any more, except through the mappings of a
  /// process (local.h).
  virtual void AwaitEnds() {}

  /// Takes up to out.size() completions of all accepted connections; returns how many. Never blocks. After a
  /// connection's kDisconnected nothing more comes of it; the caller destroys it. (Completions of a
  /// connection that the caller has destroyed itself no longer come.)
  virtual std::size_t Poll(std::span<Completion> out) = 0;

  /// Returns whether a client may send while the caller polls. False: a client whose message the last
  /// Poll took was last seen on the caller's CPU. A hint, which may be wrong.
  virtual bool PollingPays() const { return true; }

  /// Makes wait_fd() turn readable, from now on, when NextRequest or Poll may have something. After
  /// Arm, call both once more before sleeping, because earlier events are not signalled.
  virtual void Arm() = 0;
  /// Undoes Arm or ArmBriefly, after sleeping. Also after one that was not followed by sleeping.
  virtual void Disarm() = 0;
  /// Makes SleepBriefly end, from now on, when Poll may have something. As behind Arm, call NextRequest and
  /// Poll once more before sleeping. Returns false if such a sleep is not possible now; then nothing was
  /// done.
  virtual bool ArmBriefly() { return false; }
  /// Returns the word by which other threads may end SleepBriefly (FutexNotify, local/futex.h). It is good
  /// until the next call of this listener behind SleepBriefly. Null: the sleep is not possible any more.
  /// REQUIRES: ArmBriefly returned true.
  virtual std::atomic<std::uint32_t>* brief_word() { return nullptr; }
  /// Sleeps until Poll may have something, somebody uses brief_word(), or `longest` is over. New clients do
  /// not end the sleep, nor do connections that end. Returns false if `longest` went by.
  /// REQUIRES: brief_word() is not null.
  virtual bool SleepBriefly([[maybe_unused]] Duration longest) { return false; }
  /// Returns a descriptor for the listener's life, owned by it.
  virtual int wait_fd() const = 0;

 protected:
  Listener() = default;
};

/// Resolves `address` and makes a connection that is not connected yet. `clock` must outlive it.
/// Unavailable: no such host, no route, or nobody listens (some transports find out in Connect).
/// FailedPrecondition: no RDMA device reaches the address (says what to do). PermissionDenied: this
/// user may not open the socket of a local address, or an RDMA device.
/// The connection gets none of the descriptors 0 to 2 (store/base/standard_streams.h).
/// `tls`: for tls:// addresses. It reads the files; errors as ServerTls::Create. InvalidArgument: a tls://
/// address and neither authorities nor a token, or files for TLS and another address.
absl::StatusOr<std::unique_ptr<ClientConnection>> Dial(const Address& address, const QueueLimits& limits,
                                                       const Clock& clock, TimePoint deadline,
                                                       const ClientTls& tls = {});
/// Rejects at compile time a temporary clock, which would not outlive the connection.
void Dial(const Address&, const QueueLimits&, const Clock&&, TimePoint, const ClientTls& = {}) = delete;

/// Returns OK if such memory may be offered; for implementations of ClientConnection::OfferWrite.
/// InvalidArgument: as there.
absl::Status CheckOffer(const SharedMemory& memory);

/// Starts to listen. `clock` must outlive the listener. `tcp_threads`: threads that serve READs over tcp://.
/// `tls`: for a tls:// address, which without it is an InvalidArgument.
/// AlreadyExists: the port or path is in use by another server. FailedPrecondition: no RDMA device has
/// this address. PermissionDenied, ResourceExhausted, NotFound (the socket's directory is missing).
/// InvalidArgument: the umask keeps those from the socket whom `access` admits.
absl::StatusOr<std::unique_ptr<Listener>> Listen(const Address& address, const QueueLimits& limits,
                                                 const Clock& clock,
                                                 MemoryWindows windows = MemoryWindows::kAuto,
                                                 std::uint32_t tcp_threads = 1,
                                                 const LocalAccess& access = {},
                                                 std::shared_ptr<ServerTls> tls = nullptr);
/// Rejects at compile time a temporary clock, which would not outlive the listener.
void Listen(const Address&, const QueueLimits&, const Clock&&, MemoryWindows = MemoryWindows::kAuto,
            std::uint32_t = 1, const LocalAccess& = {}, std::shared_ptr<ServerTls> = nullptr) = delete;

/// Returns the failure that Listen would have because an address is in use, or may not be used.
/// InvalidArgument if two of them cannot be listened at together. It is for a program that makes files before
/// it listens. No client notices, and the addresses stay free. Addresses of verbs are not checked.
absl::Status CheckFree(std::span<const Address> addresses);

/// Returns the failure that Listen would have even if no other server used the addresses, as far as that is
/// known without making a file. Otherwise like CheckFree.
absl::Status CheckUsable(std::span<const Address> addresses);

}  // namespace remora::rdma
