// Whether what a store's directory holds is whole. For a store that nobody has open.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace remora {

struct DataReport {
  std::uint64_t keys = 0;          // with those that have expired and are not removed yet
  std::uint64_t bytes = 0;         // of keys and values
  std::uint64_t expiring = 0;      // of the keys, those that expire at all
  std::uint64_t expired = 0;       // of these, those whose time is over
  std::uint64_t clients = 0;       // whose last writes are remembered
  std::uint64_t last_version = 0;  // of what is there
  /// The log ends torn, as a machine leaves it that fails: a store that opens it drops what is behind that,
  /// none of which was synced. Nothing of it is counted above. Not for the unfinished write of a process that
  /// was killed.
  bool log_is_torn = false;
};

/// Reads all of it and changes nothing: each block of each table, and each record of the log files, against
/// its checksum; each key, value and version against their bounds; what is remembered of clients. `unix_ms`:
/// the time. NotFound: there is no such directory. FailedPrecondition: it is no store's, or of a format that
/// this program does not know. AlreadyExists: a store has it open. DataLoss: it is damaged, and no store
/// would open it; the text says what was found first. PermissionDenied, Unavailable: it cannot be read.
/// Memory: that of the log files, up to 256 MiB.
absl::StatusOr<DataReport> CheckData(const std::string& data_dir, std::int64_t unix_ms);

}  // namespace remora
