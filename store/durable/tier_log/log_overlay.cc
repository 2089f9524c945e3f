#include "store/durable/tier_log/log_overlay.h"

#include <rocksdb/comparator.h>
#include <rocksdb/db.h>
#include <rocksdb/utilities/write_batch_with_index.h>

#include <string_view>

#include "store/base/status_macros.h"
#include "store/durable/commit_log/group_codec.h"
#include "store/durable/commit_log/recovery.h"
#include "store/durable/status.h"
#include "store/durable/tier_log/log_applier.h"
#include "store/durable/tier_log/log_batch.h"

namespace remora {
namespace {

constexpr std::string_view kOverlayPlace = "commit log";

/// Adds an entry, and the completion record of its request.
rocksdb::Status AddToOverlay(const LogEntry& entry, const LogOverlayOptions& options,
                             rocksdb::WriteBatchWithIndex* writes) {
  const LogFamilies families{.entries = options.entries, .meta = options.meta};
  const rocksdb::Status status = AddToBatch(entry, families, writes);
  if (!status.ok() || entry.request.client == 0) return status;
  const LoggedCompletion completion(entry);
  return AddToBatch(completion.entry(), families, writes);
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
