// The archive of RocksDB's log files that a restart no longer needs, kept for slow change feeds.
//
// RocksDB moves these files to the folder "archive", and is told to delete none. Its own bounds are a time,
// and a number of files that it counts with the size of the largest. The functions here keep the newest
// files, as LogRetention says.
#pragma once

#include <memory>
#include <string>

#include "store/durable/tier_log/log_retention.h"

namespace rocksdb {
class EventListener;
}  // namespace rocksdb

namespace remora {

/// Deletes the oldest files in the archive of the database in `path`, and keeps those that `retention`
/// selects. A file that cannot be deleted stays until the next call. Any thread.
void TrimLogArchive(const std::string& path, const LogRetention& retention);

/// Deletes the damaged files of the archive. After a machine failure there may be some, since archived files
/// need not be synced. A feed that needs one then gets an error. Cost: it reads all archived files.
void DropDamagedLogs(const std::string& path);

/// Returns a listener that trims the archive after each flush, when RocksDB archives logs. The logs that a
/// flush archives may stay until the next flush.
std::shared_ptr<rocksdb::EventListener> LogArchiveTrimmer(const LogRetention& retention);

}  // namespace remora
