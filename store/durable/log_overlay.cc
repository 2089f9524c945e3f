#include "store/durable/log_overlay.h"

#include <rocksdb/comparator.h>
#include <rocksdb/db.h>
#include <rocksdb/utilities/write_batch_with_index.h>

#include <string_view>

#include "store/base/status_macros.h"
#include "store/durable/commit_log/group_codec.h"
#include "store/durable/commit_log/recovery.h"
#include "store/durable/completion_records.h"
#include "store/durable/format.h"
#include "store/durable/log_applier.h"
#include "store/durable/status.h"

namespace remora {
namespace {

constexpr std::string_view kOverlayPlace = "commit log";

rocksdb::Slice AsSlice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

template <typename T>
std::string_view AsBytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

/// Adds an entry in the form in which LogApplier writes it.
rocksdb::Status AddToOverlay(const LogEntry& entry, const LogOverlayOptions& options,
                             rocksdb::WriteBatchWithIndex* writes) {
  const rocksdb::Slice key = AsSlice(entry.key);
  rocksdb::Status status;
  if (entry.kind == LogEntryKind::kMeta) {
    status = entry.value.empty() ? writes->Delete(options.meta, key)
                                 : writes->Put(options.meta, key, AsSlice(entry.value));
  } else if (entry.kind == LogEntryKind::kDelete) {
    status = writes->Delete(options.entries, key);
  } else {
    std::string stored(AsBytes(StoredHeader{entry.version, entry.expiry_ms}));
    stored.append(entry.value);
    status = writes->Put(options.entries, key, stored);
  }
  if (!status.ok() || entry.request.client == 0) return status;
  const RememberedWrite outcome{entry.request.number, entry.version, entry.result};
  return writes->Put(options.meta, OutcomeKey(entry.request), AsSlice(AsBytes(outcome)));
}

}  // namespace

absl::StatusOr<LogOverlay> ReadLogOverlay(const LogOverlayOptions& options) {
  REMORA_ASSIGN_OR_RETURN(const Lsn applied_to, LogApplier::ReadAppliedTo(options.db, options.meta));
  LogOverlay overlay;
  overlay.writes =
      std::make_shared<rocksdb::WriteBatchWithIndex>(rocksdb::BytewiseComparator(),
                                                     /*reserved_bytes=*/0, /*overwrite_key=*/true);
  const auto add = [&](const LogGroup& group) {
    LogEntries entries = group.entries();
    LogEntry entry;
    rocksdb::Status status;
    while (status.ok() && entries.Next(&entry)) status = AddToOverlay(entry, options, overlay.writes.get());
    return ToStatus(status, kOverlayPlace);
  };
  REMORA_ASSIGN_OR_RETURN(const RecoveredLog log,
                          RecoverCommitLog({.dir = options.dir,
                                            .replay_from = applied_to,
                                            .is_of_this_boot = options.is_of_this_boot,
                                            .read_only = true},
                                           add));
  overlay.log_was_torn = log.was_torn;
  return overlay;
}

}  // namespace remora
