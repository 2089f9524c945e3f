// The applier, which moves groups of the commit log to RocksDB. It writes many groups at a time: the last
// entry of each key, in the order of the keys.
//
//   C3a  Groups are added in the order of their LSNs. If several entries have the same key, the applier
//        writes the one that was added last.
//   C3b  All entries that Apply writes, and the LSN that it reaches, become visible in one atomic step,
//        and are persisted in one step. So after any crash, RocksDB has exactly the log up to its own
//        `applied_to`. RocksDB's log is not used.
//   C3c  The completion record of an entry's request (R2 of completion_records.h) is written in the same
//        step as the entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/durable/commit_log/group_codec.h"
#include "store/durable/tier_log/latest_entries.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
}  // namespace rocksdb

namespace remora {

/// The way in which an applier writes.
enum class ApplyWay : std::uint8_t {
  kInsert = 1,  // one sorted batch into the memtables; one flush of all families persists it
  kIngest = 2,  // a table for each family, ingested in one step; persisted when that returns
};

struct LogApplierOptions {
  /// A database opened with atomic_flush. It and its families outlive the applier.
  rocksdb::DB* db = nullptr;
  rocksdb::ColumnFamilyHandle* entries = nullptr;  // the keys (store/durable/format.h)
  rocksdb::ColumnFamilyHandle* meta = nullptr;     // entries of kind kMeta, and applied_to
  ApplyWay way = ApplyWay::kIngest;
  /// Directory for the tables of kIngest, on the file system of the database.
  std::string dir;
};

/// Collects groups of the log, and writes their last entries to RocksDB.
///
/// Thread safety: none.
class LogApplier {
 public:
  /// Key in the meta family of the LSN behind the last applied group, in 8 bytes.
  static constexpr char kAppliedToKey[] = "applied_to";

  /// Returns the LSN up to which the database has the log, or 0 if no group was ever applied.
  ///
  /// - DataLoss: the stored value is no LSN.
  /// - Unavailable: RocksDB cannot read it.
  static absl::StatusOr<Lsn> ReadAppliedTo(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* meta);

  /// Makes an applier without groups. REQUIRES: `applied_to` is the result of ReadAppliedTo.
  LogApplier(LogApplierOptions options, Lsn applied_to);
  LogApplier(const LogApplier&) = delete;
  LogApplier& operator=(const LogApplier&) = delete;

  /// Adds a copy of what the group writes, unless the group is applied already. REQUIRES: the group is behind
  /// all groups that were added.
  void Add(const LogGroup& group);

  /// Writes entries that are in no group of the log, in one step, behind all applied groups. The caller
  /// flushes the database before it reports the writes as done. Errors are those of Apply, but the applier
  /// does not keep the entries. REQUIRES: all added groups are applied.
  absl::Status ApplyUnlogged(std::span<const LogEntry> entries);

  /// Writes the added groups (C3b), and drops them. On an error nothing becomes visible, the groups stay
  /// added, and the caller may try again.
  ///
  /// - Unavailable, DataLoss, PermissionDenied: see ToStatus in store/durable/status.h.
  absl::Status Apply();

  Lsn applied_to() const { return applied_to_; }
  /// Returns the highest version of an applied entry, or 0 if there is none.
  std::uint64_t applied_version() const { return applied_version_; }
  /// Returns the bytes in memory of the last entries of all keys in the groups that are added and not
  /// applied.
  std::size_t bytes() const { return entries_.bytes() + meta_.bytes(); }
  /// Returns the number of distinct keys in these groups.
  std::size_t keys() const { return entries_.size(); }

 private:
  /// Notes the version of the entry, and the completion record of its request.
  void NoteEntry(const LogEntry& entry);
  absl::Status Write();
  void Forget();
  absl::Status Insert(const std::vector<const LogEntry*>& entries, const std::vector<const LogEntry*>& meta);
  absl::Status Ingest(const std::vector<const LogEntry*>& entries, const std::vector<const LogEntry*>& meta);
  /// Makes a table, and returns its path. Returns nullopt if there is no entry.
  absl::StatusOr<std::optional<std::string>> MakeTable(std::string_view name,
                                                       rocksdb::ColumnFamilyHandle* family,
                                                       const std::vector<const LogEntry*>& sorted) const;

  const LogApplierOptions options_;
  LatestEntries entries_;
  LatestEntries meta_;
  Lsn added_to_;
  Lsn applied_to_;
  std::uint64_t added_version_ = 0;
  std::uint64_t applied_version_ = 0;
};

}  // namespace remora
