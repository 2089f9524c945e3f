// The deleted keys that RocksDB may still have, because the applier has not reached their deletions. A
// deleted key leaves memory at once, so a read of RocksDB has to ask here first (C6 of tier_log.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "store/base/mutex.h"
#include "store/durable/commit_log/format.h"

namespace remora {

/// Knows the keys whose deletion is logged and not applied.
///
/// Thread safety: one thread at a time may call Note; any thread may call Has, at any time.
class UnappliedDeletes {
 public:
  /// Notes the keys that a group deletes, and drops the keys that it puts, and those whose deletion is
  /// applied. `lsn`: the end of the group. `applied_to`: the log up to there is applied.
  /// Returns the number of deletions that it has noted and not dropped.
  std::size_t Note(std::span<const LogEntry> entries, Lsn lsn, Lsn applied_to);
  bool empty() const { return !has_any_.load(std::memory_order_relaxed); }

  /// Returns whether the key was deleted, and RocksDB may still have it: the log is applied up to
  /// `applied_to`, or further.
  bool Has(std::string_view key, Lsn applied_to) const;

 private:
  std::atomic<bool> has_any_ = false;
  mutable Mutex mutex_;
  absl::flat_hash_map<std::string, Lsn> keys_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::pair<Lsn, std::string>> in_order_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remora
