// Change feed of a durable tier with a commit log. It reads the groups of the log.
//
//   C8b  The sequence of a change is the LSN of its key. So the position behind a change, or behind a
//        group, is one byte behind it. The order of the log is the order of sequences, across
//        restarts.
//   C8c  Unless a feed gets an error, it has returned all changes before its position. A write that
//        is not in the log has a mark there (kGapKey), which ends the feed with OutOfRange.
//   C8d  Each opening logs itself, and the end of the log that it found, before any other write. A
//        position behind that end, which an earlier opening returned, is lost.
//
// A new log knows no openings, and its LSNs begin anew. So a position noted with another log is no
// position in it.
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

/// Key in the meta family of the mark for a write that is not in the log. Its value is one byte.
inline constexpr std::string_view kGapKey = "log_gap";
/// Likewise, of the mark where slots left the store. It ends feeds, too, as those of the next owner may be
/// ahead.
inline constexpr std::string_view kSlotsKey = "log_slots";
/// Likewise, of the mark that begins a group of records that came from another store. They have its versions,
/// and feeds do not show them.
inline constexpr std::string_view kCopiedKey = "log_copied";
/// Expiry of the entry of a deletion that feeds do not show.
inline constexpr std::uint64_t kForgottenMark = 1;
/// Prefix of the keys in the meta family under which each Opening is stored.
inline constexpr std::string_view kLogOpeningPrefix = "log_opening";

/// Returns the key of an opening: the prefix, then the LSN that the opening found, big-endian.
std::string LogOpeningKey(Lsn found);

/// Returns the openings in their order.
///
/// - DataLoss: an opening has the wrong size.
/// - Unavailable: RocksDB cannot read them.
absl::StatusOr<std::vector<Opening>> ReadLogOpenings(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* meta);

/// Returns a feed from sequence `from` on. It may read a whole log file to find the position. The `end`
/// passed to the feed's Next is the end of a group. REQUIRES: `log` outlives the feed.
///
/// - OutOfRange: the change at `from` is no longer kept.
/// - NotFound, PermissionDenied, Unavailable: the log cannot be read.
absl::StatusOr<std::unique_ptr<ChangeLog>> ReadLogChanges(const CommitLog& log, std::uint64_t from);

}  // namespace remora
