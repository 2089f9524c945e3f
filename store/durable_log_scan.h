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

#include "absl/functional/function_ref.h"

namespace remora {

using LogRecordVisitor = absl::FunctionRef<void(const std::string& record)>;

/// Shows all records of a log whose every part is there and has its checksum. False: it could not be read to
/// its end.
bool ScanLog(const std::string& path, LogRecordVisitor visit);

/// Of all logs in a database's directory, the highest number of 8 bytes that was put to this key of a family;
/// 0: there is none. Nothing: they could not be read.
std::optional<std::uint64_t> HighestMark(const std::string& path, std::uint32_t family, std::string_view key);

}  // namespace remora
