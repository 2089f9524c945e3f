// Recovery of a commit log after its process has ended or its machine has failed. It finds the end of
// the log, and distinguishes a torn end from damage.
//
//   C5a  The log ends before the first group that does not verify and follow. Recovery replays no
//        part of that group, and nothing behind it.
//   C5b  A group, before or behind the end, may state that the disk once had the log up to an LSN
//        beyond the end. Then the log is damaged (W3 of store/durable/wal/wal_recovery.h). The log is
//        also damaged if it ends before `replay_from`, since the caller knows that the log was
//        written up to there.
//   C5c  If the machine has not been restarted since, and a group verifies behind the end, the log is
//        damaged (W4). A process that ends may leave one torn group at the end, but no group behind
//        it.
//   C5d  Otherwise recovery removes the bytes behind the end, before any group is written. So a later
//        recovery does not find them.
//   C5e  Files before a gap in the sequence of files are removed: no reader gets past the gap. If the
//        log is damaged, all files stay as they are.
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
  /// LSN from which on groups are replayed. The log must hold it; see `from` of
  /// CommitLogReader::Open.
  Lsn replay_from{};
  /// True if the machine has not been restarted since the last write to the log.
  bool is_of_this_boot = false;
  /// Recovery changes no file.
  bool read_only = false;
};

/// State of a log that a writer may continue.
struct RecoveredLog {
  std::vector<LogFileInfo> held;    // the files up to the one that holds the end
  std::vector<LogFileInfo> spares;  // the files behind it, which hold no group
  Lsn end;
  std::uint64_t checksum = 0;  // of the last group
  bool is_begun = false;       // the file that holds the end has its header
  bool was_torn = false;       // groups stood behind the end (C5d)
};

/// Calls `replay` for the groups behind `replay_from` in their order, then applies C5b to C5d. If
/// `replay` fails, returns its status.
///
/// - DataLoss: the log is damaged.
/// - Unavailable, NotFound, PermissionDenied: a file cannot be read or removed, or its end cannot be
///   cleared.
absl::StatusOr<RecoveredLog> RecoverCommitLog(const LogRecoveryOptions& options, LogReplay replay);

}  // namespace remora
