// Translation of RocksDB's errors into absl::Status. No other code translates them.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace rocksdb {
class Status;
}  // namespace rocksdb

namespace remora {

/// Returns DataLoss. `place` names the damaged thing in messages: "data directory /var/lib/app".
absl::Status DamagedStatus(std::string_view place, std::string_view why);

/// Returns whether a temporary shortage of the system, for example of descriptors or memory, caused the
/// error. The call may be tried again, and has damaged nothing.
bool WillPass(const rocksdb::Status& status);

/// Returns whether the disk is full, or the user's quota is (EDQUOT), for which RocksDB has no code.
bool IsDiskFull(const rocksdb::Status& status);

/// Translates a status. `place` is as for DamagedStatus.
///
/// - PermissionDenied: the process may not use a file.
/// - FailedPrecondition: a newer RocksDB has written a table in a format that this one does not know.
/// - DataLoss: files are missing or damaged.
/// - Unavailable: any other error, including a full disk. It is marked as a shortage if WillPass(status),
///   else as a failure of the disk (store/base/shortage.h).
absl::Status ToStatus(const rocksdb::Status& status, std::string_view place);

}  // namespace remora
