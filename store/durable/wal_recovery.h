// Opening the durable tier's database where the machine may have failed under it.
//
// RocksDB replays its log files. The last record of a log may be incomplete: the process was killed. That is
// all that a process can leave which ends, however it ends: what it has written is with the system, from the
// log's beginning up to some byte. But a machine that fails may also leave holes in what it had not been
// asked to sync, for the system writes pages in any order; and that is a torn end, as much as half a record
// is. A disk that fails may leave the same holes, and behind them acknowledged writes. To tell them apart,
// the data directory knows with which start of the machine the log was written (DataDir::is_of_this_boot);
// and each group that is logged says how far the log was synced by then, if that has changed (SyncedMark).
// So:
//   W1 A log that has nothing but an incomplete record at its end is replayed.
//   W2 One that is damaged elsewhere is replayed up to there, if the machine was started since it was
//   written,
//      unless a mark that is readable anywhere in it says that more was synced. What is dropped was not
//      synced, as far as can be known.
//   W3 If a mark says so, or the tables are ahead of that, the database is not opened.
//   W4 Nor is it if the machine was not started since: a disk, or a hand, did that.
// The last sync before the machine failed has no mark behind it, unless a group came later. So a disk that
// loses what it said that it had loses the writes of that last sync, and nobody can tell. Nor can anybody
// where the end of a log is missing that stood behind a whole record.
//
// Against W4: a file system that fails without its machine (a device that was pulled, a server of files that
// was restarted) is taken for damage. Who knows better removes the file that says which start it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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

struct RecoveryOptions {
  std::size_t meta = 0;  // which family has the mark
  /// The machine was not started since the log was written.
  bool is_of_this_boot = false;
  /// To remove, for who knows better: for people.
  std::string boot_file;
  /// As rocksdb::DB::OpenForReadOnly: the same is replayed, and refused, and nothing is changed.
  bool read_only = false;
};

/// As rocksdb::DB::Open, by W1 to W4. If OK, `handles` are to be deleted before `db`, both by the caller, and
/// `torn` are the logs for which W2 was so; some may be gone.
rocksdb::Status OpenDatabase(rocksdb::DBOptions options, const std::string& path,
                             const std::vector<rocksdb::ColumnFamilyDescriptor>& families,
                             const RecoveryOptions& recovery,
                             std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::DB** db,
                             std::vector<std::string>* torn);

}  // namespace remora
