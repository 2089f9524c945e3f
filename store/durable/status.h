// The one translator of RocksDB's errors.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace rocksdb {
class Status;
}  // namespace rocksdb

namespace remora {

/// `place`: of what, for a person: "data directory /var/lib/app".
absl::Status DamagedStatus(std::string_view place, std::string_view why);  // DataLoss

/// Whether the system was short of something for the moment, as of descriptors or memory: what has failed is
/// worth another try, and left nothing damaged.
bool WillPass(const rocksdb::Status& status);

/// Returns whether the disk is full, or the user's share of it (EDQUOT), for which RocksDB has no code.
bool IsDiskFull(const rocksdb::Status& status);

/// OK; PermissionDenied; DataLoss: files are missing or damaged; Unavailable: all else, a full disk too. What
/// will pass is marked as a shortage (store/base/shortage.h).
absl::Status ToStatus(const rocksdb::Status& status, std::string_view place);

}  // namespace remora
