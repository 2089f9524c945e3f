// The file system for one database of RocksDB. It differs from RocksDB's default in four rules:
//
//   F1  A failure due to a temporary shortage of the system (WillPass), or to a used-up quota, is
//       reported to RocksDB as a full disk. That is the only error from which RocksDB recovers by itself.
//       It tries every few seconds to move its memtables to a table, and to begin another log.
//   F2  Some descriptors are reserved, so that a log can be made when no other descriptor is free.
//   F3  If a log cannot be made, RocksDB gets a file all the same, each write to which fails. So RocksDB
//       meets the error where it expects one. If RocksDB failed to begin a log, it would leave references
//       to its families behind, and fail a check of its own when it closes. RocksDB does not begin
//       another log after the first write to one failed, since nothing is in memory then: see
//       has_dead_log.
//   F4  SyncLogs replaces DB::SyncWAL. The latter must not be called for a log of which a write failed,
//       although earlier writes to that log may still need a sync.
#pragma once

#include <memory>

namespace rocksdb {
class Env;
class Status;
}  // namespace rocksdb

namespace remora {

/// Owns the file system. Thread Safety: any thread may call any member.
class DurableFiles {
 public:
  DurableFiles();
  ~DurableFiles();  // REQUIRES: the database is closed
  DurableFiles(const DurableFiles&) = delete;
  DurableFiles& operator=(const DurableFiles&) = delete;

  /// Returns the environment for the DBOptions of the database.
  rocksdb::Env* env() const { return env_.get(); }

  /// Makes the disk have all bytes that the logs had before the call, and the names of the logs. It
  /// syncs the logs that were made since the database was opened and that still exist. The content of
  /// all others is in tables, which are synced.
  rocksdb::Status SyncLogs();

  /// Returns whether the first write to the newest log failed. If so, the caller must not give RocksDB
  /// another write, since RocksDB would then take this log for a good one.
  bool has_dead_log() const;

 private:
  class System;

  const std::shared_ptr<System> system_;
  const std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace remora
