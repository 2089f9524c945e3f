// The changes of a durable tier without a commit log: RocksDB's log files, read again.
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

/// A feed of the log files from sequence `from` on. Finds the place in a log file, of which it may have to
/// read all: up to a tenth of a second. `gaps`: some of the writes may have skipped the log. OutOfRange: what
/// begins there is not kept any more. REQUIRES: `from`, or something behind it, was written to the log.
absl::StatusOr<std::unique_ptr<ChangeLog>> ReadWalChanges(rocksdb::DB& db, const std::string& place,
                                                          std::uint64_t from, bool gaps);

/// Takes the changes of keys out of a group of writes, whose first has this sequence. They point into it.
/// `end`: the sequence behind its last write. Corruption: it is not a group of a store's.
rocksdb::Status ReadChanges(const rocksdb::WriteBatch& group, std::uint64_t sequence,
                            std::vector<Change>* changes, std::uint64_t* end);

/// Adds this incarnation to those that are kept in the family `meta`, and returns all. Survives what the
/// writes do that come later.
absl::StatusOr<std::vector<Opening>> AddOpening(rocksdb::DB& db, rocksdb::ColumnFamilyHandle& meta,
                                                const std::string& place, std::uint64_t incarnation);

}  // namespace remora
