#include "store/durable_recovery.h"

#include <rocksdb/options.h>

#include <memory>
#include <optional>

#include "store/durable_log_scan.h"

namespace remora {
namespace {

using rocksdb::WALRecoveryMode;

/// The last sequence number before the damage. Nothing: the tables are ahead of it, or worse. Writes nothing.
std::optional<std::uint64_t> LastBeforeDamage(rocksdb::DBOptions options, const std::string& path,
                                              const std::vector<rocksdb::ColumnFamilyDescriptor>& families) {
  options.wal_recovery_mode = WALRecoveryMode::kPointInTimeRecovery;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  if (!rocksdb::DB::OpenForReadOnly(options, path, families, &handles, &opened).ok()) return std::nullopt;
  const std::unique_ptr<rocksdb::DB> db(opened);
  for (rocksdb::ColumnFamilyHandle* handle : handles) delete handle;
  return db->GetLatestSequenceNumber();
}

/// W2.
bool IsTorn(const rocksdb::DBOptions& options, const std::string& path,
            const std::vector<rocksdb::ColumnFamilyDescriptor>& families, std::size_t meta) {
  // RocksDB numbers families in the order in which they were made.
  const auto mark = HighestMark(path, static_cast<std::uint32_t>(meta), SyncedMark::kKey);
  if (!mark) return false;
  const auto last = LastBeforeDamage(options, path, families);
  return last && *mark <= *last;
}

}  // namespace

OpenedDatabase OpenDatabase(rocksdb::DBOptions options, const std::string& path,
                            const std::vector<rocksdb::ColumnFamilyDescriptor>& families, std::size_t meta) {
  OpenedDatabase opened;
  options.wal_recovery_mode = WALRecoveryMode::kTolerateCorruptedTailRecords;
  opened.status = rocksdb::DB::Open(options, path, families, &opened.families, &opened.db);
  if (!opened.status.IsCorruption() || !IsTorn(options, path, families, meta)) return opened;
  options.wal_recovery_mode = WALRecoveryMode::kPointInTimeRecovery;
  opened.status = rocksdb::DB::Open(options, path, families, &opened.families, &opened.db);
  opened.dropped = opened.status.ok();
  return opened;
}

}  // namespace remora
