// A client of one server: a key-value map in the server's memory, which the client reads in place.
//
//   auto client = remora::Client::Connect("local:///run/remora.sock");
//   (*client)->Put("key", "value");
//   absl::StatusOr<std::string> value = (*client)->Get("key");
//
// A GET reads the server's index and log with one-sided READs. Over RDMA and on the same host they wake no
// thread of the server; over TCP a thread beside the server thread answers them. If a key is not in the
// server's memory, the client asks the server thread. A PUT is one round trip.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client_metrics.h"
#include "client/counters.h"
#include "client/options.h"
#include "client/registered_buffer.h"
#include "client/scan.h"
#include "client/watch.h"
#include "rdma/transport.h"
#include "store/base/clock.h"
#include "store/base/results.h"
#include "store/format/memory/layout.h"
#include "store/format/types/scan_options.h"
#include "store/format/types/write_options.h"
#include "store/format/wire/write_batch.h"

namespace remora {

/// The way in which a server becomes a primary.
enum class PromotionKind : std::uint8_t {
  kSafe = 1,
  kByForce,  // of a member of a shard in etcd: acknowledged writes may be lost (kvctl cluster force)
};

/// The state of a server that was promoted (Client::Promote).
struct Promotion {
  std::uint64_t epoch = 0;       // number of its reign, one more than that of the primary before
  std::uint64_t last_group = 0;  // number of the last group of writes that it has
  std::string waits_for;         // why it does not serve clients yet; empty: it does
};

/// Progress of a backup of the server's store (Client::Backup).
struct BackupProgress {
  bool done = false;
  // Meaningful once `done` is true:
  std::uint64_t id = 0;         // the backup's number in the server's backup directory
  std::uint64_t version = 0;    // the backup has all writes up to this version, and perhaps some later ones
  std::uint64_t bytes = 0;      // total size of the backup's files
  std::uint64_t new_bytes = 0;  // size of those files that no earlier backup shares
};

/// A client of one server, with at most one connection to it at a time.
///
/// Besides its own outcomes, every call may fail with:
///   Unavailable: the server is gone, or the connection broke, and the client got no other one within
///     ClientOptions::timeout. A write that was in flight may or may not have been done. The next call tries
///     to connect again.
///   DeadlineExceeded: the server did not answer within ClientOptions::timeout. The rest as for Unavailable.
///   Unknown: the answer to a write was lost with the connection, and the server behind the next connection
///     cannot tell whether the write was done. Either that server was restarted without a durable tier, or it
///     has served thousands of other clients since and forgot this one (ServerOptions).
///   FailedPrecondition, PermissionDenied, ResourceExhausted: as for Connect, when the call had to connect
///     again.
///   InvalidArgument: a key or value has a size out of bounds (kMinKeySize to kMaxKeySize, up to
///     kMaxValueSize). The client sent nothing.
///
/// When the connection breaks, the client makes another one. Over it, the client begins reads again, and asks
/// the server whether a write was done. If it was not, the client sends it again. So a write either is done
/// once, as its answer says, or ends with Unavailable, DeadlineExceeded or Unknown, and was done once or not
/// at all. A write that ended so cannot take effect after later writes of this client. The reason: before the
/// server accepts another connection of a client, it drops the old one with all requests that it has not
/// done.
///
/// The client does not begin a MultiPut, or a deletion of many keys, a second time. But both begin over a new
/// connection when the old one broke before. A MultiPut does so when an earlier call or the transport has
/// noticed, as after a restart of the server; a deletion always. A scan continues as of a later moment
/// (client/scan.h).
///
/// With ClientOptions::reconnect off, or over a connection that the caller passed, the first connection is
/// the only one. After Unavailable or DeadlineExceeded all later calls fail: make another client.
///
/// All operations are linearizable: once any client was told that a value is written, every GET that begins
/// afterwards sees it.
///
/// The class has more than 25 methods: one for each operation, and accessors. They share one session.
///
/// Thread safety: none. One thread at a time may use a client, and it need not always be the same one.
/// Threads that work in parallel have one client each; client/client_pool.h lends them. A client is a
/// connection, with its own memory at the server, and shares nothing, so no call takes a lock. If two threads
/// are in calls of one client at the same time, the client notices it, though not always at once, and ends
/// the process with a message (client/session/call_guard.h).
///
/// Clients do not even share a location cache: each drops entries by the changes of the server's memory that
/// it has itself seen (client/cache/segment_generations.h).
///
/// In a forked child each call ends with FailedPrecondition and does nothing, because to the server parent
/// and child would be the same client. The child must not destroy the client either; it connects anew. The
/// parent's client continues to work: the parent keeps the registered memory, and the child has a copy. (Over
/// verbs this needs Linux 5.12 or later; do not fork before.)
class Client {
 public:
  /// Connects to a server at `verbs://HOST:PORT`, `tcp://HOST:PORT`, `tls://HOST:PORT` or `local:///PATH`
  /// (rdma/address.h), or to the first that serves of several such addresses with commas between them
  /// (rdma/address_list.h). `auto:` before them puts them into the order verbs, local, TCP. The client passes
  /// over an address after Unavailable, DeadlineExceeded or FailedPrecondition. It keeps the address that it
  /// has chosen; later connections go there, too.
  /// `clock`, which a test may own, must outlive the client. Outcomes:
  ///   InvalidArgument: the address, the auth token or an option is malformed; or one side speaks TLS, and
  ///     the other does not.
  ///   Unavailable: the host does not exist, no program listens there, or a program other than a Remora
  ///     server does.
  ///   PermissionDenied: the local server belongs to another user; or the server requires an auth token, and
  ///     this one is missing or unknown to it; or the server does not know the token and may be an impostor;
  ///     or one side does not accept the TLS certificate of the other.
  ///   FailedPrecondition: no RDMA device reaches the server, or the server rejected the client: its format
  ///     or version differs, or it is full.
  ///   DeadlineExceeded: ClientOptions::connect_timeout is over.
  ///   ResourceExhausted: the process may not lock enough memory, or has none for the location cache.
  /// If a descriptor of 0 to 2 is closed, Connect opens /dev/null there first. Otherwise a connection could
  /// get that number, and output of the process would go into it.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(std::string_view address,
                                                         const ClientOptions& options = {},
                                                         const Clock& clock = DefaultClock());

  /// Connects over connections that `dialer` makes: it dials them, and the client completes the handshake
  /// (client/options.h). Outcomes as for an address, and any status of `dialer`.
  using Dialer = remora::Dialer;
  static absl::StatusOr<std::unique_ptr<Client>> Connect(Dialer dialer, const ClientOptions& options = {},
                                                         const Clock& clock = DefaultClock());

  /// Connects over `connection`, which the caller has dialled. The client never makes another one. Outcomes
  /// as for an address, less those of dialling.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(std::unique_ptr<rdma::ClientConnection> connection,
                                                         const ClientOptions& options = {},
                                                         const Clock& clock = DefaultClock());

  /// Returns the address that the client has chosen and its transport, then why it passed over others of the
  /// list. Empty: the caller made the connection. Valid as long as the client. An example:
  ///   tcp://kv:7470, tcp (READs are served by the server's CPU); not verbs://kv:7471: no RDMA device ...
  const std::string& description() const;

  /// Rejects at compile time a temporary clock, which would not outlive the client.
  template <typename To>
  static void Connect(To&& to, const ClientOptions& options, const Clock&& clock) = delete;

  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Returns the key's value. Outcomes:
  ///   NotFound: the key does not exist.
  ///   FailedPrecondition: the key's slot is another server's (kvserver --slots). All reads, and all writes,
  ///     may end so.
  ///   ResourceExhausted: the record is only in the server's durable tier, and the server has no space for it
  ///     in memory.
  ///   Unavailable: also, the server cannot read its disk.
  ///   DataLoss: the record in the durable tier is damaged. This is not a miss: nothing says whether the key
  ///     has a value.
  ///
  /// Cost: one READ of a bucket and, if the key exists, one READ of its record. If this client got or put the
  /// key before, often only the latter (ClientOptions::location_cache_bytes). If the record is only in the
  /// durable tier, one more round trip, in which the server reads it. After a restart, while
  /// the server loads its durable tier, a missing key costs that round trip too, and may have those outcomes.
  absl::StatusOr<std::string> Get(std::string_view key);

  /// Reads the key's value into *value and reuses its memory. `version`, unless null, gets the version of the
  /// write that stored the value. Outcomes and cost as for the Get above.
  ///
  /// Unless the call ends OK, *value is unchanged, with two exceptions. In the first, the client met a value
  /// of more than kMaxSmallValueSize bytes. In the second, its thread was held up during the call for longer
  /// than the server keeps memory for readers. The client reads such a large value into *value in pieces and
  /// verifies it afterwards. It allocates and registers no memory for it but *value itself.
  absl::Status Get(std::string_view key, std::string* value, std::uint64_t* version = nullptr);

  /// Calls `show` with the key's value where it is, without a copy: in the server's memory, if this process
  /// maps it (`local://`). `version` is as for Get. Over other transports, and where the value cannot be
  /// shown in place, `show` gets a copy.
  ///
  /// `show` may be called twice. Then the first call saw bytes that were changing, so it must cope with any
  /// bytes, and the second call counts. It must not use this client, nor keep the view. Outcomes as for Get:
  ///   OK: the last call of `show` saw the value, whole and unchanged, as it was at some moment of this call.
  ///   Any other: if `show` was called, what it saw does not count.
  ///
  /// The checksum of a value that is shown in place is not verified, since nothing can tear it there. Cost:
  /// as for Get, without the copy and the hash of the value.
  absl::Status Visit(std::string_view key, absl::FunctionRef<void(std::string_view value)> show,
                     std::uint64_t* version = nullptr);

  /// Returns whether the key exists. Cost and failures as for Get, but the client does not read a large
  /// value: it asks the server.
  absl::StatusOr<bool> Exists(std::string_view key);

  /// Gets each of `keys` and stores its outcome into the element of `results` with the same index. The client
  /// keeps the READs of up to 32 keys in flight at once, so the call takes about as long as two READs and the
  /// transfer of the values. Each value was the key's value at some moment of the call; these moments may
  /// differ from key to key. Outcomes:
  ///   OK: each result has the outcome of its key. A missing key is NotFound, a key out of bounds is
  ///     InvalidArgument, and neither affects other keys.
  ///   InvalidArgument: `results` and `keys` differ in size.
  ///   Any other: the connection broke. The results that were incomplete at that time have the same status.
  absl::Status MultiGet(std::span<const std::string_view> keys, std::span<GetResult> results);

  /// Registers memory of the caller with the transport, so that Get reads values into it, and Put sends
  /// values from it, without a copy. The memory remains the caller's and must outlive the returned buffer.
  /// Cost: some 20 us, and more if pages have never been touched; so register once, and use the buffer for
  /// many values. Outcomes:
  ///   ResourceExhausted: the process may not lock enough memory.
  absl::StatusOr<std::unique_ptr<RegisteredBuffer>> Register(std::span<std::byte> bytes);

  /// Reads the key's value to the beginning of `into`, memory that this client registered, and returns the
  /// value's size in bytes. Works for values of any size: one READ scatters {header and key, value}. Unless
  /// the call ends OK, the contents of `into` are unspecified; so are always the bytes behind the value,
  /// because the client verifies data after it arrived. Outcomes and cost as for Get, and:
  ///   OutOfRange: the value is larger than `into`; the message states its size.
  ///   InvalidArgument: another client registered `into`.
  absl::StatusOr<std::size_t> Get(std::string_view key, const RegisteredBytes& into,
                                  std::uint64_t* version = nullptr);

  /// Stores the key's value, or replaces it. Cost: one WRITE, one message and its reply. Outcomes:
  ///   OK: the value is visible to all clients, and as durable as the server's default says.
  ///   ResourceExhausted: the server has no space; it did nothing.
  absl::Status Put(std::string_view key, std::string_view value);

  /// Stores the key's value with a time to live, a condition, or both. Outcomes as for Put without options,
  /// and:
  ///   InvalidArgument: the time to live is not IsTtl.
  ///   AlreadyExists, NotFound, FailedPrecondition: the condition does not hold; the server did nothing.
  ///
  /// The server's clock decides about the time to live. From its last millisecond on, the record counts as
  /// absent for every operation: Get does not find it, and neither does Delete. Each Put sets the time anew.
  /// Mostly a GET decides without asking the server whether a record has expired. Two cases differ: close to
  /// the expiry the clocks might disagree, or the client last learned the server's time more than a minute
  /// ago. Then the GET costs one more round trip (client/session/server_clock.h).
  ///
  /// The server decides a condition in the order of all writes (store/format/types/write_options.h); for a
  /// large value, when all of it has arrived. To replace exactly the value that was read:
  ///   client.Get(key, &value, &version);
  ///   client.Put(key, changed, {.condition = Condition::Version(version)});  // FailedPrecondition: again
  /// A write that ends with Unavailable, DeadlineExceeded or Unknown may have been done, and then its own
  /// condition may no longer hold.
  absl::Status Put(std::string_view key, std::string_view value, const PutOptions& options);

  /// Stores a value that is in memory which this client registered. One WRITE gathers {key, value}: the
  /// client does not copy the value, and reads it once, for its checksum. Below kMinZeroCopyBytes bytes the
  /// client copies the value nevertheless. Outcomes as for Put with options, and:
  ///   DataLoss: the memory changed during the call; the server did nothing.
  ///   InvalidArgument: another client registered `value`.
  absl::Status Put(std::string_view key, const RegisteredBytes& value, const PutOptions& options = {});

  /// Puts each of `requests`, in their order, and stores its outcome into the element of `results` with the
  /// same index. Each is a write of its own, and is done or fails independently of the others; use Apply to
  /// do all or none. Outcomes:
  ///   OK: each result has the outcome of its write. A write out of bounds is InvalidArgument, and does not
  ///     affect others.
  ///   InvalidArgument: `results` and `requests` differ in size.
  ///   Any other: the connection broke. The results that had no answer by then have the same status; their
  ///     writes may or may not have been done.
  ///
  /// Cost: adjacent requests without condition and with the same durability share a message, up to 16
  /// requests and 16 KiB together. Up to 16 messages are in flight at once, as far as they fit into 256 KiB
  /// together. The client puts large values one at a time.
  absl::Status MultiPut(std::span<const PutRequest> requests, std::span<PutResult> results);

  /// Sets the key's time to live to `ttl` from now on; Persist removes its expiry. The effect is that of a
  /// Get and a Put of the same value with no other write of the key in between. The old expiry may pass in
  /// between, though: then a concurrent GET may miss the key. Cost: as for Put without a value. Outcomes:
  ///   NotFound: the key does not exist.
  ///   InvalidArgument, ResourceExhausted: as for Put.
  absl::Status Touch(std::string_view key, std::chrono::milliseconds ttl, const WriteOptions& options = {});
  absl::Status Persist(std::string_view key, const WriteOptions& options = {});

  /// Returns how long the key will exist, or a little less; nullopt means for ever. NotFound: the key does
  /// not exist. Cost: as for Get.
  absl::StatusOr<std::optional<std::chrono::milliseconds>> Ttl(std::string_view key);

  /// Deletes the key. NotFound: the key does not exist. Conditions, other outcomes and cost as for Put.
  absl::Status Delete(std::string_view key, const WriteOptions& options = {});

  /// Adds `delta` to the number that the key's value spells in decimal digits, with an optional leading minus
  /// sign. Stores the sum in the same form, and returns it. An absent key counts as 0. Unless the options
  /// give a time to live, the key keeps its expiry. Cost: as for Put. After Unavailable, DeadlineExceeded or
  /// Unknown, `delta` was added once or not at all. Outcomes as for Put, and:
  ///   FailedPrecondition: the value is not a number, or does not fit into 64 bits; the value is unchanged.
  ///   OutOfRange: the sum does not fit into 64 bits; the value is unchanged.
  absl::StatusOr<std::int64_t> Increment(std::string_view key, std::int64_t delta,
                                         const PutOptions& options = {});

  /// Appends `bytes` to the key's value and returns its new size in bytes. An absent key counts as an empty
  /// value. Unless the options give a time to live, the key keeps its expiry. Cost: as for Put of `bytes`;
  /// the server rewrites the whole value. Outcomes as for Put, and:
  ///   OutOfRange: the value would exceed kMaxSmallValueSize; it is unchanged.
  absl::StatusOr<std::size_t> Append(std::string_view key, std::string_view bytes,
                                     const PutOptions& options = {});

  /// Does all writes of a batch or none, at one place in the order of all writes, even if the server dies
  /// meanwhile. `version`, unless null, gets the version of the first write; the others have the consecutive
  /// ones. `durability` is that of the whole batch; unset, the server's default (PutOptions). Cost: as for
  /// Put. Outcomes as for Put, and:
  ///   InvalidArgument: a key or value is out of bounds, or the batch exceeds kMaxBatchBytes or
  ///     kMaxBatchWrites (store/format/wire/write_batch.h).
  ///   Any other: the first write that the server could not do, with its number in the message. So the server
  ///     rejects a batch unless all its conditions hold, also those of its checks. One of an earlier release
  ///     rejects all batches with checks: InvalidArgument.
  ///
  /// A client that reads one key after the other sees each change by itself, in the batch's order, as if
  /// separate writes came in quick succession. Once Apply has returned, every GET that begins sees the whole
  /// batch. Once a client has seen the value of a later write, every GET that begins then sees the earlier
  /// ones.
  absl::Status Apply(const WriteBatch& batch, std::uint64_t* version = nullptr,
                     std::optional<Durability> durability = {});

  /// Begins a scan, which shows keys and values in the order of the keys, as of the moment of this call
  /// (client/scan.h). It includes records that are only in the server's durable tier. The caller owns the
  /// scan. Cost: one message, and one for each further page. Outcomes:
  ///   FailedPrecondition: the server's store is only in memory and keeps no order (use
  ///     ScanOptions::any_order, which says what such a scan shows, or kvserver --ordered=memory); or the
  ///     store has an order, and the resume token is from a scan without one; or this client has no window
  ///     for scans. One-sided: the server has no ordered index, or has a part of the slots of a cluster, or
  ///     is of an earlier release.
  ///   InvalidArgument: a bound is longer than a key, or the resume token is malformed, or options exclude
  ///     each other.
  absl::StatusOr<std::unique_ptr<ClientScan>> Scan(const ScanOptions& options = {});

  /// Returns the number of keys, including cold keys and records that have expired and were not removed yet.
  /// Cost: two READs; while the server loads its durable tier, as for Count of a range with all keys.
  absl::StatusOr<std::uint64_t> Count();

  /// Begins a watch, which shows the writes of the store from now on, or from another watch's position on
  /// (client/watch.h). The caller owns the watch. Cost: one message, and one for each page; while no
  /// writes come, a READ now and then. Outcomes:
  ///   InvalidArgument: the prefix is longer than a key, or the resume token is malformed.
  ///   OutOfRange: the server no longer keeps the writes that follow the token's position.
  ///   FailedPrecondition: the store is only in memory and keeps no changes (kvserver --change_log), or
  ///     ClientOptions::scan_window_bytes is 0.
  absl::StatusOr<std::unique_ptr<ClientWatch>> Watch(const WatchOptions& options = {});

  /// Returns how many keys a scan of the range would show: as of one moment or, if the server's store keeps
  /// no order of its keys, as for ScanOptions::any_order. Errors as for Scan. Cost: one message, and one more
  /// for about each 2000 keys (1000 if the store is only in memory). With an ordered index it is one message,
  /// unless records have expired that are not removed yet.
  absl::StatusOr<std::uint64_t> Count(const RangeOptions& range);

  /// Deletes the keys of the range, or all keys, and returns how many it deleted. Keys that were written
  /// before the call begins are gone when it returns; keys written meanwhile stay. The server deletes one key
  /// after the other, so the call is not atomic: readers see the keys go, and a call that fails has deleted
  /// some. Works with any durability. Cost: two messages, and one for about each 250 keys. Outcomes:
  ///   InvalidArgument: a bound is longer than a key, or DeleteRange has no bound.
  ///   Unavailable, DeadlineExceeded: some keys may be deleted.
  absl::StatusOr<std::uint64_t> DeleteRange(const RangeOptions& range);
  absl::StatusOr<std::uint64_t> DeleteAll();

  /// Has the server make a backup of the whole store (store/backup.h) in the directory that its administrator
  /// chose (kvserver --backup_dir). The first call with a `name`, a random number other than 0, begins the
  /// backup. Each call returns the progress of the backup of that name: call again now and then until it is
  /// done. The backup includes every write that was acknowledged before the first call. Cost: one message.
  /// Outcomes:
  ///   AlreadyExists: another backup is in progress; the server began none.
  ///   FailedPrecondition: the server has no backup directory, or its store is only in memory.
  ///   NotFound: the backup directory is gone.
  ///   Unavailable: also, the server's disk failed or is full.
  ///   ResourceExhausted: the server's system is short of descriptors, memory or threads, or of the size that
  ///     its files may have; the message says which limit to raise.
  absl::StatusOr<BackupProgress> Backup(std::uint64_t name);

  /// Sends a command of a move of slots (server/cluster/slot_moves.h), and returns the answer. A command that
  /// is repeated after a lost connection does nothing twice. For kvctl. Cost: one message.
  ///   FailedPrecondition: the server's slots do not move; or it has no such move.
  ///   Unavailable: also, another move is in progress.
  absl::StatusOr<std::string> Move(std::string_view command);

  /// Makes a follower a primary (kvserver --follow). REQUIRES: ClientOptions::admin_connection. The call
  /// waits until the leases of clients of the primary before are over, up to kvserver --lease_time, so they
  /// read nothing old (store/format/memory/lease_line.h). Outcomes:
  ///   PermissionDenied: the client's token has not the role replication.
  ///   FailedPrecondition: the server is a primary already, or follows nobody, or loads; with kByForce, or of
  ///     a member of a shard in etcd: the message says why not.
  ///   Unavailable: whether it was done is unknown; call it again.
  absl::StatusOr<Promotion> Promote(PromotionKind kind = PromotionKind::kSafe);

  /// Sends a message to the server and waits for its reply: one round trip. Outcomes: those of every call.
  absl::Status Ping();

  /// Returns the server's metrics, (name, value) each, in a fixed order. If the server is of another release,
  /// it returns the metrics that both know. Times are in nanoseconds, sizes in bytes
  /// (store/format/memory/metric_registry.h). Cost: one or two READs. Outcomes: those of every call.
  absl::StatusOr<std::vector<std::pair<std::string, std::uint64_t>>> Stats();

  /// Returns the settings in force on the server, as kvserver has them: a JSON array of objects with the
  /// strings `key`, `value` and `source` (`default`, `file` or `command line`). They have names of files with
  /// secrets, and no secret. Cost: one message for each 368 bytes.
  ///
  ///   FailedPrecondition: the server is of an earlier release that does not tell, or has no settings.
  ///   PermissionDenied: the client's token is for reading alone.
  absl::StatusOr<std::string> Settings();

  /// Returns the topology of the cluster, as the server has read it in etcd last: a text for Topology::Parse
  /// (client/cluster/topology.h). Cost: one message for each 368 bytes.
  ///
  ///   FailedPrecondition: the server has none to tell: etcd has no division of its cluster.
  ///   Unavailable: also, the server has not read it yet.
  absl::StatusOr<std::string> ReadTopology();

  /// Returns the counters of this client since Connect. The reference is valid as long as the client, and
  /// shows later calls, too.
  const ClientCounters& counters() const;

  /// Returns the metrics of this client since Connect. With ClientOptions::metrics any thread may call it,
  /// also during a call of another one. Without, it has only what `counters` has, and is a call as any other.
  ClientMetrics metrics() const;

  /// Returns whether the connection is broken, as far as the client knows, and the client makes no other one:
  /// then every later call fails. Never true with ClientOptions::reconnect. Sends nothing.
  bool is_lost() const;

  /// Returns the incarnation of the server behind the connection, random at each of its starts. Another one
  /// than before: the server was started anew, and has what it keeps over a restart. 0: there is no
  /// connection now. Sends nothing.
  std::uint64_t incarnation() const;

  /// Returns the connection, valid until the next call that finds it broken. It is for log lines, and for
  /// measurements that post raw requests between calls. Such a program polls it only until its own request
  /// completes, and posts the request after a Get. The reason: a call's SEND may complete after its reply
  /// came, the next call waits for that completion, and a GET's READs complete after it.
  rdma::ClientConnection& connection();

 private:
  friend class ClusterClient;  // for FastMultiGet
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);

  /// A key of FastMultiGet.
  struct HashedKey {
    Client* client = nullptr;  // null: it has none yet
    std::uint64_t hash = 0;    // HashKey
  };
  /// Gets keys of several clients, as far as their fast paths find them; `results` of these have the status
  /// OK. Returns the keys that are left, one bit for each; the lowest bit is the first key. Their results are
  /// unspecified. REQUIRES: all have the same size, kMaxFastBatch at most.
  static constexpr std::size_t kMaxFastBatch = 32;
  static std::uint32_t FastMultiGet(std::span<const HashedKey> hashed, std::span<const std::string_view> keys,
                                    std::span<GetResult> results);

  std::unique_ptr<Impl> impl_;
};

}  // namespace remora
