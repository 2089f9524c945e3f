// The part of a commit log that RocksDB does not have yet, for readers that do not change the data
// directory.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
class WriteBatchWithIndex;
}  // namespace rocksdb

namespace remora {

/// The groups of a log that are not applied, in memory. A reader consults them before RocksDB.
struct LogOverlay {
  std::shared_ptr<rocksdb::WriteBatchWithIndex> writes;
  bool log_was_torn = false;  // see DurableTier::log_was_torn
};

struct LogOverlayOptions {
  std::string dir;  // directory of the log
  rocksdb::DB* db = nullptr;
  rocksdb::ColumnFamilyHandle* entries = nullptr;
  rocksdb::ColumnFamilyHandle* meta = nullptr;
  bool is_of_this_boot = false;
};

/// Reads the groups that are not applied. Cost: as much memory as they have bytes. Errors are those of
/// CommitLog::Open.
absl::StatusOr<LogOverlay> ReadLogOverlay(const LogOverlayOptions& options);

}  // namespace remora
