// A moment of RocksDB behind the commit log: a snapshot, and the group with which its content ends. Scans
// begin with the latest one (C7 of tier_log.h).
#pragma once

#include <memory>

#include "absl/base/thread_annotations.h"
#include "store/base/mutex.h"
#include "store/durable/commit_log/log_reader.h"

namespace rocksdb {
class DB;
class Snapshot;
}  // namespace rocksdb

namespace remora {

struct LogMoment {
  std::shared_ptr<const rocksdb::Snapshot> snapshot;
  LogPosition position;
};

/// Keeps the latest snapshot of RocksDB, with its position in the log. Its owner keeps one only while there
/// are scans: when a snapshot is released, RocksDB compacts tables that had to keep something for it.
///
/// Thread safety: any thread may call any member, at any time.
class LatestLogMoment {
 public:
  /// Takes a snapshot. REQUIRES: `db` has exactly the groups up to `position`, and nobody writes to it until
  /// Set returns.
  void Set(rocksdb::DB* db, const LogPosition& position) ABSL_LOCKS_EXCLUDED(mutex_);
  /// Releases the snapshot.
  void Drop() ABSL_LOCKS_EXCLUDED(mutex_);
  /// Returns the moment that Set has made. Its snapshot is null if there is none, or Drop was called.
  LogMoment Get() const ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(mutex_);
    return latest_;
  }

 private:
  mutable Mutex mutex_;
  LogMoment latest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remora
