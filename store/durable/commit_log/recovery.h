// Finds the end of a log that a process or a machine has left, and tells a torn end from damage.
//
//   C5a  The log ends before the first group that does not verify and follow: no part of it is
//        shown, and nothing behind it.
//   C5b  If a group anywhere behind the end says that more was on the disk by then, the log is
//        damaged (W3 of store/durable/wal_recovery.h). So it is if the log ends before
//        `replay_from`, which the caller knows to be written.
//   C5c  If the machine was not started since, and a group verifies behind the end, the log is
//        damaged (W4): a process that ends leaves a torn group at the end, and nothing behind it.
//   C5d  Else what stands behind the end is removed, before a group is written: a later recovery
//        does not see it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/durable/commit_log/format.h"
#include "store/durable/commit_log/group_codec.h"
#include "store/durable/commit_log/log_file.h"

namespace remora {

using LogReplay = absl::FunctionRef<absl::Status(const LogGroup& group)>;

struct LogRecoveryOptions {
  std::string dir;
  /// Groups from here on are shown, and must be there; as CommitLogReader::Open's.
  Lsn replay_from{};
  bool is_of_this_boot = false;
  /// Nothing is removed.
  bool read_only = false;
};

/// A log that may be continued.
struct RecoveredLog {
  std::vector<LogFileInfo> held;    // up to the one that holds the end
  std::vector<LogFileInfo> spares;  // behind it, not begun
  Lsn end;
  std::uint64_t checksum = 0;  // of the last group
  bool is_begun = false;       // the file that holds the end has its header
  bool was_torn = false;       // groups stood behind the end (C5d)
};

/// Shows the groups behind `replay_from` in their order, then applies C5b to C5d. DataLoss:
/// damaged. Unavailable, NotFound, PermissionDenied: files cannot be read, or not be cleaned. What
/// `replay` returns, if that is not OK.
absl::StatusOr<RecoveredLog> RecoverCommitLog(const LogRecoveryOptions& options, LogReplay replay);

}  // namespace remora
