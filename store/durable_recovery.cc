#include "store/durable_recovery.h"

#include <rocksdb/db.h>
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

rocksdb::Status OpenDatabase(rocksdb::DBOptions options, const std::string& path,
                             const std::vector<rocksdb::ColumnFamilyDescriptor>& families, std::size_t meta,
                             std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::DB** db,
                             bool* dropped) {
  *dropped = false;
  const rocksdb::Status status = rocksdb::DB::Open(options, path, families, handles, db);
  if (!status.IsCorruption() || !IsTorn(options, path, families, meta)) return status;
  options.wal_recovery_mode = WALRecoveryMode::kPointInTimeRecovery;
  *dropped = true;
  return rocksdb::DB::Open(options, path, families, handles, db);
}

}  // namespace remora
