// The client: a key-value map that lives in a server's memory, read in place.
//
//   remora::SteadyClock clock;
//   auto client = remora::Client::Connect("local:///run/remora.sock", {}, clock);
//   (*client)->Put("key", "value");
//   absl::StatusOr<std::string> value = (*client)->Get("key");
//
// A GET reads the server's index and log one-sidedly and wakes nobody; a PUT is one round trip.
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

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

/// How a backup goes.
struct BackupProgress {
  bool done = false;
  // Of one that is done:
  std::uint64_t id = 0;         // in the server's directory
  std::uint64_t version = 0;    // all writes up to this one are in it, and perhaps some later ones
  std::uint64_t bytes = 0;      // of all its files
  std::uint64_t new_bytes = 0;  // of those that no earlier one has
};

/// One server, and a connection to it at a time.
///
/// Every call may fail, beside its own outcomes, with:
///   Unavailable       the server is gone, or the connection broke, and within ClientOptions::timeout there
///                     was no other. Of a write that was under way it is not known whether it was done. The
///                     next call tries to connect again.
///   DeadlineExceeded  no answer within ClientOptions::timeout; then as Unavailable.
///   Unknown           a write, and its answer was lost with the connection: the next one was to a server
///                     that cannot tell whether it was done. It was restarted without a durable tier, or has
///                     forgotten this client, having seen thousands since (ServerOptions).
///   FailedPrecondition, PermissionDenied, ResourceExhausted: as Connect, when the call had to connect again.
///   InvalidArgument   a key or value out of bounds (kMinKeySize to kMaxKeySize, up to kMaxValueSize);
///   nothing
///                     was sent.
///
/// Where the connection breaks, another takes its place: what reads begins again there, and of a write the
/// server tells whether it was done. If not, it is sent again; so it is done once, as the answer says, or
/// ends with Unavailable, DeadlineExceeded or Unknown, and was done once or not at all. In the latter case it
/// does not come later than what this client writes afterwards: the server drops a connection, and what it
/// has not done of it, before it takes another of the same client.
///
/// A MultiPut, or a deletion of many keys, is not begun again. But a MultiPut begins over another connection
/// when an earlier call broke this one, and a deletion also when this one broke unnoticed. A scan goes on as
/// of a later moment (client/scan.h).
///
/// With ClientOptions::reconnect off, or over a connection of the caller's own, the first connection is the
/// only one: after Unavailable or DeadlineExceeded all later calls fail; make another client.
///
/// Linearizable: a value that any client was told is written is seen by every GET that begins afterwards.
///
/// Thread Safety: none; one thread at a time, whichever. Threads that work side by side have a client each:
/// it is a connection, with memory of its own at the server, and nothing of it is shared, so that no call
/// takes a lock. Where two are in calls of one client at the same time, that is noticed, not always at once,
/// and ends the process with a message (client/session/call_guard.h). (Nor is a location cache: each client
/// drops what it remembers by what it has itself seen of the server's memory,
/// client/cache/segment_generations.h.)
///
/// In a forked child each call ends with FailedPrecondition, and does nothing: to the server both would be
/// the same client. Do not destroy it there either; connect anew. The parent's goes on: registered memory
/// stays its own, and the child has a copy (over verbs, from Linux 5.12 on; do not fork before).
class Client {
 public:
  /// Connects to a server: `verbs://HOST:PORT`, `tcp://HOST:PORT` or `local:///PATH` (rdma/address.h).
  /// `clock` must outlive the client. InvalidArgument: the address, or the token. Unavailable: no such host,
  /// nobody listens, or another program does. PermissionDenied: another user's local server; the server wants
  /// a token, and this one is none that it knows; it does not know this one, and may be somebody else's.
  /// FailedPrecondition: no RDMA device reaches it, or the server refused: another format or version, full.
  /// DeadlineExceeded. ResourceExhausted: too little memory that may be locked. Opens /dev/null at closed
  /// ones of the descriptors 0 to 2, so that what the process prints does not go into a connection.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(std::string_view address,
                                                         const ClientOptions& options, const Clock& clock);

  /// The same over connections that are dialled, and not yet connected, by the caller (client/options.h).
  using Dialer = remora::Dialer;
  static absl::StatusOr<std::unique_ptr<Client>> Connect(Dialer dialer, const ClientOptions& options,
                                                         const Clock& clock);

  /// The same over one connection: there will be no other.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(std::unique_ptr<rdma::ClientConnection> connection,
                                                         const ClientOptions& options, const Clock& clock);

  /// A clock that does not outlive the call.
  template <typename To>
  static void Connect(To&& to, const ClientOptions& options, const Clock&& clock) = delete;

  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// NotFound. Cost: one READ of a bucket and, when the key is there, one READ of its record. When this
  /// client has got or put the key before, often the latter alone (ClientOptions::location_cache_bytes). When
  /// the record is only in the server's durable tier, a round trip more, in which the server brings it back
  /// to memory; then ResourceExhausted: it has no room for it, Unavailable: it cannot read its disk,
  /// DataLoss: what is there is damaged (no miss: it is not known whether the key has a value). While
  /// the server loads what it stored before its start, that goes for keys that are missing, too.
  absl::StatusOr<std::string> Get(std::string_view key);

  /// The same into *value, whose memory is used again. Untouched unless OK, or this thread was held up in the
  /// middle for longer than the server keeps memory for readers, or a value of more than kMaxSmallValueSize
  /// was met: such a value is read into it in pieces, before it is verified, and nothing is allocated or
  /// registered for it but *value itself. `version`, unless null, gets that of the key's last write, whose
  /// value this is.
  absl::Status Get(std::string_view key, std::string* value, std::uint64_t* version = nullptr);

  /// Whether the key is there. Cost and failures as Get; a large value is not read, the server is asked.
  absl::StatusOr<bool> Exists(std::string_view key);

  /// As a Get of each key, into the result at the same place, but side by side: the READs of up to 32 keys
  /// are under way at once, so it takes about as long as two READs and what the values cost. Each value was
  /// the key's at some moment of the call; not all need have been at the same. OK: each result says what
  /// became of its key (a missing one is NotFound, one out of bounds InvalidArgument, and hinders no other).
  /// Not OK: the connection broke, and so say those results too that were not complete by then.
  /// InvalidArgument: not as many results as keys.
  absl::Status MultiGet(std::span<const std::string_view> keys, std::span<GetResult> results);

  /// Makes memory of the caller known to the transport, so that values can be read into it, and put from it,
  /// without a copy.
  /// Costs some 20 us, and more where pages have never been touched: do it once, and use it for many values.
  /// ResourceExhausted: too little memory that may be locked.
  absl::StatusOr<std::unique_ptr<RegisteredBuffer>> Register(std::span<std::byte> bytes);

  /// As Get, to the beginning of memory that this client registered; returns the value's size. Values of any
  /// size; a READ scatters {header and key, value}. OutOfRange: the value is larger than that, and the
  /// message says how large. InvalidArgument: it is another client's. Unless OK, and behind the value, what
  /// the memory holds is unspecified: what arrives there is verified behind its arrival.
  absl::StatusOr<std::size_t> Get(std::string_view key, const RegisteredBytes& into,
                                  std::uint64_t* version = nullptr);

  /// Stores, or replaces. OK: visible to all, and as durable as the server promises. ResourceExhausted: the
  /// server has no room; nothing was done. Cost: one WRITE and one message, one reply.
  absl::Status Put(std::string_view key, std::string_view value);

  /// The same with a time to live, by the server's clock. InvalidArgument: it is not IsTtl. A record whose
  /// time is over counts for nothing, from that millisecond on: it is not found, neither by Delete. The next
  /// Put says anew how long. A GET sees that without asking, but close to the end, where the clocks do not
  /// tell, and a minute after it last learned the server's time, it costs a round trip more
  /// (client/session/server_clock.h).
  ///
  /// Or with a condition, which the server decides in the order of all writes
  /// (store/format/types/write_options.h): AlreadyExists, NotFound, FailedPrecondition when it does not hold;
  /// then nothing was done. For a large value it is decided when all of it is there. So to replace the value
  /// that was read, and no other:
  ///   client.Get(key, &value, &version);
  ///   client.Put(key, changed, {.condition = Condition::Version(version)});  // FailedPrecondition: again
  /// A write that ends with Unavailable, DeadlineExceeded or Unknown may have been done, and its condition
  /// hold no more.
  absl::Status Put(std::string_view key, std::string_view value, const PutOptions& options);

  /// The same of a value that is in memory which this client registered: a WRITE gathers {key, value}, and
  /// the value is not copied on its way there; it is read once, for its checksum. Of less than kLeastGathered
  /// bytes a copy is made. DataLoss: somebody wrote there meanwhile; nothing was done.
  /// InvalidArgument: it is another client's.
  absl::Status Put(std::string_view key, const RegisteredBytes& value, const PutOptions& options = {});

  /// As a Put of each, in their order, but side by side: those that follow each other, have no condition and
  /// one durability, and 16 KiB together, share a message, up to 16 of them; and up to 16 messages are under
  /// way at once, as far as they fit into 256 KiB together. Each is a write of its own, done or not whatever
  /// becomes of the others; all or none is Apply. OK: each result says what became of its write (one that is
  /// out of bounds is InvalidArgument, and hinders no other). Not OK: the connection broke, and so say the
  /// results of those that were not answered by then: it is not known whether they were done.
  /// InvalidArgument: not as many results as requests. Large values are put one at a time.
  absl::Status MultiPut(std::span<const PutRequest> requests, std::span<PutResult> results);

  /// Gives the key `ttl` from now on, and Persist for ever. NotFound; InvalidArgument, ResourceExhausted as
  /// Put. Like a Get and a Put of that value, with no write of the key in between, but maybe the end of its
  /// time: then a GET in between misses it. Cost: as Put, without a value.
  absl::Status Touch(std::string_view key, std::chrono::milliseconds ttl, const WriteOptions& options = {});
  absl::Status Persist(std::string_view key, const WriteOptions& options = {});

  /// What is left of the time for which the key is there, or a little less; nothing: it is there for ever.
  /// NotFound. Cost: as Get.
  absl::StatusOr<std::optional<std::chrono::milliseconds>> Ttl(std::string_view key);

  /// NotFound: there was no such key. A condition as for Put. Cost: as Put.
  absl::Status Delete(std::string_view key, const WriteOptions& options = {});

  /// Adds to the number that the key's value spells, in decimal digits and maybe a minus sign before them,
  /// and stores the sum the same way; returns it. An absent key counts as 0. Unless the options give a ttl,
  /// the key keeps its own. FailedPrecondition: the value is no such number, or none of 64 bits. OutOfRange:
  /// the sum is none of 64 bits. In both, the value is as before. Otherwise as Put. Cost: as Put; after
  /// Unavailable, DeadlineExceeded or Unknown, it may have been added, once, or not.
  absl::StatusOr<std::int64_t> Increment(std::string_view key, std::int64_t delta,
                                         const PutOptions& options = {});

  /// Puts bytes behind the key's value, which is made if it is absent, and returns its size. Unless the
  /// options give a ttl, the key keeps its own. OutOfRange: the value would be larger than
  /// kMaxSmallValueSize; it is as before. Otherwise as Put. Cost: as Put of these bytes; the server writes
  /// the whole value anew.
  absl::StatusOr<std::size_t> Append(std::string_view key, std::string_view bytes,
                                     const PutOptions& options = {});

  /// Does all writes of a batch or none, also where the server dies meanwhile, and at one place in the order
  /// of all writes. `version`, unless null, gets that of its first write; the others' are consecutive.
  /// InvalidArgument: something in it is out of bounds, or it is larger than kMaxBatchBytes or
  /// kMaxBatchWrites (store/format/wire/write_batch.h). Else the outcome of the first write that could not be
  /// done, with its number; so a batch is refused whose conditions do not all hold. Cost: as Put.
  ///
  /// Who reads one key after the other sees each change by itself, in the batch's order, as if they were
  /// writes of their own that come in quick succession. Once Apply has returned, every GET that begins sees
  /// all of it; who has seen a later write's value sees the earlier ones' in every GET that begins then.
  /// `durability`: of all of it, as PutOptions.
  absl::Status Apply(const WriteBatch& batch, std::uint64_t* version = nullptr,
                     std::optional<Durability> durability = {});

  /// Shows keys and values in the order of the keys, as of one moment: that of this call (client/scan.h). It
  /// includes what is only in the server's durable tier. FailedPrecondition: the server's store is only in
  /// memory, and keeps no order (there ask for ScanOptions::any_order, which says what that shows), or it is
  /// not, and the token is of such a scan; or this client has no window for it. InvalidArgument: bounds
  /// longer than a key, or a token that is none. Cost: one message, and one for each page more.
  absl::StatusOr<std::unique_ptr<ClientScan>> Scan(const ScanOptions& options = {});

  /// How many keys there are: that are cold, too, and those of records whose time is over and which are not
  /// removed yet. Cost: two READs; while the server loads, as Count of a range that has them all.
  absl::StatusOr<std::uint64_t> Count();
  /// Shows what is written from now on, or from another watch's place on (client/watch.h), to a logged store.
  /// InvalidArgument: a prefix longer than a key, or a token that is none. OutOfRange: what comes at the
  /// token is not kept any more. FailedPrecondition: the store is only in memory, or
  /// ClientOptions::scan_window_bytes is 0. Cost: one message, and one for each page; while nothing is
  /// written, a READ now and then.
  absl::StatusOr<std::unique_ptr<ClientWatch>> Watch(const WatchOptions& options = {});

  /// How many a scan of the range would show, in any order: as of one moment, unless the server's store is
  /// only in memory (ScanOptions::any_order). Errors as Scan. Cost: one message, and one for about each 2000
  /// keys; there, for each 1000.
  absl::StatusOr<std::uint64_t> Count(const RangeOptions& range);

  /// Deletes what is there in the range, or all there is, and returns how many keys that were. What had been
  /// written when it began is gone when it returns; what is written meanwhile stays. As deletes of their own,
  /// one by one, so not atomic: readers see them go, and whoever fails has done some. Works with any
  /// durability. InvalidArgument: bounds longer than a key; DeleteRange without a bound. Unavailable,
  /// DeadlineExceeded: some may be deleted. Cost: two messages, and one for about each 250 keys.
  absl::StatusOr<std::uint64_t> DeleteRange(const RangeOptions& range);
  absl::StatusOr<std::uint64_t> DropAll();

  /// Has the server make a backup of all that is stored (store/backup.h) where its administrator said
  /// (kvserver --backup_dir). The first call with a `name`, a number that is random and not 0, begins it;
  /// each call says how that one goes, so call it again now and then until it is done. What was acknowledged
  /// before the first call is in it. AlreadyExists: another one is under way; nothing was begun.
  /// FailedPrecondition: the server has no place for backups, or its store is only in memory. NotFound: that
  /// place is gone. Unavailable: the disk failed, or is full. Cost: one message.
  absl::StatusOr<BackupProgress> Backup(std::uint64_t name);

  /// One round trip through the server's session.
  absl::Status Ping();

  /// The server's counters, by name, in a fixed order. Cost: one or two READs.
  absl::StatusOr<std::vector<std::pair<std::string, std::uint64_t>>> Stats();

  const ClientCounters& counters() const;

  /// The connection, until the next call that finds it broken, for measurements that post raw requests of
  /// their own between calls, and for log lines. Poll it only until a request of one's own, and post that
  /// behind a Get: a call's SEND may complete after its reply came, the next call waits for that completion,
  /// and a GET's READs complete behind it.
  rdma::ClientConnection& connection();

 private:
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace remora
