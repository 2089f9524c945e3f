// The durable tier: the data that a store keeps on disk, in RocksDB. No other part of the store uses
// RocksDB.
//
//   column family "default":  key -> {StoredHeader, value} (store/durable/format.h)
//   column family "meta":     "version_limit" -> 8 bytes; every version ever used is lower
//                             "synced" -> SyncedMark (store/durable/wal/wal_recovery.h)
//                             "client" CLIENT -> 8 bytes: ClientCompletions::since_ms
//                             "client" CLIENT NUMBER -> CompletionRecord (store/durable/completion_records.h)
//                               CLIENT: its 8 bytes; NUMBER: 1 byte, modulo kCompletionsPerClient
//                             "openings" -> a list of Opening (store/durable/format.h)
//                             "group_number" -> 8 bytes: number of the last group of a replicated store
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/backup.h"
#include "store/durable/change_log.h"
#include "store/durable/completion_records.h"
#include "store/durable/format.h"
#include "store/durable/group_sink.h"
#include "store/durable/store_copy.h"
#include "store/durable/tier_log/group_history.h"
#include "store/durable/tier_log/log_progress.h"
#include "store/durable/tier_log/log_retention.h"
#include "store/format/cluster/shard_identity.h"
#include "store/format/types/scan_range.h"

namespace remora {

struct ShippedGroup;

struct DurableTierOptions {
  /// Size of the cache of table blocks that Get has read, uncompressed. 0: no cache. In addition, the
  /// tier keeps in memory 10 bits of filter for each key in a table. It also keeps the index of each
  /// table: a key and some bytes for each 4 KiB.
  std::size_t block_cache_bytes = std::size_t{32} << 20;
  /// See StoreOptions::write_buffer_bytes.
  std::size_t write_buffer_bytes = std::size_t{64} << 20;

  /// Says which log files the tier keeps for slow change feeds, although it no longer needs them.
  LogRetention log_retention{};
  /// See StoreOptions::max_open_files.
  std::size_t max_open_files = 0;
  /// The tier writes nothing to the directory, and other processes may read it at the same time. The
  /// tier holds the content of the log files in memory. Open returns NotFound or FailedPrecondition if
  /// the directory holds no store.
  bool read_only = false;
  /// See StoreOptions::commit_log_bytes. Ignored if `read_only`: the tier then reads an existing
  /// commit log.
  std::uint64_t commit_log_bytes = 0;
  /// See StoreOptions::shard. Ignored if `read_only`.
  ShardIdentity shard{};
  /// The directory has the files of a StoreCopy, without a commit log: the store goes on behind its last
  /// group.
  bool keeps_group_number = false;
  /// The writing thread, and no thread of the tier, applies the commit log to RocksDB.
  bool applies_in_steps = false;
};

/// The store writes it in groups, reads all of it at the start, and reads single keys whose record is
/// not in memory.
///
/// The class has more than 25 methods, because nothing else of the store knows RocksDB: each use of the disk
/// has one here.
///
/// Thread safety: members that say "any thread" may be called at any time, also while another thread
/// writes, and show whole groups only. All others are for one thread at a time.
class DurableTier {
 public:
  /// Opens the tier in `path`, and makes it if there is none. Errors are those of Store::Open.
  static absl::StatusOr<std::unique_ptr<DurableTier>> Open(const std::string& path,
                                                           const DurableTierOptions& options = {});
  /// Flushes nothing, since the log files have all logged writes.
  ~DurableTier();
  DurableTier(const DurableTier&) = delete;
  DurableTier& operator=(const DurableTier&) = delete;

  /// Returns whether Open dropped unsynced writes, because a machine failure had left holes in the log
  /// (store/durable/wal/wal_recovery.h). If read_only: whether the tier hides such writes.
  bool log_was_torn() const;

  /// Returns the version limit as of the last successful Write.
  std::uint64_t version_limit() const;

  // These add to the group, which Write then writes as a whole.

  /// With a commit log, the caller keeps the bytes unchanged until Write.
  void Put(std::string_view key, const StoredHeader& header, std::string_view value);
  /// `version` is that of the deletion. 0: the key has expired.
  void Delete(std::string_view key, std::uint64_t version = 0);
  void SetVersionLimit(std::uint64_t limit);
  /// Deletes a key that belongs to another store by now. Watches show nothing of it. REQUIRES:
  /// has_commit_log().
  void Forget(std::string_view key);
  /// Ends the watches that have not shown all changes before this addition, with OutOfRange. REQUIRES:
  /// has_commit_log().
  void MarkSlots();
  /// Says, before the first Put of a group, that the group has records of another store. They have the
  /// versions that they had there, and watches show nothing of them. REQUIRES: has_commit_log().
  void MarkCopied();
  /// Returns whether MarkSlots or MarkCopied was ever logged, here or by the primary. Errors are those of
  /// ApplyLog and Get. REQUIRES: has_commit_log().
  absl::StatusOr<bool> HasMarkOfSlots() const;
  void PutClient(std::uint64_t client, std::int64_t since_ms);
  /// Deletes the client with all its completion records.
  void DeleteClient(std::uint64_t client);
  /// Replaces an earlier completion record with the same number modulo kCompletionsPerClient. REQUIRES: the
  /// last addition to the group was the Put or Delete of this version.
  void PutCompletion(const RequestId& request, std::uint64_t version, std::int64_t result);

  enum class Log : std::uint8_t { kWritten = 1, kSkipped = 2 };
  /// Writes the group, and begins a new one. With a commit log, it ignores `log`.
  ///
  /// - OK: the group survives the end of this process, unless `log` is kSkipped. Groups that are
  ///   logged survive even if an earlier group skipped the log.
  /// - Unavailable: the write failed, and the group may or may not exist after a restart. After a full
  ///   disk, or a shortage of descriptors or memory, writes succeed again some seconds after there is
  ///   space. After other errors they succeed only after a restart.
  absl::Status Write(Log log = Log::kWritten);

  /// Finds out, after a Write that failed, whether another one would succeed: writes a group that changes
  /// nothing, if there is space for a large one, too. Errors are those of Write. REQUIRES: the group is
  /// empty.
  absl::Status TryToWrite();

  // The groups of a replicated store (store/durable/group_sink.h). REQUIRES: has_commit_log(), Begin was OK.

  /// Returns the number of the last group. 0: the store is in no history of groups.
  std::uint64_t group_number() const;
  /// Hands all groups to `sink` from now on. The first has the version limit, which earlier groups may have
  /// raised. `sink` outlives the tier, or the call of EndShipping. Errors are those of Write; then the sink
  /// gets nothing.
  absl::Status BeginShipping(GroupSink* sink);
  void EndShipping();
  /// Says that the followers have all groups up to this number.
  void AcknowledgeGroups(std::uint64_t number);
  /// Returns the sequence up to which all groups are acknowledged; logged_to() if nothing is shipped.
  std::uint64_t acknowledged_to() const;
  /// Writes a group of a primary as it is. Errors are those of Write. REQUIRES: the bytes of the group are
  /// unchanged until this returns. Its number is group_number() + 1, and no addition precedes it here.
  absl::Status WriteFollowed(const ShippedGroup& group);
  /// Says that all versions from now on are at least this one, and all that were logged before are lower.
  /// REQUIRES: no version was logged since Open.
  void ExpectVersionsFrom(std::uint64_t version);
  /// Has RocksDB show all that is logged, so that Clients does. Errors are those of TierLog::ApplyAll. Any
  /// thread.
  absl::Status ApplyLog() const;
  /// See GroupHistory::Open. REQUIRES: has_commit_log(); this outlives the cursor.
  absl::StatusOr<std::unique_ptr<GroupHistory>> ReadGroups(std::uint64_t from) const;

  /// Makes all logged writes that were done before the call survive a failure of the machine. Any
  /// thread.
  ///
  /// - Unavailable: it is unknown which of them are on the disk. All later calls fail, too, since
  ///   fsync(2) reports an error only once.
  absl::Status Sync();

  /// Returns whether there is a commit log. If so, the log and the change feeds have all writes. Get
  /// and ForEachFrom(begin) show the applied writes, and hide keys that were deleted since
  /// (tier_log.h, C6).
  bool has_commit_log() const;
  /// See CommitLog::description. Empty: there is no commit log.
  std::string commit_log_description() const;
  /// Has `take` told how far the commit log and RocksDB are, at least every second of a store that has
  /// threads. Does nothing without a commit log. `take` outlives the tier, and is called by one thread at a
  /// time.
  void WatchLog(std::function<void(const LogProgress&)> take);
  /// Returns whether Get shows the write of this version, or a later one of its key (C6). Returns
  /// false if it does not, because the disk fails. It may wait for the disk. Any thread.
  bool Holds(std::uint64_t version) const;
  /// Returns OK, or why the last attempt to move records from the commit log to RocksDB has failed. Holds
  /// returns false for these records until an attempt succeeds.
  absl::Status apply_status() const;
  /// Returns whether Get may show a write that failed. If so, all later writes fail.
  bool may_show_failed() const;

  /// Begins the sequence (store/format/types/change.h) of this incarnation. REQUIRES: it is called
  /// once, before any other write. Errors are those of Write, and DataLoss.
  absl::Status Begin(std::uint64_t incarnation);
  /// Returns the sequence of the last logged write.
  std::uint64_t logged_to() const;
  /// See Continue in change_log.h. REQUIRES: Begin was OK. Any thread.
  absl::StatusOr<std::uint64_t> Continue(const ChangePosition& position, std::uint64_t end) const;
  /// See ReadWalChanges, or with a commit log ReadLogChanges. Any thread.
  absl::StatusOr<std::unique_ptr<ChangeLog>> ReadLog(std::uint64_t from) const;

  /// Makes a backup in `dir`. store/backup.h says what it holds, and has the errors. Writes do not wait
  /// for it. Any thread.
  absl::StatusOr<BackupInfo> Backup(const std::string& dir, const BackupRequest& request) const;
  /// Begins a copy of all that was written before the call. Writes do not wait for it. Any thread. REQUIRES:
  /// has_commit_log(); this outlives the copy.
  ///
  /// - Unavailable, DataLoss: as for ApplyLog.
  absl::StatusOr<std::unique_ptr<StoreCopy>> BeginCopy() const;

  /// Reads all tables, and compares each block with its checksum. Any thread.
  ///
  /// - DataLoss: a table is damaged.
  /// - Unavailable: a table cannot be read.
  absl::Status VerifyTables() const;

  /// Returns all clients with their completion records.
  ///
  /// - DataLoss: an entry has the wrong size, or a table is damaged.
  /// - Unavailable: RocksDB cannot read them.
  absl::StatusOr<std::vector<ClientCompletions>> Clients() const;

  using Entry = StoredEntry;
  /// Function that gets an entry. The bytes of the entry are valid until it returns.
  using Take = absl::FunctionRef<absl::Status(const Entry&)>;

  /// Calls `take` with the entry of a key, and returns its status. The entry is as of the last Write
  /// that returned before the call, or of a later one. Any thread.
  ///
  /// - NotFound: the key does not exist. `take` was not called.
  /// - DataLoss, Unavailable: the entry is damaged, or RocksDB cannot read it. `take` was not called.
  ///
  /// Cost: one block read from the disk at most, and none for most keys that do not exist, unless a
  /// filter errs. `take` pins memory of the cache, so it should not wait.
  absl::Status Get(std::string_view key, Take take) const;
  /// Does the same without a wait for the disk. Returns nothing if the caches of RocksDB and of the system do
  /// not have all that it takes, or it is more than 64 KiB; then `take` was not called.
  std::optional<absl::Status> GetCached(std::string_view key, Take take) const;

  /// Calls `take` with all entries, in the order of their keys, until a call returns an error, which it
  /// then returns. Any thread.
  ///
  /// - DataLoss, Unavailable: an entry is damaged, or RocksDB cannot read it.
  absl::Status ForEach(Take take) const;

  /// Calls `take` as ForEach does, for keys from `begin` on. It reads ahead little at first, which
  /// suits callers that read a few entries at a time. Any thread.
  absl::Status ForEachFrom(std::string_view begin, Take take) const;

  /// A key that ForKeys reads.
  struct WantedKey {
    std::string_view key;
    /// About as many other keys exist between this one and the wanted key before it.
    std::size_t skipped = 0;
  };
  /// Calls `take` with the entries of these keys, as ForEach does. It passes over keys that do not exist. The
  /// keys ascend, or descend if `reverse`. It shows a key that is deleted or written meanwhile as it was
  /// before, or after. Any thread.
  ///
  /// - DataLoss, Unavailable: an entry is damaged, or RocksDB cannot read it.
  ///
  /// Cost: a search, and then a step of an iterator for each key, wanted or skipped; or another search where
  /// so many keys are skipped that it is cheaper. It holds one value at a time.
  absl::Status ForKeys(std::span<const WantedKey> keys, bool reverse, Take take) const;

  /// A cursor over the entries of a range, as they were when it was made. It shows exactly the groups
  /// whose Write had returned by then. As long as it exists, RocksDB keeps that state on disk and in
  /// memory: a write buffer, and values that were overwritten since.
  ///
  /// Thread safety: none. REQUIRES: the tier outlives it.
  class Cursor {
   public:
    ~Cursor();
    Cursor(const Cursor&) = delete;
    Cursor& operator=(const Cursor&) = delete;

    /// Moves to the next entry; the first call moves to the first entry. Returns false for good at the
    /// end, or if status() is an error.
    bool Next();
    /// Returns the entry, which is valid until the next call of Next. REQUIRES: Next returned true.
    const Entry& entry() const { return entry_; }
    /// Returns OK, or the error that ended the cursor: DataLoss or Unavailable.
    const absl::Status& status() const { return status_; }

   private:
    friend class DurableTier;
    struct Rep;
    explicit Cursor(std::unique_ptr<Rep> rep);

    std::unique_ptr<Rep> rep_;  // null: the cursor is at its end
    Entry entry_;
    absl::Status status_;
  };
  /// Returns a cursor. To know which groups the cursor shows, do not call it during a Write. Any
  /// thread. `end`: a sequence that ends a group; the cursor shows the groups up to there. If its status is
  /// Aborted, RocksDB has later groups, and the caller asks again with a later `end`. REQUIRES: without a
  /// commit log, there is no `end`.
  ///
  /// Cost: some microseconds, and no read from the disk. With a commit log, it also reads the groups that
  /// are not applied (TierLog::OpenView).
  std::unique_ptr<Cursor> NewCursor(const ScanRange& range,
                                    std::optional<std::uint64_t> end = std::nullopt) const;
  /// Returns whether NewCursor would read little of the commit log (TierLog::IsReadyForView). If `may_wait`,
  /// it first waits until that is so, and returns true. Any thread; call it without the store's lock.
  bool PrepareCursor(bool may_wait) const;

  /// Estimate of the size of the tier, from the counts in the tables. It includes overwritten and
  /// deleted entries that are still in an older table. It may lack writes since Open.
  struct Size {
    std::uint64_t keys = 0;
    std::uint64_t bytes = 0;       // of keys and values
    std::uint64_t disk_bytes = 0;  // in tables, compressed
  };
  /// Returns an estimate without reading from the disk. Any thread.
  Size EstimateSize() const;

  /// A range of adjacent keys, as they were when Split was called. It may hold no key. A copy is the
  /// same range. REQUIRES: the tier outlives it.
  class KeyRange {
   public:
    /// Returns the first key of the range, or a string before it. The ranges of a Split are in the
    /// order of these strings; that of the first range is empty.
    const std::string& begin() const { return begin_; }

   private:
    friend class DurableTier;
    std::string begin_;
    std::string end_;                       // the first key behind the range; empty: there is none
    std::uint64_t disk_bytes_ = 0;          // estimate
    std::shared_ptr<const void> snapshot_;  // keeps values on disk that were overwritten since
  };
  /// Splits the keys into at most `parts` ranges, in order, that have about the same number of bytes on
  /// disk. Each key is in one range. All ranges show the state at the time of this call, each for a
  /// thread of its own.
  ///
  /// Returns fewer ranges, but at least one, if they would be smaller than 16 KiB. RocksDB's estimates
  /// are good for tables, and poor for data that is in no table yet. Without a commit log, all data is
  /// in tables after Open.
  ///
  /// Cost: some ten microseconds for each part, or a millisecond where keys are hard to distinguish. It
  /// reads nothing from the disk. Any thread. REQUIRES: parts > 0.
  std::vector<KeyRange> Split(std::size_t parts) const;
  /// Calls `take` with the entries of a range of this tier's Split; otherwise like ForEach(Take). Any
  /// thread.
  absl::Status ForEach(const KeyRange& range, Take take) const { return ForEachFrom(range, "", take); }
  /// Calls `take` with the entries of a range from key `begin` on. Any thread.
  absl::Status ForEachFrom(const KeyRange& range, std::string_view begin, Take take) const;

 private:
  class Impl;
  explicit DurableTier(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace remora
