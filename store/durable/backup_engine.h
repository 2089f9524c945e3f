// Backups of the durable tier: the part that knows its database. The others: store/backup.h.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "store/backup.h"

namespace rocksdb {
class DB;
}  // namespace rocksdb

namespace remora {

/// As Store::Backup. `place`: what the database is, for errors. `flush`: else the backup is what tables hold.
absl::StatusOr<BackupInfo> CreateBackup(rocksdb::DB& db, std::string_view place, const std::string& dir,
                                        const BackupRequest& request, bool flush);

}  // namespace remora
