// The changes of a durable tier with a commit log: its groups, read again.
//
//   C8b  The sequence of a change is the LSN of its key. So a place behind a change, or behind a group, is
//   one
//        byte behind that; and the order of the log is the order of sequences, across restarts.
//   C8c  A feed that is not told otherwise has shown all changes before its position: a write that is not in
//        the log has a mark there (kGapKey), which ends the feed with OutOfRange.
//   C8d  Each opening is logged before all that it writes, with the end of the log that it found. A place
//   that
//        an earlier opening has shown behind that end was lost.
//
// A log that is new knows no openings: LSNs begin anew. So what was noted with another log is no place in it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/durable/change_log.h"
#include "store/durable/commit_log/commit_log.h"
#include "store/durable/format.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
}  // namespace rocksdb

namespace remora {

/// Keys of the meta family. The mark of a write that is not in the log; its value is one byte.
inline constexpr std::string_view kGapKey = "log_gap";
/// And, with the LSN that an opening found behind it, the last byte last: Opening.
inline constexpr std::string_view kLogOpeningPrefix = "log_opening";

std::string LogOpeningKey(Lsn found);

/// In their order. DataLoss, Unavailable.
absl::StatusOr<std::vector<Opening>> ReadLogOpenings(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* meta);

/// A feed from sequence `from` on; finds the place as ReadWalChanges does. `end` of its Next: the end of a
/// group. OutOfRange: what begins there is not kept any more. `log` outlives the feed.
absl::StatusOr<std::unique_ptr<ChangeLog>> ReadLogChanges(const CommitLog& log, std::uint64_t from);

}  // namespace remora
