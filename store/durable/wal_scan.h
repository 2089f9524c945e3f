// RocksDB's log files, read around whatever is damaged in them.
//
//   a log: blocks of 32 KiB, each:    { masked CRC-32C of all behind it: 4 | size: 2 | type: 1 | part } ... |
//   padding type:  1 a whole record; 2 its first part, 3 parts in the middle, 4 the last a record is a
//   rocksdb::WriteBatch
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"

namespace remora {

/// What a log's bytes say of it.
struct LogState {
  /// Where the first part stands that is not as it was written; nothing: there is none.
  std::optional<std::uint64_t> damaged_at;
  /// The last record is not all there: as when the process was killed while it wrote.
  bool ends_short = false;
};

/// Nothing: it could not be read to its end. 256 MiB take some 0.1 s where the system has them in memory.
std::optional<LogState> CheckLog(const std::string& path);

/// The logs in a database's directory, in their order. Nothing: it cannot be read.
std::optional<std::vector<std::string>> LogsIn(const std::string& path);

using LogRecordVisitor = absl::FunctionRef<void(const std::string& record)>;

/// Shows all records of a log whose every part is there and has its checksum. False: it could not be read to
/// its end.
bool ScanLog(const std::string& path, LogRecordVisitor visit);

/// Of all logs in a database's directory, the highest number of 8 bytes that was put to this key of a family;
/// 0: there is none. Nothing: they could not be read.
std::optional<std::uint64_t> HighestMark(const std::string& path, std::uint32_t family, std::string_view key);

}  // namespace remora
