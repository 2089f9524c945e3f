// Check of a data directory that no store has open.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace remora {

struct DataReport {
  std::uint64_t keys = 0;          // number of keys, including expired ones that are not removed yet
  std::uint64_t bytes = 0;         // bytes of keys and values
  std::uint64_t expiring = 0;      // number of keys that have an expiry
  std::uint64_t expired = 0;       // number of keys whose expiry has passed
  std::uint64_t clients = 0;       // number of clients with completion records
  std::uint64_t last_version = 0;  // highest version of a key
  /// The log has the torn end that a failed machine leaves. A store that opens the directory drops the
  /// data behind it, none of which was synced. The counts above do not include that data. The unfinished
  /// write of a killed process does not count as torn.
  bool log_is_torn = false;
};

/// Checks a data directory, and changes nothing. It compares each block of each table, and each record of
/// the log files, with its checksum. It also checks the bounds of each key, value and version, and the
/// completion records. `unix_ms` is the current time.
///
/// - NotFound: the directory does not exist.
/// - FailedPrecondition: it is no data directory, or its format is unknown to this program.
/// - AlreadyExists: a store has it open.
/// - DataLoss: it is damaged, and no store would open it. The text names the first fault found.
/// - PermissionDenied, Unavailable: it cannot be read.
///
/// Cost: memory of the size of the log files, up to 256 MiB, and with a commit log as much as it has bytes
/// that are not applied.
absl::StatusOr<DataReport> CheckData(const std::string& data_dir, std::int64_t unix_ms);

}  // namespace remora
