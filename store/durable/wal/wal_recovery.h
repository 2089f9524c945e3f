// Opening of the durable tier's database after the machine may have failed.
//
// RocksDB replays its log files. If a process is killed, the last record of a log may be incomplete. A
// process cannot leave any other fault, in whatever way it ends, since the page cache has every byte
// that it wrote.
//
// But a machine that fails may also leave holes in the bytes that were not synced, since the system
// writes pages in any order. These holes are a torn end, just as half a record is. A disk that fails may
// leave the same holes, with acknowledged writes behind them. Two facts distinguish the cases. The data
// directory says during which start of the machine the log was written (DataDir::is_of_this_boot). And
// each logged group says how far the log was synced by then, if that has changed (SyncedMark). So:
//
//   W1 If the only fault of a log is an incomplete record at its end, the log is replayed.
//   W2 If a log is damaged elsewhere, and the machine was restarted since it was written, the log is
//      replayed up to the damage, unless W3 forbids it. As far as can be known, the dropped writes were
//      not synced.
//   W3 If a readable mark anywhere in the logs says that more was synced, or the tables are ahead of the
//      damage, the database is not opened.
//   W4 If a log is damaged elsewhere, and the machine was not restarted since, the database is not
//      opened: a disk or a person has caused the damage.
//
// The last sync before the machine failed has no mark behind it, unless a group came later. So if a disk
// loses data that it reported as synced, the loss of that last sync is not detected. Nor is the loss of a
// log's end, if the rest ends with a whole record.
//
// A drawback of W4: if a file system fails without its machine (a device was pulled, a file server was
// restarted), that counts as damage. An operator who knows better removes the file that says which start
// it was.
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

/// Value in the meta family that says how far the log was synced, as a sequence number of RocksDB.
struct SyncedMark {
  static constexpr char kKey[] = "synced";
  std::uint64_t sequence = 0;
};

struct RecoveryOptions {
  std::size_t meta = 0;  // index of the family that has the mark
  /// True if the machine has not been restarted since the log was written.
  bool is_of_this_boot = false;
  /// Path of the file that an operator may remove to override W4. Errors name it.
  std::string boot_file;
  /// Opens the database as rocksdb::DB::OpenForReadOnly does. W1 to W4 hold as well, and no file is changed.
  bool read_only = false;
};

/// Opens the database as rocksdb::DB::Open does, by W1 to W4. Sets *torn to the logs to which W2 applied;
/// some of them may no longer exist. The caller owns `*handles` and `*db`, and deletes the handles first.
///
/// - Corruption: W3 or W4, or RocksDB found damage.
/// - IOError: a log cannot be read. Other errors are those of rocksdb::DB::Open.
rocksdb::Status OpenDatabase(rocksdb::DBOptions options, const std::string& path,
                             const std::vector<rocksdb::ColumnFamilyDescriptor>& families,
                             const RecoveryOptions& recovery,
                             std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::DB** db,
                             std::vector<std::string>* torn);

}  // namespace remora
