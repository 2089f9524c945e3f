// The durable tier: what a store keeps on disk. The only thing that knows RocksDB.
//
//   column family "default":  key -> {StoredHeader, value} (store/durable/format.h)
//   column family "meta":     "version_limit" -> 8 bytes; every version ever used is less
//                             "synced" -> SyncedMark (store/durable/wal_recovery.h)
//                             "client" CLIENT -> 8 bytes: RememberedClient::since_ms
//                             "client" CLIENT NUMBER -> RememberedWrite (store/durable/completion_records.h)
//                               CLIENT: its 8 bytes; NUMBER: 1 byte, modulo kRememberedWrites
//                             "openings" -> Opening each (store/durable/format.h)
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
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
#include "store/durable/log_retention.h"
#include "store/format/types/scan_range.h"

namespace remora {

struct DurableTierOptions {
  /// Blocks of the tables that Get has read, uncompressed. 0: none are kept. Beside it stay in memory, for
  /// each key in a table, 10 bits of filter and its share of the table's index: a key and some bytes for each
  /// 4 KiB.
  std::size_t block_cache_bytes = std::size_t{32} << 20;
  /// As StoreOptions::write_buffer_bytes.
  std::size_t write_buffer_bytes = std::size_t{64} << 20;

  /// Of log files that are not needed any more: for change feeds that are behind.
  LogRetention log_retention{};
  /// As StoreOptions::descriptors.
  std::size_t descriptors = 0;
  /// Nothing is written, to the directory or by any call, and others may read it at the same time. What is in
  /// the log files is held in memory. Open fails with NotFound and FailedPrecondition where there is no
  /// store.
  bool read_only = false;
  /// As StoreOptions::commit_log_bytes. read_only: of no account; what is there is read.
  std::uint64_t commit_log_bytes = 0;
  /// Writers fill RocksDB behind the commit log, in place of a thread.
  bool applies_in_steps = false;
};

/// It is written in groups, read whole at the start, and read by key where memory does not hold a record.
///
/// Thread Safety: Sync, Backup, VerifyTables, Get, EstimateSize, Split and all ForEach may be called from any
/// threads at any time, while another one writes, too; what they show is whole groups. All else is for one
/// thread at a time.
class DurableTier {
 public:
  /// Opens or makes it in `path`. Errors as Store::Open.
  static absl::StatusOr<std::unique_ptr<DurableTier>> Open(const std::string& path,
                                                           const DurableTierOptions& options = {});
  /// Flushes nothing: all of it is in the log files.
  ~DurableTier();
  DurableTier(const DurableTier&) = delete;
  DurableTier& operator=(const DurableTier&) = delete;

  /// Whether Open dropped writes that were not synced, because a machine that failed had left holes in them
  /// (store/durable/wal_recovery.h). read_only: whether it would, and does not show them.
  bool log_was_torn() const;

  /// As of the last successful write.
  std::uint64_t version_limit() const;

  /// A group is put together, then written as a whole, or given up.
  /// With a commit log, the bytes of a Put stay until Write. `version`: of the deletion; 0: the key has
  /// expired.
  void Put(std::string_view key, const StoredHeader& header, std::string_view value);
  void Delete(std::string_view key, std::uint64_t version = 0);
  void SetVersionLimit(std::uint64_t limit);
  void PutClient(std::uint64_t client, std::int64_t since_ms);
  /// With all its outcomes.
  void DeleteClient(std::uint64_t client);
  /// Takes the place of that of an earlier number. REQUIRES: behind the Put or Delete of this version.
  void PutOutcome(const RequestName& request, std::uint64_t version, std::int64_t result);
  /// OK: it survives this process, unless `log` is kSkipped; the others then survive it all the same.
  /// Otherwise Unavailable: it may or may not be there after a restart. After a full disk, and where the
  /// system was short of descriptors or memory, writes succeed again some seconds after there is space;
  /// after other errors, only after a restart.
  /// With a commit log, all are written to that.
  enum class Log : std::uint8_t { kWritten = 1, kSkipped = 2 };
  absl::Status Write(Log log = Log::kWritten);

  /// OK: all that was written before the call, and is in the log, survives the machine. Otherwise
  /// Unavailable, and what the disk has of it is unknown. Then all later calls fail: fsync(2) reports an
  /// error once. Any thread.
  absl::Status Sync();

  /// Whether there is a commit log. Then all writes are in it, and in change feeds; and Get and ForEach show
  /// what was applied, without what was deleted since (tier_log.h, C6).
  bool has_commit_log() const;
  /// Whether Get shows the write of this version, or a later one of its key (C6). False: not now, as the disk
  /// fails. May wait for the disk. Any thread.
  bool Holds(std::uint64_t version) const;
  /// Whether Get may show a write that failed. Then all later ones fail.
  bool may_show_failed() const;

  /// From now on, the sequence (store/format/types/change.h) is this incarnation's. Once, before all else is
  /// written.
  absl::Status Begin(std::uint64_t incarnation);
  /// That of the last write that is in the log.
  std::uint64_t logged_to() const;
  /// As Continue of change_log.h. REQUIRES: Begin was OK. Any thread.
  absl::StatusOr<std::uint64_t> Continue(const ChangePlace& place, std::uint64_t end) const;
  /// As ReadWalChanges and ReadLogChanges. Any thread, as Get.
  absl::StatusOr<std::unique_ptr<ChangeLog>> ReadLog(std::uint64_t from) const;

  /// Makes a backup in `dir` (store/backup.h: what it holds, errors), beside writes, which do not wait for
  /// it. Any thread.
  absl::StatusOr<BackupInfo> Backup(const std::string& dir, const BackupRequest& request) const;

  /// Reads all tables, and compares each block with its checksum. DataLoss, Unavailable. Any thread.
  absl::Status VerifyTables() const;

  /// All that are remembered. DataLoss, Unavailable.
  absl::StatusOr<std::vector<RememberedClient>> Clients() const;

  using Entry = StoredEntry;
  /// What is done with an entry, whose bytes are there until it returns.
  using Take = absl::FunctionRef<absl::Status(const Entry&)>;

  /// Shows the entry of one key, and returns what `take` does. As of the last Write that returned before, or
  /// a later one. NotFound, DataLoss, Unavailable: nothing was shown. At most one block of a table is read
  /// from the disk where the filters do not err, and none for most keys that are not there. `take` holds
  /// memory of the cache, so it should not wait for anything.
  absl::Status Get(std::string_view key, Take take) const;

  /// Shows all entries, in the order of their keys, until one is not OK. DataLoss, Unavailable.
  absl::Status ForEach(Take take) const;

  /// The same from key `begin` on. For who reads in bits: it reads ahead little at first.
  absl::Status ForEachFrom(std::string_view begin, Take take) const;

  /// Shows the entries of a range, one after the other, as they were when it was made: whole groups, those
  /// whose Write had returned by then, and no others. While it is there, so is what it shows, on disk and in
  /// memory (a write buffer and what was written over). Thread Safety: none. REQUIRES: does not outlive its
  /// tier.
  class Cursor {
   public:
    ~Cursor();
    Cursor(const Cursor&) = delete;
    Cursor& operator=(const Cursor&) = delete;

    /// Goes to the next entry; at first, to the first one. False: there is none, or not status().ok(): then
    /// once and for all.
    bool Next();
    /// Until Next. REQUIRES: Next was true.
    const Entry& entry() const { return entry_; }
    /// DataLoss, Unavailable.
    const absl::Status& status() const { return status_; }

   private:
    friend class DurableTier;
    struct Rep;
    explicit Cursor(std::unique_ptr<Rep> rep);

    std::unique_ptr<Rep> rep_;  // null: it is over
    Entry entry_;
    absl::Status status_;
  };
  /// Takes some microseconds, and reads nothing from the disk; with a commit log, applies what is logged, and
  /// may wait for a flush. Not at the same time as Write, if it is to be
  /// sure what it shows; else as Get.
  std::unique_ptr<Cursor> NewCursor(const ScanRange& range) const;

  /// About how much there is, by the tables' own counts: what was overwritten or deleted, and is still in an
  /// older table, counts too, and what was written since Open may be missing. Reads nothing from the disk.
  struct Size {
    std::uint64_t keys = 0;
    std::uint64_t bytes = 0;       // of keys and values
    std::uint64_t disk_bytes = 0;  // in tables, compressed
  };
  Size EstimateSize() const;

  /// Keys that stand next to each other, as they were when Split was called. May hold no key. Copies are the
  /// same range. REQUIRES: does not outlive its tier.
  class KeyRange {
   public:
    /// The first one, or a string before it. Ranges of one Split are in the order of these; the first one's
    /// is empty.
    const std::string& begin() const { return begin_; }

   private:
    friend class DurableTier;
    std::string begin_;
    std::string end_;                       // the first one after it; empty: there is none
    std::uint64_t disk_bytes_ = 0;          // about
    std::shared_ptr<const void> snapshot_;  // while it is held, overwritten values stay on disk
  };
  /// Splits all keys, in their order: each is in one range. At most `parts` of about the same number of bytes
  /// on disk, to be shown each by a thread of its own; fewer when they would be smaller than 16 KiB, and at
  /// least one. All show the same state: that at the time of this call. How even they are depends on
  /// RocksDB's estimates: good for tables, poor for what is not in one yet (after Open, everything is). Reads
  /// nothing from the disk; takes some ten microseconds for each part, a millisecond where keys are hard to
  /// tell apart. REQUIRES: parts > 0.
  std::vector<KeyRange> Split(std::size_t parts) const;
  /// As the other, for one range of this tier's Split.
  absl::Status ForEach(const KeyRange& range, Take take) const { return ForEachFrom(range, "", take); }
  /// The same from key `begin` of the range on.
  absl::Status ForEachFrom(const KeyRange& range, std::string_view begin, Take take) const;

 private:
  class Impl;
  explicit DurableTier(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace remora
