// Flushes of RocksDB, on a disk that may become full.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>

#include "absl/status/status.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
class EventListener;
}  // namespace rocksdb

namespace remora {

/// Flushes memtables of one database to tables. Errors of its flushes stop RocksDB; the most frequent of them
/// is a full disk. RocksDB by itself would go on only once the disk has as much space as a write buffer may
/// take, and would flush beside its caller. With a Flusher, it goes on when ResumeIfStopped is called.
///
/// A compaction that fails stops nothing: RocksDB tries it again each second.
///
/// Thread Safety: one thread at a time calls ResumeIfStopped and Flush.
class Flusher {
 public:
  Flusher();
  /// Returns what has to be in DBOptions::listeners before the database is opened.
  std::shared_ptr<rocksdb::EventListener> listener() const;
  /// Lets RocksDB flush again if an error has stopped it. It resumes nothing that runs: the Resume of RocksDB
  /// 7.8 flushes then, too, and waits for compactions, even for one that the full disk keeps failing.
  void ResumeIfStopped(rocksdb::DB* db);
  /// Has tables take what is in the memtables, and waits until they have it. REQUIRES: no other call flushes
  /// memtables of these families, and none becomes full.
  ///
  /// - Unavailable: the flush has failed, or RocksDB is stopped.
  absl::Status Flush(rocksdb::DB* db, std::initializer_list<rocksdb::ColumnFamilyHandle*> families) const;

 private:
  class Listener;

  std::shared_ptr<Listener> listener_;
  std::uint64_t resumed_ = 0;  // errors before the last call of DB::Resume that returned OK
};

}  // namespace remora
