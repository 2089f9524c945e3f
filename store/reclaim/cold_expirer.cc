#include "store/reclaim/cold_expirer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "store/format/memory/record.h"
#include "store/format/types/expiry.h"

namespace remora {
namespace {

// The pause between two passes is at least a minute, and so long that passes take at most a tenth of the
// time. While changes are watched, it is at least a second, and passes take at most a quarter of the time.
constexpr std::int64_t kColdSweepPauseMs = 60'000;
constexpr std::int64_t kPausePerPass = 9;
constexpr std::int64_t kWatchedColdSweepPauseMs = 1'000;
constexpr std::int64_t kWatchedPausePerPass = 3;

}  // namespace

bool ColdExpirer::Work(std::size_t entries, TimePoint now, std::int64_t unix_ms) {
  if (!expirer_.is_on()) return false;
  has_left_ = has_left_ && !unsynced_.empty();
  if (!pass_) {
    const std::optional<std::int64_t> due = next_due_ms();
    if (!due || *due > unix_ms) return false;
    pass_ = Pass{"", now};
    due_ms_ = Segments::kNoExpiry;
  }
  expirer_.Flush();  // so that the tier does not show keys that were removed from memory
  std::size_t looked_at = 0;
  const absl::Status status = tier_->ForEachFrom(pass_->next, [&](const DurableTier::Entry& entry) {
    if (looked_at++ == entries) {
      pass_->next = entry.key;
      return absl::CancelledError();
    }
    return Look(entry, unix_ms);
  });
  if (absl::IsCancelled(status)) return true;
  if (!status.ok()) due_ms_ = std::min(due_ms_, unix_ms);  // another pass looks at the rest of the tier
  End(now, unix_ms);
  return status.ok();
}

absl::Status ColdExpirer::Look(const DurableTier::Entry& entry, std::int64_t unix_ms) {
  if (entry.header.expiry_ms == 0) return absl::OkStatus();
  const std::uint64_t key_hash = HashKey(entry.key);
  if (!slots_.Has(entry.key, key_hash)) return absl::OkStatus();  // O3 of owned_slots.h
  // The expirer removes a record in memory. The loader handles keys that are not loaded yet.
  if (index_.Find(entry.key, key_hash) || !known_.Covers(entry.key)) return absl::OkStatus();
  if (unsynced_.Has(entry.key)) {  // the cold entry is not the pending write's
    has_left_ = true;
    return absl::OkStatus();
  }
  const std::optional<Index::ColdEntry> cold = index_.FindCold(key_hash);
  if (!cold) return absl::OkStatus();
  if (HasExpired(entry.header.expiry_ms, unix_ms)) {
    expirer_.RemoveCold(entry.key, *cold);
  } else {
    NoteExpiry(static_cast<std::int64_t>(entry.header.expiry_ms));
  }
  return absl::OkStatus();
}

void ColdExpirer::End(TimePoint now, std::int64_t unix_ms) {
  const std::int64_t took_ms = std::chrono::ceil<std::chrono::milliseconds>(now - pass_->began).count();
  not_before_ms_ = unix_ms + (watched_ ? std::max(kWatchedColdSweepPauseMs, kWatchedPausePerPass * took_ms)
                                       : std::max(kColdSweepPauseMs, kPausePerPass * took_ms));
  pass_.reset();
}

void ColdExpirer::SetWatched() {
  if (!std::exchange(watched_, true)) not_before_ms_ = 0;
}

std::optional<std::int64_t> ColdExpirer::next_due_ms() const {
  if (!expirer_.is_on()) return std::nullopt;
  if (pass_) return 0;
  if (tier_ == nullptr || due_ms_ == Segments::kNoExpiry) return std::nullopt;
  return std::max(due_ms_, not_before_ms_);
}

}  // namespace remora
