// The form in which RocksDB has the entries of the commit log: store/durable/format.h says what the values
// of its families are.
#pragma once

#include <string>
#include <string_view>

#include "store/durable/commit_log/format.h"
#include "store/durable/completion_records.h"
#include "store/durable/format.h"

namespace rocksdb {
class ColumnFamilyHandle;
class Status;
class WriteBatchBase;
}  // namespace rocksdb

namespace remora {

struct LogFamilies {
  rocksdb::ColumnFamilyHandle* entries = nullptr;  // of kPut and kDelete
  rocksdb::ColumnFamilyHandle* meta = nullptr;     // of kMeta
};

/// Adds what the entry does to the batch, without the completion record of its request.
rocksdb::Status AddToBatch(const LogEntry& entry, const LogFamilies& families,
                           rocksdb::WriteBatchBase* batch);

/// The completion record of the request of an entry, which is an entry of kind kMeta itself.
struct LoggedCompletion {
  /// REQUIRES: the entry has a request.
  explicit LoggedCompletion(const LogEntry& entry)
      : key(CompletionKey(entry.request)), value{entry.request.number, entry.version, entry.result} {}

  /// Returns a view, valid as long as this object stays in its place.
  LogEntry entry() const {
    return {.kind = LogEntryKind::kMeta,
            .key = key,
            .value = std::string_view(reinterpret_cast<const char*>(&value), sizeof(value))};
  }

  std::string key;
  CompletionRecord value;
};

}  // namespace remora
