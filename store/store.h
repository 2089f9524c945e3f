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
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/backup.h"
#include "store/base/clock.h"
#include "store/base/results.h"
#include "store/format/types/scan_options.h"
#include "store/format/types/write_options.h"
#include "store/format/wire/write_batch.h"
#include "store/options.h"
#include "store/scan.h"
#include "store/watch.h"

namespace remora {

class RangeDeletion;
class StoreEngine;

/// A key-value store in this process.
///
/// The class has more than 25 methods, because it is the interface of the store: one for each operation.
/// ServerStore (store/server_store.h) adds the calls of a server.
///
/// Thread safety: any number of threads may call the members at the same time, except ServerStore::Load: one
/// at a time. Writers take turns by a lock. Reads take that lock in two cases: the record is not in memory,
/// or eight searches for it failed in a row. A search fails if the key is written or its record is moved
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
  virtual ~Store();
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
  ///   ResourceExhausted: the index leaves no space for the record, or reservations left none for 30 s.
  absl::Status Get(std::string_view key, std::string* value, std::uint64_t* version = nullptr) const;

  /// Calls `show` with the key's value where it is, without a copy, in memory that the store may use again a
  /// grace period later. `version` is as for Get. If the value is not in memory, or `show` took longer than
  /// that, `show` gets a copy.
  ///
  /// `show` may be called twice. Then the first call saw bytes that may have been changing, so it must cope
  /// with any bytes, and the second call counts. It must not keep the view. Outcomes as for Get:
  ///   OK: the last call of `show` saw the value, whole and unchanged, as it was at some moment of this call.
  ///   Any other: if `show` was called, what it saw does not count.
  absl::Status Visit(std::string_view key, absl::FunctionRef<void(std::string_view value)> show,
                     std::uint64_t* version = nullptr) const;

  /// Gets each of `keys` into the result with the same index. Each value was its key's at some moment of the
  /// call; these moments may differ. Outcomes:
  ///   OK: each result has the outcome of its key, as for Get.
  ///   InvalidArgument: `keys` and `results` differ in size.
  absl::Status MultiGet(std::span<const std::string_view> keys, std::span<GetResult> results) const;

  /// Returns whether the key exists. Failures as for Get.
  absl::StatusOr<bool> Exists(std::string_view key) const;

  /// Returns the time until the key expires; nullopt if it never does. Outcomes as for Get.
  absl::StatusOr<std::optional<std::chrono::milliseconds>> Ttl(std::string_view key) const;

  /// Puts or deletes the key. If only retired memory is free, the call waits until the grace period is over.
  /// An expired record counts as absent, for Get and for Delete. Each Put sets the expiry anew. Outcomes, of
  /// which all but OK and Unavailable mean that the store has done nothing:
  ///   NotFound: the key does not exist, for Delete, and for a condition that requires it.
  ///   AlreadyExists, FailedPrecondition: the condition does not hold (Condition).
  ///   OutOfRange: the ttl is Until a moment that is over.
  ///   InvalidArgument: a size, the ttl, the condition or the durability is out of bounds.
  ///   DataLoss: the key's record in the durable tier is damaged.
  ///   ResourceExhausted: there is no space, and none will come of itself.
  ///   Unavailable: the durable tier failed. The write is not visible, but a restart may show it.
  absl::Status Put(std::string_view key, std::string_view value, const PutOptions& options = {});
  absl::Status Delete(std::string_view key, const WriteOptions& options = {});

  /// Puts each of `requests`, in their order, in one group commit. Each is a write of its own, and is done
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
  /// the disk, the call waits, too. The caller owns the scan. Outcomes:
  ///   InvalidArgument: a bound is longer than a key, or the resume token is malformed.
  ///   FailedPrecondition: the store is only in memory and keeps no order (use ScanOptions::any_order, or
  ///     StoreOptions::ordered_index); or it has a durable tier, and the resume token is from a scan without
  ///     order.
  ///   Aborted: there is no space now to make waiting writes visible; or followers have yet to acknowledge
  ///     writes (ServerStore::SetGroupSink); try again later.
  ///   Unavailable: the disk failed.
  absl::StatusOr<std::unique_ptr<StoreScan>> Scan(const ScanOptions& options = {});

  /// Begins a watch, which shows the writes in their order, once they are visible, from now on or from
  /// another watch's position on (store/watch.h). The caller owns the watch. Outcomes:
  ///   InvalidArgument: the prefix is longer than a key, or the resume token is malformed.
  ///   OutOfRange: the store no longer keeps the writes that follow the token's position.
  ///   FailedPrecondition: the store is only in memory, and keeps no changes
  ///   (StoreOptions::change_log_bytes).
  absl::StatusOr<std::unique_ptr<StoreWatch>> Watch(const WatchOptions& options = {});

  /// Makes a backup of the whole store (store/backup.h) in a directory of backups, and makes that directory
  /// if it is missing. Reads and writes go on, but share the disk with it. Unless `keep` is 0, the call then
  /// deletes all but the `keep` newest backups. A request to `stop` ends it with Cancelled. Outcomes:
  ///   FailedPrecondition: the store is only in memory, or ships its groups to followers.
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
  ///   Aborted: as for Scan, and no space came within 5 s; no key was deleted.
  ///   DataLoss, Unavailable: the durable tier failed; some keys may be deleted.
  absl::StatusOr<std::uint64_t> DeleteRange(const RangeOptions& range);
  absl::StatusOr<std::uint64_t> DeleteAll();
  /// Begins a deletion in bounded steps (store/delete_range.h), which the caller owns. A range without bounds
  /// has all keys. InvalidArgument: a bound is longer than a key. Aborted, Unavailable: as for Scan.
  absl::StatusOr<std::unique_ptr<RangeDeletion>> BeginDeleteRange(const RangeOptions& range);

  /// Does a bounded amount of the maintenance that is due: frees memory after its grace period, removes
  /// expired records, cleans. Writes do the same as they go. Once a second, it also tries whether a disk that
  /// took no writes takes some again (disk_status). Returns false if no maintenance was due.
  bool RunMaintenance();
  /// Returns when RunMaintenance will have something to do, if nothing else happens; nullopt: never.
  std::optional<TimePoint> next_maintenance() const;

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
  /// last ones; reads go on. If the message says that the store takes no more writes,
  /// open the store again. Otherwise writes succeed again some seconds after the cause is gone: a full disk,
  /// or a system that was short of descriptors or memory.
  absl::Status disk_status() const;
  /// Returns a line for the operator: how the commit log writes to its files, and why. Empty: the store has
  /// no commit log.
  std::string commit_log_description() const;

  /// Returns all metrics as (name, value), in a fixed order. Times are in nanoseconds, sizes in bytes
  /// (store/format/memory/metric_registry.h).
  std::vector<std::pair<std::string, std::uint64_t>> Stats() const;

 private:
  friend class RangeDeletion;
  friend class StoreScan;
  friend class StoreWatch;
  friend class ServerStore;
  explicit Store(std::unique_ptr<StoreEngine> engine);
  absl::StatusOr<std::uint64_t> DeleteWithRetry(const RangeOptions& range);

  std::unique_ptr<StoreEngine> engine_;
};

}  // namespace remora
