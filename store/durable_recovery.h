// Opening the durable tier's database where the machine may have failed under it.
//
// RocksDB replays its log files. The last record of a log may be incomplete: the process was killed. That is
// all that it forgives (kTolerateCorruptedTailRecords). But a machine that fails may also leave holes in what
// it had not been asked to sync, for the system writes pages in any order; and that is a torn end, as much as
// half a record is. A disk that fails may leave the same holes in what was synced, and behind them
// acknowledged writes. To tell the two apart, each group that is logged says how far the log was synced by
// then, if that has changed (SyncedMark). So:
//   W1 A log that has nothing but an incomplete record at its end is replayed.
//   W2 One that is damaged elsewhere is replayed up to there, unless a mark that is readable anywhere in it
//      says that more was synced. What is dropped was not synced, as far as can be known.
//   W3 If a mark says so, or the tables are ahead of that, the database is not opened.
// The last sync before the machine failed has no mark behind it, unless a group came later. So a disk that
// loses what it said that it had loses the writes of that last sync, and nobody can tell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
class Status;
struct ColumnFamilyDescriptor;
struct DBOptions;
}  // namespace rocksdb

namespace remora {

/// How far a log is synced, in RocksDB's sequence numbers, as the meta family has it.
struct SyncedMark {
  static constexpr char kKey[] = "synced";
  std::uint64_t sequence = 0;
};

/// As rocksdb::DB::Open, by W1 to W3. `meta`: which family has the mark. If OK, `handles` are to be deleted
/// before `db`, both by the caller, and `dropped` says whether W2 was so.
rocksdb::Status OpenDatabase(rocksdb::DBOptions options, const std::string& path,
                             const std::vector<rocksdb::ColumnFamilyDescriptor>& families, std::size_t meta,
                             std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::DB** db,
                             bool* dropped);

}  // namespace remora
