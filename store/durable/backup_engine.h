// The part of backups that needs the open database. The other functions are in store/backup.h.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "store/backup.h"

namespace rocksdb {
class DB;
}  // namespace rocksdb

namespace remora {

/// Makes a backup of the data that is in tables at this moment. `place` names the database in errors. Errors
/// are those of Store::Backup.
absl::StatusOr<BackupInfo> CreateBackup(rocksdb::DB& db, std::string_view place, const std::string& dir,
                                        const BackupRequest& request);

}  // namespace remora
