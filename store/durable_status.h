// What RocksDB's errors are for a store.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace rocksdb {
class Status;
}  // namespace rocksdb

namespace remora {

/// `path`: of the data directory. DataLoss: it is damaged. PermissionDenied. Unavailable: a full disk, and
/// all else.
absl::Status ToStatus(const rocksdb::Status& status, const std::string& path);

absl::Status Damaged(const std::string& path, const std::string& why);

}  // namespace remora
