// The embedded store: a key-value map in the memory of one process, with RocksDB behind it. It needs no
// network. Its memory is laid out so that other processes can read it in place; the caller decides whether
// any do.
//
//   auto store = remora::Store::Open({.memory_size = 1 << 30, .durability = Durability::kLogged,
//                                     .data_dir = "/var/lib/app"});
//   (*store)->Put("key", "value");
//   absl::StatusOr<std::string> value = (*store)->Get("key");   // NotFound: no such key
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/backup.h"
#include "store/base/clock.h"
#include "store/base/results.h"
#include "store/durable/completion_records.h"
#include "store/format/memory/layout.h"
#include "store/format/types/change.h"
#include "store/format/types/scan_options.h"
#include "store/format/types/write_options.h"
#include "store/format/wire/write_batch.h"
#include "store/region/segment_map.h"
#include "store/scan.h"
#include "store/watch.h"

namespace remora {

class StoreEngine;

/// Reaction of the store to a write for which its memory has no room.
enum class Eviction : std::uint8_t {
  kNone = 1,       // rejects the write (ResourceExhausted)
  kLeastUsed = 2,  // evicts records that were not used lately. The durable tier keeps them, and a read brings
                   // them back; in a store without durable tier they are gone for good
};

/// Time at which a logged store loads the contents of its data directory. It loads records while there is
/// room, and then, with Eviction::kLeastUsed, only the keys of the others.
///
/// With kInBackground, Open still loads everything itself if the index alone might not fit into memory, or,
/// without eviction, if the records might not fit.
enum class Loading : std::uint8_t {
  kInOpen = 1,        // before Open returns
  kInBackground = 2,  // in threads of the store, while it serves
  kInSteps = 3,       // while it serves, in calls of Store::Load
};

/// Thread that waits for the disk when a write is to be synced before it is visible.
enum class Syncing : std::uint8_t {
  kInThread = 1,  // a thread of the store
  kInSteps = 2,   // the thread that calls Store::Sync, or a call that waits for its write (Commit, Put, ...)
};

inline constexpr std::size_t kMinMemorySize = std::size_t{16} << 20;
inline constexpr std::size_t kMaxMemorySize = std::size_t{8} << 40;

/// Returns the size in bytes, whole segments, of the region in which a store with this memory_size keeps
/// everything that readers see. InvalidArgument: memory_size is not in [kMinMemorySize, kMaxMemorySize].
absl::StatusOr<std::size_t> RegionSize(std::size_t memory_size);

/// Options of a store, fixed by Store::Open.
struct StoreOptions {
  /// Bytes for everything that readers see: the index, the records, and the data that manages them. With a
  /// durable tier and eviction, a store may hold more than this. Then memory has the records in use, and an
  /// index entry of about 15 bytes for each other record.
  std::size_t memory_size = std::size_t{256} << 20;
  /// Level of a write that does not choose one. Any level but kMemory gives the store a durable tier.
  Durability durability = Durability::kMemory;
  Eviction eviction = Eviction::kLeastUsed;
  /// RocksDB's directory. Open makes it if it is missing; its parent must exist. Empty exactly when
  /// `durability` is kMemory.
  std::string data_dir{};
  Loading loading = Loading::kInOpen;
  /// Largest number of threads that load. 0: one for each processor. Without meaning for kInSteps.
  std::size_t load_threads = 0;
  Syncing syncing = Syncing::kInThread;
  /// Lower bounds on the log that the store keeps for watches that are behind: the latest
  /// `watch_retention_bytes` bytes, and all writes of the last `watch_retention`. A write takes its key, its
  /// value and some 100 bytes. A watch can continue over the last 1000 restarts, clean or not. On disk, the
  /// log exceeds the bounds by at most two files of some 64 MiB each.
  std::uint64_t watch_retention_bytes = std::uint64_t{64} << 20;
  std::chrono::seconds watch_retention{0};
  /// Approximate number of descriptors that the durable tier may have open. If it has more tables, the most
  /// recently used ones are open. 0: half of the process's limit (ulimit -n).
  std::size_t descriptors = 0;
  /// Bytes that the durable tier collects in memory before it makes a table of them. Together with the table
  /// that it is writing, other buffers and a cache, it takes up to three times as much, besides memory_size.
  /// The default is so large that keys which are overwritten often never reach a file of their own.
  std::size_t write_buffer_bytes = std::size_t{64} << 20;
  /// Experimental. Unless 0, the store logs writes in files of its own in data_dir, and fills RocksDB behind
  /// them. The files have this size together: at least 1 MiB; 1 GiB is a good size. Files that
  /// watch_retention keeps come on top. With Syncing::kInSteps, the calls that write also fill RocksDB.
  ///
  /// The store takes over a data directory without such a log, but the resume tokens of its watches become
  /// invalid. Later it opens only with such a log, and not in an earlier version.
  std::uint64_t commit_log_bytes = 0;
  /// Function that the store calls when writes that Submit left pending have become visible or failed. The
  /// thread that ended them calls it, without a lock. May be empty.
  std::function<void()> on_synced{};
  /// Function that the store calls when it begins to use memory beyond all that it ever used: a segment that
  /// ends `end` bytes from the region's start. A writing thread calls it, under the writers' lock, so it must
  /// not block. May be empty.
  std::function<void(std::uint64_t end)> on_reach{};
  /// Incarnation of the store, so that a test can choose it. 0: the store draws a random number.
  std::uint64_t incarnation = 0;
  /// Grace period (T of layout.h, I6), from 50 ms (kMinGraceMs) to 60 s. If it is longer, memory waits longer
  /// before it is reused. If it is shorter, a reader that was held up begins again sooner.
  std::chrono::milliseconds grace{100};
  /// Time to live of a record whose write gives none: 1 ms to kMaxTtl, or kNeverExpires.
  std::chrono::milliseconds default_ttl = kNeverExpires;
  /// Clock, which must outlive the store. Null: the machine's. Its UnixMillis decides when records expire. If
  /// it goes back over a restart, expired records that were not yet removed come back.
  const Clock* clock = nullptr;
};

/// Space for a large record, which the store lends until the caller commits it or gives it back.
///
/// Ownership: the caller may fill `bytes` with the key and, behind it, the value, and may let others do so.
/// All of them must have lost write access before the caller commits: the bytes become the record in place.
struct Reservation {
  std::span<std::byte> bytes;
  std::size_t key_size = 0;
};

/// One write of a group. The bytes that it points to must stay unchanged until Commit or Submit returns.
struct Write {
  enum class Kind : std::uint8_t { kPut = 1, kDelete = 2, kTouch = 3, kIncrement = 4, kAppend = 5 };

  Kind kind = Kind::kPut;
  std::string_view key;
  /// kPut: the value. kIncrement: the number to add, as the bytes of a std::int64_t. kAppend: the bytes to
  /// append.
  std::string_view value;
  /// kPut: space that already contains key and value; the store ignores `key` and `value`. Each outcome but
  /// Aborted uses it up.
  const Reservation* reserved = nullptr;
  /// Time to live of the record, for all kinds but kDelete. Unset: StoreOptions::default_ttl; kIncrement and
  /// kAppend to an existing value keep its expiry.
  std::optional<std::chrono::milliseconds> ttl{};
  Condition condition{};
  std::optional<Durability> durability{};  // as in PutOptions; the first write's is that of its batch
  /// Joins this write and the next one of the span to a batch, whose last write has false here. The store
  /// does all writes of a batch or none. A batch has consecutive versions, and one outcome: that of the first
  /// write that cannot be done. It consists of kPut without `reserved`, and kDelete, up to kMaxBatchWrites
  /// and kMaxBatchBytes; otherwise it ends with InvalidArgument.
  bool with_next = false;
  /// Marks the first write of a batch, even if it is the only one. A failed outcome then names the number of
  /// the write that failed.
  bool begins_batch = false;
  /// Name under which the store remembers the outcome, if it is to. The first write's is that of its batch.
  RequestName request{};

  /// If set, the store calls this with the hashes of its private copy of key and value, before anything else
  /// sees that copy. It is for bytes that another process may still be writing. If it returns false, the
  /// write ends with DataLoss. (A plain pointer and not a std::function: this is the PUT path.)
  bool (*verify)(const void* context, std::uint64_t key_hash, std::uint64_t value_hash) = nullptr;
  const void* verify_context = nullptr;

  // Outcome, set by Commit.
  /// Result of the write. Unless it is OK or Unavailable, the store has done nothing of this write.
  ///   NotFound: the key does not exist, for kDelete, kTouch, and a condition that requires it.
  ///   AlreadyExists, FailedPrecondition: the condition does not hold (Condition).
  ///   FailedPrecondition: for kIncrement also, the value is not a number.
  ///   OutOfRange: the sum of kIncrement does not fit into 64 bits; or the value of kAppend would exceed
  ///     kMaxSmallValueSize; or the ttl is Until a moment that is over.
  ///   InvalidArgument: a size, the ttl, the condition or the durability is out of bounds.
  ///   DataLoss: `verify` returned false, or the key's record in the durable tier is damaged.
  ///   ResourceExhausted: there is no room, and none will come of itself.
  ///   Aborted: there is no room now, but retired memory will be free: commit again later (next_work).
  ///   Unavailable: the durable tier failed. The write is not visible, but a restart may show it.
  absl::Status status;
  std::uint64_t version = 0;  // if OK: greater than those of all earlier writes, also before restarts
  std::uint64_t slot = 0;     // if OK, for all kinds but kDelete: the record's location (EncodeSlot)
  std::int64_t result = 0;    // if OK: the sum of kIncrement, the value's new size of kAppend
  /// Number of a pending write, set by Submit. Unless it is 0, the outcome is not known yet, and the fields
  /// above are not valid. The write is in the durable tier, and becomes visible when the disk has it. (If a
  /// pending write made this one fail, it ends together with that one.) TakeSynced then returns the outcome
  /// with this ticket. A batch has one outcome, with the ticket of its first write.
  std::uint64_t ticket = 0;

  /// Returns a write with these options, except PutOptions::version: the caller copies the version there.
  static Write From(Kind kind, std::string_view key, std::string_view value, const PutOptions& options);
};

/// Outcome of a write that was pending.
struct SyncedWrite {
  std::uint64_t ticket = 0;
  absl::Status status;  // as Write::status
  std::uint64_t version = 0;
  std::uint64_t slot = 0;
  std::int64_t result = 0;
};

/// Appends a write of a batch or a list to `writes` and returns it. The caller sets with_next.
Write& AddWrite(const BatchWrite& write, std::vector<Write>* writes);

/// Location of a value at the moment of the call.
struct Location {
  std::uint64_t slot = 0;  // EncodeSlot
  std::uint64_t version = 0;
};

class RangeDeletion;
struct ScanRange;

/// A key-value store in this process.
///
/// The class has more than 25 methods, because it is the interface of the store: one for each operation, in
/// the forms that programs and the server call.
///
/// Thread safety: any number of threads may call the members at the same time, except Load: one at a time.
/// Writers take turns by a lock. Get and Locate take that lock in two cases: the record is not in memory, or
/// eight searches for it failed in a row. A search fails if the key is written or its record is moved
/// meanwhile, or if its thread is held up for longer than the grace period.
class Store {
 public:
  /// Opens a store in memory of its own. It loads the contents of a data directory before Open returns or
  /// later (StoreOptions::loading). If a descriptor of 0 to 2 is closed, Open opens /dev/null there first, so
  /// that output of the process cannot go into a file of the store. Outcomes:
  ///   InvalidArgument: an option is out of bounds.
  ///   AlreadyExists: another process uses the data directory.
  ///   FailedPrecondition: the data directory has a format that this program does not know, or contains
  ///     something other than a store, or has a commit log and so needs commit_log_bytes.
  ///   OutOfRange: its contents do not fit into memory_size; the message says which size they need.
  ///   NotFound: its parent is missing.
  ///   PermissionDenied: the process may not use it.
  ///   DataLoss: it is damaged.
  ///   ResourceExhausted: the system does not have that much memory, or no thread.
  ///   Unavailable: the disk is full, or another I/O error occurred.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const StoreOptions& options);

  /// Opens a store in the caller's memory, which must outlive the store. Outcomes as for the Open above.
  /// REQUIRES: `region` has the size that RegionSize returns, is filled with zeros and page-aligned, and only
  /// the store writes it.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const StoreOptions& options,
                                                     std::span<std::byte> region);

  /// Keeps acknowledged writes as durable as they were. A process that exits without it loses nothing.
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// Returns the key's value. Outcomes as for the Get below.
  absl::StatusOr<std::string> Get(std::string_view key) const;

  /// Copies the key's value into *value and, unless `version` is null, the version of its last write into
  /// *version. Unless the call ends OK, *value is unchanged, except after a delay of this thread of more than
  /// the grace period during the copy. A record that is not in memory is brought back. Outcomes:
  ///   NotFound: the key does not exist.
  ///   InvalidArgument: the key's size is out of bounds.
  ///   Unavailable, DataLoss: the durable tier cannot be read.
  ///   ResourceExhausted: the index leaves no room for the record, or reservations left none for 30 s.
  absl::Status Get(std::string_view key, std::string* value, std::uint64_t* version = nullptr) const;

  /// Gets each of `keys` into the result with the same index. Each value was its key's at some moment of the
  /// call; these moments may differ. Outcomes:
  ///   OK: each result has the outcome of its key, as for Get.
  ///   InvalidArgument: `keys` and `results` differ in size.
  absl::Status MultiGet(std::span<const std::string_view> keys, std::span<GetResult> results) const;

  /// Returns whether the key exists. Failures as for Get.
  absl::StatusOr<bool> Exists(std::string_view key) const;

  /// Returns the time until the key expires; nullopt if it never does. Outcomes as for Get.
  absl::StatusOr<std::optional<std::chrono::milliseconds>> Ttl(std::string_view key) const;

  /// Puts or deletes the key. The call commits one write, and repeats that after a pause while it is Aborted.
  /// An expired record counts as absent, for Get and for Delete. Each Put sets the expiry anew. Outcomes as
  /// for Write::status.
  absl::Status Put(std::string_view key, std::string_view value, const PutOptions& options = {});
  absl::Status Delete(std::string_view key, const WriteOptions& options = {});

  /// Puts each of `requests`, in their order, as one group (Commit). Each is a write of its own, and is done
  /// or fails independently of the others; use Apply to do all or none. Outcomes:
  ///   OK: each result has the outcome of its write, as for Put.
  ///   InvalidArgument: `requests` and `results` differ in size; nothing was done.
  absl::Status MultiPut(std::span<const PutRequest> requests, std::span<PutResult> results);

  /// Adds `delta` to the number that the key's value spells in decimal digits, with an optional minus sign.
  /// Stores the sum in the same form, and returns it. An absent key counts as 0. Unless the options give a
  /// ttl, the key keeps its expiry. Outcomes as for Put, and:
  ///   FailedPrecondition: the value is not a number, or does not fit into 64 bits; it is unchanged.
  ///   OutOfRange: the sum does not fit into 64 bits; the value is unchanged.
  absl::StatusOr<std::int64_t> Increment(std::string_view key, std::int64_t delta,
                                         const PutOptions& options = {});

  /// Appends `bytes` to the key's value, and returns its new size in bytes. An absent key counts as an empty
  /// value. Unless the options give a ttl, the key keeps its expiry. Outcomes as for Put, and:
  ///   OutOfRange: the value would exceed kMaxSmallValueSize; it is unchanged.
  absl::StatusOr<std::size_t> Append(std::string_view key, std::string_view bytes,
                                     const PutOptions& options = {});

  /// Does all writes of a batch or none, at one place in the order of all writes, even if the process dies
  /// meanwhile. `version`, unless null, gets that of the first write; the others have the consecutive ones.
  /// `durability` is that of the whole batch (PutOptions). An empty batch is OK. Outcomes as for Put: if the
  /// batch fails, the status is that of the first write that cannot be done, and names its number.
  ///
  /// Readers see each key change by itself, in the batch's order. Until Apply returns, a reader may find the
  /// new value of the first key, and after that the old value of the second one.
  absl::Status Apply(const WriteBatch& batch, std::uint64_t* version = nullptr,
                     std::optional<Durability> durability = {});

  /// Sets the key's time to live to `ttl` from now on; Persist removes its expiry. The effect is that of a
  /// Get and a Put of the same value with no other write of the key in between. The old expiry may pass in
  /// between, though: then a concurrent Get may miss the key. The call takes as much memory as that Put.
  /// Outcomes as for Put, and:
  ///   NotFound: the key does not exist.
  ///   InvalidArgument: `ttl` is not IsTtl.
  absl::Status Touch(std::string_view key, std::chrono::milliseconds ttl, const WriteOptions& options = {});
  absl::Status Persist(std::string_view key, const WriteOptions& options = {});

  /// Begins a scan, which shows keys and values in the order of the keys, as of the moment of this call
  /// (store/scan.h). It includes records that are not in memory, or not loaded yet. If writes are waiting for
  /// the disk, the call waits, too. The caller owns the scan. The second form is for a range. Outcomes:
  ///   InvalidArgument: a bound is longer than a key, or the resume token is malformed.
  ///   FailedPrecondition: the store is only in memory and keeps no order (use ScanOptions::any_order); or it
  ///     has a durable tier, and the resume token is from a scan without order.
  ///   Aborted: there is no room now to make waiting writes visible; try again later.
  ///   Unavailable: the disk failed.
  absl::StatusOr<std::unique_ptr<StoreScan>> Scan(const ScanOptions& options = {});
  absl::StatusOr<std::unique_ptr<StoreScan>> Scan(ScanRange range, std::uint64_t limit, bool keys_only);

  /// Begins a watch, which shows logged and synced writes in their order, once they are visible, from now on
  /// or from another watch's position on (store/watch.h). The caller owns the watch. The second form is for a
  /// range and a position. Outcomes:
  ///   InvalidArgument: the prefix is longer than a key, or the resume token is malformed.
  ///   OutOfRange: the store no longer keeps the writes that follow the token's position.
  ///   FailedPrecondition: the store is only in memory.
  absl::StatusOr<std::unique_ptr<StoreWatch>> Watch(const WatchOptions& options = {});
  absl::StatusOr<std::unique_ptr<StoreWatch>> Watch(const ScanRange& range, const ChangePlace& place);

  /// Makes a backup of the whole store (store/backup.h) in a directory of backups, and makes that directory
  /// if it is missing. Reads and writes go on, but share the disk with it. Unless `keep` is 0, the call then
  /// deletes all but the `keep` newest backups. A request to `stop` ends it with Cancelled. Outcomes:
  ///   FailedPrecondition: the store is only in memory.
  ///   AlreadyExists: another backup is being made there, or one is being read.
  ///   NotFound, FailedPrecondition, PermissionDenied: as for PrepareBackupDir.
  ///   DataLoss, Unavailable: a disk failed, or is full; earlier backups are unchanged.
  absl::StatusOr<BackupInfo> Backup(const std::string& dir, std::uint32_t keep = 0,
                                    std::stop_token stop = {}) const;

  /// Returns the number of keys, including cold keys, and expired records that were not removed yet. Cost: a
  /// look at a counter; while the store loads, cost and failures of Count of a range with all keys.
  absl::StatusOr<std::uint64_t> Count();
  /// Returns how many keys a scan of the range in any order would show. Cost and failures: those of the scan.
  absl::StatusOr<std::uint64_t> Count(const RangeOptions& range);

  /// Deletes the keys of the range, or all keys, and returns how many it deleted. Keys that were written
  /// before the call began are gone when it returns; keys that are written meanwhile stay. It deletes one key
  /// after the other, so it is not atomic: readers see the keys go, and a crash leaves some undeleted. Works
  /// with any durability. Outcomes:
  ///   InvalidArgument: a bound is longer than a key, or DeleteRange has no bound.
  ///   Aborted: as for Scan, and no room came within 5 s; no key was deleted.
  ///   DataLoss, Unavailable: the durable tier failed; some keys may be deleted.
  absl::StatusOr<std::uint64_t> DeleteRange(const RangeOptions& range);
  absl::StatusOr<std::uint64_t> DropAll();
  /// Begins a deletion in bounded steps (store/delete_range.h), which the caller owns. A range without bounds
  /// has all keys. InvalidArgument: a bound is longer than a key. Aborted, Unavailable: as for Scan.
  absl::StatusOr<std::unique_ptr<RangeDeletion>> BeginDeleteRange(const RangeOptions& range);

  /// Applies writes as one group, or as several if they are thousands: one write to the durable tier, then
  /// each becomes visible in order. A group is not atomic for readers, and neither is a batch. Each write has
  /// its own outcome, unless it belongs to a batch (Write::with_next). Returns when all outcomes are set.
  /// After a write that is Aborted, all later ones are Aborted, too.
  void Commit(std::span<Write> writes);

  /// Applies writes as Commit does, but does not wait for the disk (Write::ticket). A write of a key that has
  /// a pending write is pending, too. The bytes of the writes are not needed after this returns.
  void Submit(std::span<Write> writes);
  /// Applies writes as the Submit above does, as of a moment that the store's clock has just given: `now` or,
  /// in ms since 1970, `unix_ms`. It leaves the maintenance that the writes cause to CatchUp, which the
  /// caller calls after it has told others the outcomes. (Maintenance that can wait longer is left to Work.
  /// If another write comes first, it does the part that no group may outrun.) Until then, only the counters
  /// of keys, versions and writes are up to date.
  void Submit(std::span<Write> writes, TimePoint now, std::int64_t unix_ms);
  void CatchUp();
  /// Appends the outcomes of pending writes that have become known, in the order in which they ended.
  void TakeSynced(std::vector<SyncedWrite>* outcomes);
  /// With Syncing::kInSteps: waits until the disk has all pending writes, and makes them visible. Returns
  /// false if none waited for the disk.
  bool Sync();

  /// Does a bounded amount of the maintenance that is due: frees memory after its grace period, removes
  /// expired records, cleans. Commit does the same as it goes. Returns false if nothing was due.
  bool Work();
  /// Returns when Work will have something to do, if nothing else happens; nullopt: never.
  std::optional<TimePoint> next_work() const;

  /// Returns whether the data directory may have keys that memory does not know. While that is so, a call
  /// that does not find a key in memory looks it up there, under the lock, and brings its record in. So no
  /// call takes such a key for missing. The look-up costs some ten microseconds, or a read from the disk. The
  /// result changes from true to false once, or never if the load failed.
  bool loading() const;
  /// Returns how long the load took. Zero: the store is still loading, or had nothing to load from.
  Duration load_time() const;
  /// Returns OK unless the load failed after Open. After a failure, the store looks up the keys that it did
  /// not load one by one, for ever. Failures:
  ///   OutOfRange: because of writes made meanwhile, the data do not fit; the message says what would do.
  ///   DataLoss, Unavailable: as for Open.
  absl::Status load_status() const;
  /// Returns OK while the disk takes writes. Otherwise returns Unavailable and the reason why it rejected the
  /// last ones (Counter::kDiskRefuses); reads go on. If the message says that the store takes no more writes,
  /// open the store again. Otherwise writes succeed again some seconds after the cause is gone: a full disk,
  /// or a system that was short of descriptors or memory.
  absl::Status disk_status() const;
  /// Returns a line for the operator: how the commit log writes to its files, and why. Empty: the store has
  /// no commit log.
  std::string commit_log_description() const;
  /// With Loading::kInSteps: loads some more keys. Returns false if none are left, or the load failed.
  bool Load();
  /// Reserves space for a record whose value has more than kMaxSmallValueSize bytes. The caller fills it in
  /// place and then commits it (Write::reserved), or gives it back. Until then it counts as used. Outcomes:
  ///   InvalidArgument: a size is out of bounds.
  ///   ResourceExhausted, Aborted: as for Write::status.
  absl::StatusOr<Reservation> Reserve(std::size_t key_size, std::size_t value_size);
  void GiveBack(const Reservation& reservation);

  /// Returns the location of the key's record, and brings the record back first if it is not in memory.
  /// Even if the key is written or deleted, the record stays readable there for two more grace periods.
  /// Outcomes as for Get, and Aborted: the record cannot be brought back right now; try again later.
  absl::StatusOr<Location> Locate(std::string_view key);

  /// Returns whether memory is filling up, so that the store counts which keys are used.
  bool wants_reads() const;
  /// Counts a read by another process of the record whose key has this hash. Get counts its own reads.
  void NoteRead(std::uint64_t key_hash);

  /// Begins to remember the outcomes of this client's writes across restarts, and forgets those of the
  /// clients `forgotten` (store/durable/completion_records.h, R1 and R3). Does nothing without a durable
  /// tier. Unavailable: the tier failed; whether it remembers the client is unknown.
  absl::Status Remember(std::uint64_t client, std::span<const std::uint64_t> forgotten);
  /// Returns the clients that the store remembered when it was opened. Call it once: it moves them out.
  std::vector<RememberedClient> TakeRemembered();

  const Superblock& superblock() const;
  const Clock& clock() const;

  /// Returns all metrics as (name, value), in a fixed order (ShownMetrics).
  std::vector<std::pair<std::string, std::uint64_t>> Stats() const;
  /// Returns the values of all places of the registry (store/format/memory/metric_registry.h).
  std::vector<std::uint64_t> ReadMetrics() const;
  /// Adds to a counter, or reads one; some counters are for the program around the store, as for the server
  /// (Counter). Memory order: relaxed.
  void Add(Counter counter, std::int64_t delta);
  std::uint64_t Read(Counter counter) const;
  /// Counts a time in a histogram. One thread at a time does it for each histogram.
  void Record(Counter histogram, Duration took);
  /// Returns the use of each segment of the region. It takes no lock, so each was right at some moment of the
  /// call.
  std::vector<MappedSegment> SegmentMap() const;

 private:
  friend class RangeDeletion;
  friend class StoreScan;
  friend class StoreWatch;
  explicit Store(std::unique_ptr<StoreEngine> engine);
  absl::StatusOr<std::uint64_t> DeleteWithRetry(const RangeOptions& range);

  std::unique_ptr<StoreEngine> engine_;
};

}  // namespace remora
