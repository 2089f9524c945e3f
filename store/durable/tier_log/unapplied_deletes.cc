#include "store/durable/tier_log/unapplied_deletes.h"

#include "store/base/absl_view.h"

namespace remora {

std::size_t UnappliedDeletes::Note(std::span<const LogEntry> entries, Lsn lsn, Lsn applied_to) {
  const MutexLock lock(mutex_);
  while (!in_order_.empty() && in_order_.front().first <= applied_to) {
    const auto& [at, key] = in_order_.front();
    const auto found = keys_.find(key);
    if (found != keys_.end() && found->second == at) keys_.erase(found);
    in_order_.pop_front();
  }
  for (const LogEntry& entry : entries) {
    if (entry.kind == LogEntryKind::kPut) keys_.erase(AbslView(entry.key));
    if (entry.kind != LogEntryKind::kDelete) continue;
    keys_[AbslView(entry.key)] = lsn;
    in_order_.emplace_back(lsn, entry.key);
  }
  // Release: RocksDB has the deletions that are dropped here (see Has).
  has_any_.store(!keys_.empty(), std::memory_order_release);
  return in_order_.size();
}

bool UnappliedDeletes::Has(std::string_view key, Lsn applied_to) const {
  // Acquire: this thread's next reads of RocksDB see the deletions that were applied and dropped.
  if (!has_any_.load(std::memory_order_acquire)) return false;
  const MutexLock lock(mutex_);
  const auto found = keys_.find(AbslView(key));
  return found != keys_.end() && found->second > applied_to;
}

}  // namespace remora
