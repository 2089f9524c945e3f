// RocksDB's log files that a restart does not need any more, kept for change feeds that are behind.
//
// RocksDB moves them to the folder "archive", and is told to delete none: its own bounds are a time, and a
// number of files as large as the largest one. Here the newest are kept, as many as have so many bytes.
#pragma once

#include <memory>
#include <string>

#include "store/durable/log_retention.h"

namespace rocksdb {
class EventListener;
}  // namespace rocksdb

namespace remora {

/// Deletes the others of the database in `path`, the oldest first. What cannot be deleted stays until the
/// next time. Any thread.
void TrimLogArchive(const std::string& path, const LogRetention& retention);

/// Deletes those that are damaged: after the machine has failed, as they need not have been synced. What a
/// feed misses then, it is told. Reads all of them.
void DropDamagedLogs(const std::string& path);

/// Trims it after each flush, which is when logs come to be archived: the last ones may stay until the next.
std::shared_ptr<rocksdb::EventListener> LogArchiveTrimmer(const LogRetention& retention);

}  // namespace remora
