// A store's directory: whose it is, and that only one store uses it at a time. What is in it is RocksDB's.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace remora {

/// Number of what the directory holds: the marker file, and in RocksDB the keys, values and column families.
inline constexpr int kDataFormat = 1;

/// Held open, and locked, as long as the store is. A marker file says that the directory is a store's:
/// nothing is written to one that holds other things. The marker is empty until the first store in there was
/// made completely; then it names the format.
///
/// Thread Safety: none.
class DataDir {
 public:
  /// Makes the directory when it is missing. Errors as Store::Open.
  static absl::StatusOr<std::unique_ptr<DataDir>> Open(const std::string& path);
  ~DataDir();
  DataDir(const DataDir&) = delete;
  DataDir& operator=(const DataDir&) = delete;

  const std::string& path() const { return path_; }
  /// Nothing was ever stored here.
  bool fresh() const { return fresh_; }
  /// Returns when the disk has the marker, the directory, and its name: what is synced in there later shall
  /// not go with it. Errors as Store::Open.
  absl::Status MarkComplete();

 private:
  DataDir(std::string path, int marker);

  absl::Status LockAndReadMarker();

  const std::string path_;
  const int marker_;  // descriptor
  bool fresh_ = false;
};

}  // namespace remora
