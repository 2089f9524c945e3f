#include "store/durable/tier_log/log_moment.h"

#include <rocksdb/db.h>
#include <rocksdb/snapshot.h>

#include <utility>

namespace remora {

void LatestLogMoment::Set(rocksdb::DB* db, const LogPosition& position) {
  const auto release = [db](const rocksdb::Snapshot* snapshot) { db->ReleaseSnapshot(snapshot); };
  LogMoment moment{.snapshot = {db->GetSnapshot(), release}, .position = position};
  const MutexLock lock(mutex_);
  std::swap(latest_, moment);  // the earlier snapshot is released behind the lock
}

void LatestLogMoment::Drop() {
  LogMoment moment;
  const MutexLock lock(mutex_);
  std::swap(latest_, moment);
}

}  // namespace remora
