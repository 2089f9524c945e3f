// Reader of RocksDB's log files that skips damaged parts.
//
//   a log:   blocks of 32 KiB
//   a block: { masked CRC-32C of all behind it: 4 | size: 2 | type: 1 | part } ... | padding
//   type:    1 a whole record; 2 its first part; 3 a part in the middle; 4 its last part
//   a record is a rocksdb::WriteBatch
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"

namespace remora {

/// Result of the check of a log.
struct LogState {
  /// Offset of the first damaged part. nullopt: no part is damaged.
  std::optional<std::uint64_t> damaged_at;
  /// True if the last record is incomplete, as after the process was killed during a write.
  bool ends_short = false;
};

/// Checks a log. Returns nullopt if the file cannot be read to its end. Cost: a checksum of all bytes.
std::optional<LogState> CheckLog(const std::string& path);

/// Returns the paths of the logs in a database's directory, in their order. Returns nullopt if the directory
/// cannot be read.
std::optional<std::vector<std::string>> LogsIn(const std::string& path);

using LogRecordVisitor = absl::FunctionRef<void(const std::string& record)>;

/// Calls `visit` for each record of a log all of whose parts exist and have the right checksum. Returns false
/// if the file cannot be read to its end.
bool ScanLog(const std::string& path, LogRecordVisitor visit);

/// Returns the highest value of 8 bytes that any log in a database's directory puts to this key of a family,
/// or 0 if there is none. Returns nullopt if a log cannot be read.
std::optional<std::uint64_t> HighestMark(const std::string& path, std::uint32_t family, std::string_view key);

}  // namespace remora
