// What a commit log holds and RocksDB does not, for who reads a data directory and changes nothing.
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

/// The groups of a log behind those that were applied, in memory, to be laid over RocksDB.
struct LogOverlay {
  std::shared_ptr<rocksdb::WriteBatchWithIndex> writes;
  bool log_was_torn = false;  // as DurableTier::log_was_torn
};

struct LogOverlayOptions {
  std::string dir;  // of the log
  rocksdb::DB* db = nullptr;
  rocksdb::ColumnFamilyHandle* entries = nullptr;
  rocksdb::ColumnFamilyHandle* meta = nullptr;
  bool is_of_this_boot = false;
};

/// Takes as much memory as the log has bytes that were not applied. Errors as CommitLog::Open.
absl::StatusOr<LogOverlay> ReadLogOverlay(const LogOverlayOptions& options);

}  // namespace remora
