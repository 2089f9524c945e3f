// The file system for one database of RocksDB. It differs from RocksDB's default in four rules:
//
//   F1  A failure due to a temporary shortage of the system (WillPass), or to a used-up quota, is
//       reported to RocksDB as a full disk. That is the only error from which RocksDB recovers by itself.
//       It tries every few seconds to move its memtables to a table, and to begin another log.
//   F2  RocksDB gets no record for a log before PrepareWrite has made space for it. There is a spare file,
//       which is open and has space for the first record of the next log. If RocksDB begins a log, this file
//       takes the name of the log. So the first record of a log needs neither a descriptor nor more space.
//       That matters because RocksDB does not begin another log if this record fails: nothing is in memory
//       then. After the failure of a later record, RocksDB does so by itself.
//   F3  If a log cannot be made, RocksDB gets one without a file, and PrepareWrite makes the file. If RocksDB
//       failed to begin a log, it would leave references to its families behind, and fail a check of its
//       own when it closes.
//   F4  SyncLogs replaces DB::SyncWAL. The latter must not be called for a log of which a write failed,
//       although earlier writes to that log may still need a sync.
//   F5  While a thread has an OnlyCachedReads, its reads of tables never wait for the disk: the page cache
//       of the system has all bytes, or the read fails with TimedOut. So does one of more than 64 KiB.
//
// A file system that reserves no space (fallocate) cannot keep F2: see has_dead_log. Nor can the file, if the
// limit on file sizes falls below its reserved space.
#pragma once

#include <cstddef>
#include <memory>

namespace rocksdb {
class Env;
class Status;
}  // namespace rocksdb

namespace remora {

/// Asks for F5 for its thread, until its destructor runs. Not nested.
class OnlyCachedReads {
 public:
  OnlyCachedReads();
  ~OnlyCachedReads();
  OnlyCachedReads(const OnlyCachedReads&) = delete;
  OnlyCachedReads& operator=(const OnlyCachedReads&) = delete;
};

/// Owns the file system. Thread safety: any thread may call any member.
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

  /// Makes space for a write of a batch of `bytes` to a log (F2). REQUIRES: one thread calls PrepareWrite,
  /// writes to the database, and calls the functions below. Cost: a comparison, unless a log has begun or the
  /// batch is larger than earlier ones.
  ///
  /// If it fails, there is a shortage (WillPass, IsDiskFull), and the caller must not write. It returns OK
  /// after any other error, so that RocksDB meets that itself.
  rocksdb::Status PrepareWrite(std::size_t bytes);
  /// Notes that RocksDB has written a whole record to a log.
  void NoteWritten();

  /// Returns whether the first record of the newest log failed. If so, the caller must not give RocksDB
  /// another write, since RocksDB would then take this log for a good one.
  bool has_dead_log() const;

 private:
  class System;

  const std::shared_ptr<System> system_;
  const std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace remora
