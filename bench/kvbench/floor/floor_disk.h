// Costs of a write by RocksDB alone, or by the disk alone.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rocksdb {
class DB;
}

namespace remora::bench {

/// Writes single records to a RocksDB of its own, or bytes to a file of its own.
///
/// Thread safety: none.
class DiskFloor {
 public:
  /// Opens a directory, which is made if it is missing; its contents are removed at the end. AlreadyExists:
  /// there is something in it. Unavailable: the disk failed.
  static absl::StatusOr<std::unique_ptr<DiskFloor>> Open(const std::string& directory);
  ~DiskFloor();
  DiskFloor(const DiskFloor&) = delete;
  DiskFloor& operator=(const DiskFloor&) = delete;

  /// A WriteBatch of one, to RocksDB's log and not synced.
  absl::Status Write(std::string_view key, std::string_view value);
  absl::Status AppendAndSync(std::string_view bytes);

 private:
  explicit DiskFloor(std::string directory);

  const std::string directory_;
  std::unique_ptr<rocksdb::DB> db_;
  int file_ = -1;
};

}  // namespace remora::bench
