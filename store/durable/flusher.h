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

/// The actor that resumes RocksDB after an error has stopped it.
enum class ResumedBy : std::uint8_t {
  kRocksdb = 1,  // once the disk has as much space as a write buffer may take
  kFlusher = 2,  // Flusher::ResumeIfStopped
};

/// Flushes memtables of one database to tables, also after a full disk or another error has stopped RocksDB.
///
/// Thread safety: any thread may call any member, but only one at a time ResumeIfStopped.
class Flusher {
 public:
  /// With kFlusher, a compaction that fails stops nothing: RocksDB tries it again each second.
  explicit Flusher(ResumedBy resumed_by);
  /// Returns a part of this that has to be in DBOptions::listeners before the database is opened.
  std::shared_ptr<rocksdb::EventListener> listener() const;
  /// Lets RocksDB flush again if an error has stopped it. It resumes nothing that runs: the Resume of RocksDB
  /// 7.8 flushes then, too, and waits for compactions, even for one that the full disk keeps failing.
  /// REQUIRES: kFlusher.
  void ResumeIfStopped(rocksdb::DB* db);
  /// Flushes what is in the memtables, and waits until tables have it. DB::Flush of RocksDB 7.8 does not wait
  /// any more once an error has stopped RocksDB.
  ///
  /// - Unavailable: the flush has failed, or RocksDB is stopped.
  absl::Status Flush(rocksdb::DB* db, std::initializer_list<rocksdb::ColumnFamilyHandle*> families) const;

 private:
  class Listener;

  std::shared_ptr<Listener> listener_;
  std::uint64_t resumed_ = 0;  // errors before the last call of DB::Resume that returned OK
};

}  // namespace remora
