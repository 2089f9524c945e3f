// The embedded store: a key-value map in one process, in memory laid out for readers in other processes,
// with RocksDB behind it. Usable with no network; who else reads its memory is not its business.
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
#include "store/scan.h"
#include "store/watch.h"

namespace remora {

class StoreEngine;

/// What happens when the memory is full of records that are wanted, and another comes.
enum class Eviction : std::uint8_t {
  kNone = 1,       // the write is refused
  kLeastUsed = 2,  // records leave memory that were not used lately: for the durable tier, which has them and
                   // from which they come back when they are asked for; where there is none, for good
};

/// When a logged store loads what its data directory holds: records as long as there is room, then with
/// Eviction::kLeastUsed the others' keys. Where the index alone might not fit, or without eviction all of it,
/// that is before Open returns, unless it is to be in steps.
enum class Loading : std::uint8_t {
  kInOpen = 1,        // before Open returns
  kInBackground = 2,  // in threads of the store's own, while it serves
  kInSteps = 3,       // while it serves, as far as Store::Load is called
};

/// Who waits for the disk where a write is to be synced before it is visible.
enum class Syncing : std::uint8_t {
  kInThread = 1,  // a thread of the store's own
  kInSteps = 2,   // who calls Store::Sync
};

inline constexpr std::size_t kMinMemorySize = std::size_t{16} << 20;
inline constexpr std::size_t kMaxMemorySize = std::size_t{8} << 40;

/// Bytes of the region that a store with this memory_size keeps all in that readers see: whole segments.
/// InvalidArgument outside [kMinMemorySize, kMaxMemorySize].
absl::StatusOr<std::size_t> RegionSize(std::size_t memory_size);

struct StoreOptions {
  /// For all that readers see: index, records, and what they are managed by. With a durable tier and
  /// eviction, what is stored may be larger: then records are here that are used, and an entry of the index,
  /// of about 15 bytes, for each that is not.
  std::size_t memory_size = std::size_t{256} << 20;
  /// Of a write that does not say. Beyond kMemory, the store has a durable tier.
  Durability durability = Durability::kMemory;
  Eviction eviction = Eviction::kLeastUsed;
  /// RocksDB's directory; made when missing (its parent must exist). Empty exactly when durability is
  /// kMemory.
  std::string data_dir{};
  Loading loading = Loading::kInOpen;
  /// Threads that load, at most. 0: one for each processor. (kInSteps: who calls.)
  std::size_t load_threads = 0;
  Syncing syncing = Syncing::kInThread;
  /// How much at least, and how long at least, a watch that is behind finds of what it has not shown: the
  /// latest of so many bytes of the log, in which a write takes its key, its value and some 100 bytes, and
  /// what was written within this time; over the last 1000 restarts, clean or not. On disk, two log files
  /// more at most, of some 64 MiB each.
  std::uint64_t watch_retention_bytes = std::uint64_t{64} << 20;
  std::chrono::seconds watch_retention{0};
  /// Descriptors that the durable tier may have open, about; of more tables than that, those that were used
  /// last are. 0: half of what the process may have (ulimit -n).
  std::size_t descriptors = 0;
  /// Bytes that the durable tier collects in memory before it makes a table of them. With the table that is
  /// being written, other buffers and a cache, the tier takes up to three times as much beside memory_size.
  /// The default is so large that keys which are overwritten often never reach a file of their own.
  std::size_t write_buffer_bytes = std::size_t{64} << 20;
  /// Experimental. Not 0: writes are logged in files of the store's own, in data_dir, which have so many
  /// bytes together (1 MiB at least; 1 GiB is a good size), and RocksDB is filled behind them. Beside these
  /// are the files that watch_retention keeps. A data directory of an earlier store is taken over, but for
  /// resume tokens of its watches; once it has such a log, it opens only with one, and not with an earlier
  /// version. With Syncing::kInSteps, the calls that write fill RocksDB.
  std::uint64_t commit_log_bytes = 0;
  /// Called, by whichever thread made them so and without a lock, when writes that Submit left pending have
  /// become visible, or failed. May be empty.
  std::function<void()> on_synced{};
  /// Called, by whichever thread writes and under its lock, when more of the memory comes into use than ever
  /// did: a segment that ends `end` bytes from the region's start. Must not block. May be empty.
  std::function<void(std::uint64_t end)> on_reach{};
  /// Makes each store's incarnation; handed in so that a test may choose it. 0: from the system's randomness.
  std::uint64_t incarnation = 0;
  /// T of layout.h, I6. Longer: memory waits longer before it is used again. Shorter: a reader that was held
  /// up begins again sooner. 50 ms (kMinGraceMs) to 60 s.
  std::chrono::milliseconds grace{100};
  /// How long a record is there whose writer did not say. As IsTtl.
  std::chrono::milliseconds default_ttl = kNeverExpires;
  /// Outlives the store. Null: the machine's. Its UnixMillis says when records expire; should it say less
  /// after a restart than before, records come back that had expired and were not yet removed.
  const Clock* clock = nullptr;
};

/// Room for a large record, taken from the store until it is committed or given back. It belongs to whoever
/// reserved it: `bytes`, key and behind it value, are for it, and whom it lets, to fill. Whoever else can
/// write them must have lost the means to before they are committed: they become the record, in place.
struct Reservation {
  std::span<std::byte> bytes;
  std::size_t key_size = 0;
};

/// One write of a group. The bytes it points to must stay until Commit returns.
struct Write {
  enum class Kind : std::uint8_t { kPut = 1, kDelete = 2, kTouch = 3, kIncrement = 4, kAppend = 5 };

  Kind kind = Kind::kPut;
  std::string_view key;
  /// kPut. kIncrement: what is added, the bytes of a std::int64_t. kAppend: what is put behind the value.
  std::string_view value;
  /// kPut: key and value are in here already, and `key` and `value` are not looked at. It is used up,
  /// whatever the outcome, unless that is Aborted.
  const Reservation* reserved = nullptr;
  /// But for kDelete: how long the record is there. None: StoreOptions::default_ttl; kIncrement and kAppend
  /// of a value that is there: as long as it was to be.
  std::optional<std::chrono::milliseconds> ttl{};
  Condition condition{};
  std::optional<Durability> durability{};  // as PutOptions; of a batch, that of its first write
  /// This write and the one behind it in the span are done both, or neither, and so on from that: a batch.
  /// All of it has one outcome, that of the first write that cannot be done, and consecutive versions. It
  /// consists of kPut, not reserved, and kDelete; InvalidArgument if not, or beyond kMaxBatchWrites and
  /// kMaxBatchBytes.
  bool with_next = false;
  /// This write is the first of a batch, or all of it: an outcome that is not OK says which write it is of.
  bool begins_batch = false;
  /// Whose it is, if its outcome is to be remembered; of a batch, the first write's is that of all of it.
  RequestName request{};

  /// Asked, when set, about the store's private copy of key and value before anything else sees it: for bytes
  /// that somebody else may still be writing. False: the write ends with DataLoss and nothing of it is done.
  /// A plain pointer and not a std::function: this is the PUT path.
  bool (*verify)(const void* context, std::uint64_t key_hash, std::uint64_t value_hash) = nullptr;
  const void* verify_context = nullptr;

  // Outcome, set by Commit.
  /// OK. NotFound: kDelete or kTouch of a key that is not there, or such a condition. AlreadyExists,
  /// FailedPrecondition: as `condition` says. kIncrement: FailedPrecondition: the value is no number;
  /// OutOfRange: the sum is none. kAppend: OutOfRange: the value would be larger than kMaxSmallValueSize. Any
  /// with a ttl: OutOfRange: it is Until a moment that is over.
  /// InvalidArgument: sizes, ttl or condition out of bounds. DataLoss: `verify` said no. ResourceExhausted:
  /// no room, and none will come of itself. Aborted: no room right now, but dead memory is resting and will
  /// be free: commit the write again later (Store::next_work). In all of these, nothing of this write was
  /// done. Unavailable: the durable tier failed; nothing is visible; whether a restart shows it is unknown.
  absl::Status status;
  std::uint64_t version = 0;  // OK: greater than that of every earlier write of the store, across restarts
  std::uint64_t slot = 0;     // OK, but for kDelete: the record's place (EncodeSlot)
  std::int64_t result = 0;    // OK and kIncrement: the number; kAppend: the size of the value
  /// Submit: not 0: none of the above is set yet. The write is in the durable tier, and will be visible when
  /// the disk has it; then TakeSynced tells, by this number. Of a batch, its first write has one for all.
  std::uint64_t ticket = 0;

  /// Returns a write as the options say, apart from where they want its version.
  static Write From(Kind kind, std::string_view key, std::string_view value, const PutOptions& options);
};

/// The outcome of a write that was pending.
struct SyncedWrite {
  std::uint64_t ticket = 0;
  absl::Status status;  // OK; or Unavailable: it is not visible; whether a restart shows it is unknown
  std::uint64_t version = 0;
  std::uint64_t slot = 0;
  std::int64_t result = 0;
};

/// Adds one of a batch or a list to `writes`; whether it is with_next, is for the caller to say.
Write& AddWrite(const BatchWrite& write, std::vector<Write>* writes);

/// A value's place, as of the moment of the call.
struct Location {
  std::uint64_t slot = 0;  // EncodeSlot
  std::uint64_t version = 0;
};

class RangeDeletion;
struct ScanRange;

/// Thread Safety: all members may be called from many threads, but Load by one at a time. Writers take turns.
/// Get and Locate take no lock, unless writers of the very key disturbed them eight times in a row, or they
/// were held up for longer than the grace period, or the record is not in memory: then they are writers, too.
class Store {
 public:
  /// Opens a store in memory of its own. With a data directory, everything in it is in memory when Open
  /// returns, or later: see `loading`.
  ///
  /// InvalidArgument: options out of bounds. AlreadyExists: the data directory is in use by another process.
  /// FailedPrecondition: it holds a newer format, or something that is not a store's. OutOfRange: what it
  /// holds does not fit in memory_size (says what does). NotFound: its parent is missing. PermissionDenied.
  /// DataLoss: it is corrupt. ResourceExhausted: the system has not that much memory, or no thread.
  /// Unavailable: the disk is full, and other input/output errors. Opens /dev/null at closed ones of the
  /// descriptors 0 to 2, so that what the process prints does not go into a file of the store.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const StoreOptions& options);

  /// The same in the caller's memory, of the size that RegionSize gives: zero-filled, page-aligned, the
  /// store's alone to write; it must outlive the store.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const StoreOptions& options,
                                                     std::span<std::byte> region);

  /// What is acknowledged stays as durable as it was; nothing is lost by not calling this before exit.
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// As below; the value.
  absl::StatusOr<std::string> Get(std::string_view key) const;

  /// Copies the value into *value. NotFound (then *value is untouched, unless this thread was held up for
  /// longer than the grace period while it copied). InvalidArgument: key size. Of a record that is to be
  /// brought back to memory: Unavailable, DataLoss: the durable tier cannot be read. ResourceExhausted: the
  /// index leaves no room for it, or what is reserved did not for 30 s.
  /// `version`, unless null, gets that of the key's last write.
  absl::Status Get(std::string_view key, std::string* value, std::uint64_t* version = nullptr) const;

  /// As a Get of each key, into the result at the same place. Each value was the key's at some moment of the
  /// call; not all need have been at the same. InvalidArgument: not as many results as keys; else OK, and
  /// each result says what became of its key.
  absl::Status MultiGet(std::span<const std::string_view> keys, std::span<GetResult> results) const;

  /// Whether the key is there; what else may happen, as Get.
  absl::StatusOr<bool> Exists(std::string_view key) const;

  /// What is left of the time for which the key is there; nothing: it is there for ever. Errors as Get.
  absl::StatusOr<std::optional<std::chrono::milliseconds>> Ttl(std::string_view key) const;

  /// As one Commit of one write, and again while it is Aborted, sleeping in between. A record whose time is
  /// over counts for nothing: not for Get, nor for Delete. A Put over another says anew how long. What else
  /// may come of it: Write::status.
  absl::Status Put(std::string_view key, std::string_view value, const PutOptions& options = {});
  absl::Status Delete(std::string_view key, const WriteOptions& options = {});

  /// As a Put of each, in their order, but as one group (Commit). Each is a write of its own, done or not
  /// whatever becomes of the others; all or none is Apply. OK: each result says what became of its write.
  /// InvalidArgument: not as many results as requests; nothing was done.
  absl::Status MultiPut(std::span<const PutRequest> requests, std::span<PutResult> results);

  /// Adds to the number that the key's value spells, in decimal digits and maybe a minus sign before them,
  /// and stores the sum the same way; returns it. An absent key counts as 0. Unless the options give a ttl,
  /// the key keeps its own. FailedPrecondition: the value is no such number, or none of 64 bits. OutOfRange:
  /// the sum is none of 64 bits. In both, the value is as before.
  absl::StatusOr<std::int64_t> Increment(std::string_view key, std::int64_t delta,
                                         const PutOptions& options = {});

  /// Puts bytes behind the key's value, which is made if it is absent, and returns its size. Unless the
  /// options give a ttl, the key keeps its own. OutOfRange: the value would be larger than
  /// kMaxSmallValueSize.
  absl::StatusOr<std::size_t> Append(std::string_view key, std::string_view bytes,
                                     const PutOptions& options = {});

  /// Does all writes of a batch or none, also where the process dies meanwhile, and at one place in the order
  /// of all writes. `version`, unless null, gets that of its first write; the others' are consecutive. As a
  /// Commit of one batch, whose outcome says which write failed, if one did. Readers see each key change by
  /// itself, in the batch's order: while Apply has not returned, one may find the first key's new value, and
  /// after that the second's old one. A batch of nothing is OK.
  /// `durability`: of all of it, as PutOptions.
  absl::Status Apply(const WriteBatch& batch, std::uint64_t* version = nullptr,
                     std::optional<Durability> durability = {});

  /// Gives the key `ttl` from now on, and Persist for ever. NotFound. InvalidArgument: IsTtl. Takes as much
  /// room as a Put of its value. Like a Get and that Put, with no write of the key in between, but maybe the
  /// end of its time: then a Get in between misses it.
  absl::Status Touch(std::string_view key, std::chrono::milliseconds ttl, const WriteOptions& options = {});
  absl::Status Persist(std::string_view key, const WriteOptions& options = {});

  /// Shows keys and values in the order of the keys, as of one moment: that of this call (store/scan.h). It
  /// includes what is not in memory, and what is not loaded yet. InvalidArgument: bounds longer than a key,
  /// or a token that is none. FailedPrecondition: the store is only in memory, and keeps no order; there ask
  /// for ScanOptions::any_order, which says what that shows. Or it has a disk, and the token is of such a
  /// scan. Where writes wait for the disk, so does this; Aborted: there was no room right now to make them
  /// visible, try again. Unavailable: the disk failed.
  absl::StatusOr<std::unique_ptr<StoreScan>> Scan(const ScanOptions& options = {});
  /// The same, of a range.
  absl::StatusOr<std::unique_ptr<StoreScan>> Scan(ScanRange range, std::uint64_t limit, bool keys_only);

  /// Shows what is written from now on, or from a place on that another watch was at, in the order of the
  /// writes (store/watch.h): those that are logged or synced, once they are visible. InvalidArgument: a
  /// prefix longer than a key, or a token that is none. OutOfRange: what comes at the token is not kept any
  /// more. FailedPrecondition: the store is only in memory.
  absl::StatusOr<std::unique_ptr<StoreWatch>> Watch(const WatchOptions& options = {});
  /// The same, of a range from a place on.
  absl::StatusOr<std::unique_ptr<StoreWatch>> Watch(const ScanRange& range, const ChangePlace& place);

  /// Makes a backup of all that is stored (store/backup.h) in a directory of backups, which is made if it is
  /// missing, while the store is used: reads and writes do not wait for it, but share the disk with it.
  /// `keep`: older ones are deleted then, but so many of the newest; 0: none. `stop` ends it: Cancelled.
  /// FailedPrecondition: the store is only in memory. AlreadyExists: another backup is being made there, or
  /// one is being read. NotFound, FailedPrecondition, PermissionDenied: of the directory, as
  /// PrepareBackupDir. DataLoss, Unavailable: a disk failed, or is full; earlier backups are as they were.
  absl::StatusOr<BackupInfo> Backup(const std::string& dir, std::uint32_t keep = 0,
                                    std::stop_token stop = {}) const;

  /// How many keys there are: that are cold, too, and those of records whose time is over and which are not
  /// removed yet. A look at a counter; while the store loads, cost and errors as Count of a range that has
  /// them all.
  absl::StatusOr<std::uint64_t> Count();
  /// How many a scan of the range in any order would show. Cost and errors as a Scan and all its steps.
  absl::StatusOr<std::uint64_t> Count(const RangeOptions& range);

  /// Deletes what is there in the range, or all there is, and returns how many keys that were. What had been
  /// written when it began is gone when it returns; what is written meanwhile stays. As deletes of their own,
  /// one by one, so not atomic: readers see them go, a process that dies leaves some undone. Works with any
  /// durability. InvalidArgument: bounds longer than a key; DeleteRange without a bound. DataLoss,
  /// Unavailable: the durable tier failed; some may be deleted.
  absl::StatusOr<std::uint64_t> DeleteRange(const RangeOptions& range);
  absl::StatusOr<std::uint64_t> DropAll();
  /// The same for who must not be long about it: of a range, or without a bound of all
  /// (store/delete_range.h).
  absl::StatusOr<std::unique_ptr<RangeDeletion>> BeginDeleteRange(const RangeOptions& range);

  /// Applies writes as one group (or several, when there are thousands): one write to the durable tier, then,
  /// in order, each becomes visible. Each write has its own outcome, unless it belongs to a batch
  /// (Write::with_next); neither is atomic for readers. Returns when all outcomes are set. Once a write is
  /// Aborted, so are all behind it.
  void Commit(std::span<Write> writes);

  /// The same, without waiting for the disk: see Write::ticket. A write of a key that has a pending one is
  /// pending, too. What the writes point to is not needed when this has returned.
  void Submit(std::span<Write> writes);
  /// The same as of `now`, in milliseconds `unix_ms`, which the store's clock has just said; for who has to
  /// tell others the outcomes, and then calls CatchUp: what is to be done at the pace of the writes is left
  /// to that, or, if it can wait, to Work. (Who writes first does of it what no group may get ahead of.) Of
  /// counters, only those of keys, versions and writes are good meanwhile.
  void Submit(std::span<Write> writes, TimePoint now, std::int64_t unix_ms);
  void CatchUp();
  /// Adds the outcomes of pending writes that have become known, in the order in which they became visible.
  void TakeSynced(std::vector<SyncedWrite>* outcomes);
  /// Syncing::kInSteps: has the disk take what is pending, which is visible then. False: nothing was.
  bool Sync();

  /// Does what is due: frees memory that has rested, removes what has expired, cleans; a bounded bit
  /// of it. Commit does the same as it goes. False: there was nothing to do.
  bool Work();
  /// When Work will have something to do, if nothing else happens. Nothing: never.
  std::optional<TimePoint> next_work() const;

  /// Whether a key may be in the data directory that memory does not know. Then one that is not in memory is
  /// looked up there, under the lock, and brought in, so no call takes it for missing; that costs some ten
  /// microseconds, or a read from the disk. From true to false, once; if the load failed, never.
  bool loading() const;
  /// How long it was loading. Zero: it is, or had nothing to load from.
  Duration load_time() const;
  /// OK unless the load failed after Open. Then what was not loaded is looked up key by key, for ever.
  /// OutOfRange: it does not fit, for what was written meanwhile (says what would). DataLoss, Unavailable: as
  /// Open.
  absl::Status load_status() const;
  /// OK while the disk takes writes. Else Unavailable, and why it did not take the last ones
  /// (Counter::kDiskRefuses): reads go on. Where it is said that the store takes no more writes, it is to be
  /// opened again; else they succeed again by themselves, some seconds after the cause is gone: a full disk,
  /// or a system that was short of descriptors or memory.
  absl::Status disk_status() const;
  /// Loading::kInSteps: loads some keys more. False: there are none, or it failed.
  bool Load();
  /// Takes room for a record with a value of more than kMaxSmallValueSize, to be filled in place and then
  /// committed (Write::reserved). Until then it counts as used. InvalidArgument: sizes out of bounds.
  /// ResourceExhausted, Aborted: as Write::status.
  absl::StatusOr<Reservation> Reserve(std::size_t key_size, std::size_t value_size);
  void GiveBack(const Reservation& reservation);

  /// Where the key's record is, which is brought back to memory if it is not there. Errors as Get; Aborted:
  /// as a Write. Whatever comes later, the record stays readable there for twice the grace period.
  absl::StatusOr<Location> Locate(std::string_view key);

  /// Whether the memory is filling, so that it counts which keys are used.
  bool wants_reads() const;
  /// Somebody else has read the record of the key with this hash. Get counts its own.
  void NoteRead(std::uint64_t key_hash);

  /// From now on, outcomes of this client's writes are remembered across restarts, and those of `forgotten`
  /// are not (store/durable/completion_records.h, R1 and R3). Nothing happens where there is no durable tier.
  /// Unavailable: the tier failed; whether it remembers the client is unknown.
  absl::Status Remember(std::uint64_t client, std::span<const std::uint64_t> forgotten);
  /// Who was remembered when the store was opened. Once.
  std::vector<RememberedClient> TakeRemembered();

  const Superblock& superblock() const;
  const Clock& clock() const;

  /// The counters, by name, in a fixed order.
  std::vector<std::pair<std::string, std::uint64_t>> Stats() const;
  /// For those who count something of their own (see Counter), and for the store itself. Any thread; relaxed.
  void Add(Counter counter, std::int64_t delta);
  std::uint64_t Read(Counter counter) const;

 private:
  friend class RangeDeletion;
  friend class StoreScan;
  friend class StoreWatch;
  explicit Store(std::unique_ptr<StoreEngine> engine);
  absl::StatusOr<std::uint64_t> DeleteWithRetry(const RangeOptions& range);

  std::unique_ptr<StoreEngine> engine_;
};

}  // namespace remora
