#include "store/durable/wal/wal_recovery.h"

#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "store/durable/wal/wal_scan.h"

namespace remora {
namespace {

using rocksdb::WALRecoveryMode;

/// Returns the last sequence number before the damage. Returns nullopt if the tables are ahead of it, or if
/// RocksDB finds other damage. Writes nothing.
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

/// Returns whether damaged logs are torn, as W2 says, rather than damaged as in W3.
bool AreTorn(const rocksdb::DBOptions& options, const std::string& path,
             const std::vector<rocksdb::ColumnFamilyDescriptor>& families, std::size_t meta) {
  // RocksDB numbers families in the order in which they were made.
  const auto mark = HighestMark(path, static_cast<std::uint32_t>(meta), SyncedMark::kKey);
  if (!mark) return false;
  const auto last = LastBeforeDamage(options, path, families);
  return last && *mark <= *last;
}

/// Finds the damaged logs. Sets *where to a text that says where the damage begins.
rocksdb::Status FindDamage(const std::string& path, std::vector<std::string>* damaged, std::string* where) {
  const auto logs = LogsIn(path);
  if (!logs) return rocksdb::Status::IOError("cannot list " + path, std::strerror(errno));
  for (const std::string& log : *logs) {
    const auto state = CheckLog(log);
    if (!state) return rocksdb::Status::IOError("cannot read " + log, std::strerror(errno));
    if (!state->damaged_at) continue;
    if (damaged->empty()) *where = absl::StrCat(log, ", from byte ", *state->damaged_at, " on");
    damaged->push_back(log);
  }
  return rocksdb::Status::OK();
}

}  // namespace

rocksdb::Status OpenDatabase(rocksdb::DBOptions options, const std::string& path,
                             const std::vector<rocksdb::ColumnFamilyDescriptor>& families,
                             const RecoveryOptions& recovery,
                             std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::DB** db,
                             std::vector<std::string>* torn) {
  std::vector<std::string> damaged;
  std::string where;
  if (const rocksdb::Status status = FindDamage(path, &damaged, &where); !status.ok()) return status;
  if (!damaged.empty()) {
    if (recovery.is_of_this_boot) {
      return rocksdb::Status::Corruption(
          where,
          "and no power cut did it: the machine was not started since. If its file system failed "
          "without it, remove " +
              recovery.boot_file + ": what is damaged is dropped then, and all behind it");
    }
    if (!AreTorn(options, path, families, recovery.meta)) {
      return rocksdb::Status::Corruption(where, "and of what is behind that, the disk said that it has it");
    }
    options.wal_recovery_mode = WALRecoveryMode::kPointInTimeRecovery;
  }
  const rocksdb::Status status = recovery.read_only
                                     ? rocksdb::DB::OpenForReadOnly(options, path, families, handles, db)
                                     : rocksdb::DB::Open(options, path, families, handles, db);
  if (status.ok()) *torn = std::move(damaged);
  return status;
}

}  // namespace remora
