// Change feed of a durable tier without a commit log. It reads RocksDB's log files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/durable/change_log.h"
#include "store/durable/format.h"
#include "store/format/types/change.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
class Status;
class WriteBatch;
}  // namespace rocksdb

namespace remora {

/// Returns a feed of the log files from sequence `from` on. `place` names the data directory in
/// errors. `gaps` says that some of the writes may have skipped the log.
///
/// - OutOfRange: the change at `from` is no longer kept.
/// - DataLoss, Unavailable: the log files cannot be read.
///
/// Cost: it may read a whole log file to find the position, which takes up to a tenth of a second.
/// REQUIRES: the log has the write with sequence `from`, or a later one.
absl::StatusOr<std::unique_ptr<ChangeLog>> ReadWalChanges(rocksdb::DB& db, const std::string& place,
                                                          std::uint64_t from, bool gaps);

/// Appends the changes of keys in a group of writes to `changes`; they point into `group`. `sequence`
/// is that of the first write of the group. Sets *end to the sequence behind the last write.
///
/// - Corruption: no store writes such a group.
rocksdb::Status ReadChanges(const rocksdb::WriteBatch& group, std::uint64_t sequence,
                            std::vector<Change>* changes, std::uint64_t* end);

/// Adds this incarnation to the list in the family `meta`, and returns the list. The addition survives
/// a crash if any later write does.
absl::StatusOr<std::vector<Opening>> AddOpening(rocksdb::DB& db, rocksdb::ColumnFamilyHandle& meta,
                                                const std::string& place, std::uint64_t incarnation);

}  // namespace remora
