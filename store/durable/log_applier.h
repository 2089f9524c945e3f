// Moves groups of the commit log to RocksDB: one version of each key, in the order of the keys, many at a
// time.
//
//   C3a  Groups are added in the order of their LSNs; of the entries of a key, the last one added is written.
//   C3b  All that Apply writes, and the LSN that it reaches, become visible in one atomic step, and are
//   persisted in one:
//        so what RocksDB holds, after any crash, is exactly the log up to its own `applied_to`. RocksDB's log
//        has no part in it.
//   C3c  An entry of a request brings what is remembered of that request (R2 of completion_records.h) in the
//   same
//        step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/durable/commit_log/group_codec.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
}  // namespace rocksdb

namespace remora {

/// How an applier writes.
enum class ApplyWay : std::uint8_t {
  kInsert = 1,  // one batch into the memtables, sorted; persisted by the flush of all families at once
  kIngest = 2,  // a table for each family, ingested at once; persisted when that returns
};

struct LogApplierOptions {
  /// Opened with atomic_flush. Outlives the applier, with its families.
  rocksdb::DB* db = nullptr;
  rocksdb::ColumnFamilyHandle* entries = nullptr;  // keys, as store/durable/format.h has them
  rocksdb::ColumnFamilyHandle* meta = nullptr;     // entries of kind kMeta, and applied_to
  ApplyWay way = ApplyWay::kIngest;
  /// Where tables are made for kIngest: on the database's file system.
  std::string dir;
};

/// Thread Safety: none.
class LogApplier {
 public:
  /// In the meta family: 8 bytes, the LSN behind the last group that was applied.
  static constexpr char kAppliedToKey[] = "applied_to";

  /// The LSN that the database holds; 0: none was ever applied. DataLoss: it is no LSN. Unavailable.
  static absl::StatusOr<Lsn> ReadAppliedTo(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* meta);

  /// `applied_to`: what ReadAppliedTo said.
  LogApplier(LogApplierOptions options, Lsn applied_to);
  LogApplier(const LogApplier&) = delete;
  LogApplier& operator=(const LogApplier&) = delete;

  /// Takes a copy of the group, unless it was applied already. REQUIRES: it stands behind all that were
  /// added.
  void Add(const LogGroup& group);

  /// Writes entries that are in no group, as Apply does, behind all that was applied. The caller has to
  /// Persist them before it tells anybody. Errors as Apply, but nothing is kept. REQUIRES: all that was added
  /// is applied.
  absl::Status ApplyUnlogged(std::span<const LogEntry> entries);

  /// Writes what was added (C3b), and forgets it. Unavailable, DataLoss: as store/durable/status.h; nothing
  /// of it is visible, and it may be called again.
  absl::Status Apply();
  /// Returns when the disk has what was applied. The files before applied_to() may then be recycled.
  /// REQUIRES: the log was synced to there. Unavailable, DataLoss.
  absl::Status Persist();

  Lsn applied_to() const { return applied_to_; }
  /// The highest version of an entry that was applied; 0: none was.
  std::uint64_t applied_version() const { return applied_version_; }
  /// Of what was added and not applied: bytes in memory, and distinct keys.
  std::size_t bytes() const { return bytes_; }
  std::size_t keys() const { return entries_.size(); }

 private:
  struct Outcome {
    std::string key;
    RememberedWrite value;
  };
  using Latest = absl::flat_hash_map<std::string_view, LogEntry>;

  /// REQUIRES: its bytes stay until it is applied.
  void AddEntry(const LogEntry& entry);
  absl::Status Write();
  void Forget();
  absl::Status Insert(const std::vector<const LogEntry*>& entries, const std::vector<const LogEntry*>& meta);
  absl::Status Ingest(const std::vector<const LogEntry*>& entries, const std::vector<const LogEntry*>& meta);
  /// Makes a table; nothing: there is no entry for it.
  absl::StatusOr<std::optional<std::string>> MakeTable(std::string_view name,
                                                       rocksdb::ColumnFamilyHandle* family,
                                                       const std::vector<const LogEntry*>& sorted) const;

  const LogApplierOptions options_;
  std::deque<std::string> groups_;  // to whose bytes the maps point, and to those of
  std::deque<Outcome> outcomes_;
  std::size_t bytes_ = 0;
  Latest entries_;
  Latest meta_;
  Lsn added_to_;
  Lsn applied_to_;
  std::uint64_t added_version_ = 0;
  std::uint64_t applied_version_ = 0;
};

}  // namespace remora
