// What was written to a durable tier, in its order: its log files, read again (store/format/types/change.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/durable/format.h"
#include "store/format/types/change.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
class Status;
class WriteBatch;
}  // namespace rocksdb

namespace remora {

/// Goes through them. Thread Safety: none; while others write. REQUIRES: does not outlive the database.
class ChangeLog {
 public:
  /// From sequence `from` on. Finds the place in a log file, of which it may have to read all: up to a tenth
  /// of a second. `gaps`: some of the writes may have skipped the log. OutOfRange: what begins there is not
  /// kept any more. REQUIRES: `from`, or something behind it, was written to the log.
  static absl::StatusOr<std::unique_ptr<ChangeLog>> Open(rocksdb::DB& db, const std::string& place,
                                                         std::uint64_t from, bool gaps);
  ~ChangeLog();
  ChangeLog(const ChangeLog&) = delete;
  ChangeLog& operator=(const ChangeLog&) = delete;

  /// kChange: *change, until the next step. kNone: none up to sequence `end` that was not shown. kLost: go on
  /// with another one that is opened at position(); log files come and go. DataLoss: not a log of a store's.
  enum class Step : std::uint8_t { kChange = 1, kNone = 2, kLost = 3 };
  absl::StatusOr<Step> Next(std::uint64_t end, Change* change);

  /// All that is before this was shown, or is no change of a key.
  std::uint64_t position() const;

 private:
  struct Rep;
  explicit ChangeLog(std::unique_ptr<Rep> rep);

  const std::unique_ptr<Rep> rep_;
};

/// Takes the changes of keys out of a group of writes, whose first has this sequence. They point into it.
/// `end`: the sequence behind its last write. Corruption: it is not a group of a store's.
rocksdb::Status ReadChanges(const rocksdb::WriteBatch& group, std::uint64_t sequence,
                            std::vector<Change>* changes, std::uint64_t* end);

/// Adds this incarnation to those that are kept in the family `meta`, and returns all. Survives what the
/// writes do that come later.
absl::StatusOr<std::vector<Opening>> AddOpening(rocksdb::DB& db, rocksdb::ColumnFamilyHandle& meta,
                                                const std::string& place, std::uint64_t incarnation);

/// Where a feed goes on that was at `place`: the sequence of what comes next. OutOfRange: what it has shown
/// is not what is before that, or nobody knows. InvalidArgument: it cannot have been there. `end`: of what is
/// written, the last sequence.
absl::StatusOr<std::uint64_t> Continue(const std::vector<Opening>& openings, const ChangePlace& place,
                                       std::uint64_t end);

}  // namespace remora
