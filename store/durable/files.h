// The file system for one database of RocksDB. It differs from RocksDB's default in four rules:
//
//   F1  What fails because the system is short of something right now (WillPass), or a quota is used up, is
//       told as a full disk. That is the one error behind which RocksDB goes on by itself: it tries every few
//       seconds to move what is in memory to a table, and to begin another log.
//   F2  A log has a descriptor set aside for it, where there is none else.
//   F3  A log that cannot be made is there all the same, and fails each write. So RocksDB is told of it where
//       it expects that: one that fails to begin a log leaves references to its families behind, and takes
//       these for a mistake of its own, at its end. Nor does it begin another log where the first write to
//       one failed, as nothing is in memory then: see has_dead_log.
//   F4  SyncLogs, in place of DB::SyncWAL, which must not be called for a log that has failed a write: what
//       was written to it before may still have to be synced.
#pragma once

#include <memory>

namespace rocksdb {
class Env;
class Status;
}  // namespace rocksdb

namespace remora {

/// Thread Safety: all may be called from many threads.
class DurableFiles {
 public:
  DurableFiles();
  ~DurableFiles();  // after the database
  DurableFiles(const DurableFiles&) = delete;
  DurableFiles& operator=(const DurableFiles&) = delete;

  /// For DBOptions of the one database.
  rocksdb::Env* env() const { return env_.get(); }

  /// OK: the disk has all that the logs had when it was called, and their names. (Those that were made since
  /// the database was opened, and are not deleted: what the others had is in tables, which are synced.)
  rocksdb::Status SyncLogs();

  /// Returns whether the first write to the newest log failed. The writer must not give RocksDB another write
  /// then: RocksDB would believe that this log is good again.
  bool has_dead_log() const;

 private:
  class System;

  const std::shared_ptr<System> system_;
  const std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace remora
