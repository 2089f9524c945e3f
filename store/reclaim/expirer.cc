#include "store/reclaim/expirer.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "store/base/check.h"
#include "store/format/memory/record.h"
#include "store/format/types/expiry.h"

namespace remora {
namespace {

// The pause between two sweeps of a segment is so long for each segment with a record that will expire. So
// the expirer sweeps at most 250 segments in a second, however the expiries of records are mixed. While a
// client watches changes, it sweeps at most 1000.
constexpr std::int64_t kPauseMsPerSegment = 4;
constexpr std::int64_t kWatchedPauseMsPerSegment = 1;

// Most deletions in one write to the durable tier.
constexpr std::size_t kMaxUnflushed = 1024;

}  // namespace

bool Expirer::Work(std::uint64_t bytes, Pace pace, TimePoint now, std::int64_t unix_ms) {
  if (!is_on()) return false;
  // If the segment was retired meanwhile, it may now hold other records, or buckets.
  if (sweep_ && segments_[sweep_->segment].retired != sweep_->retired) sweep_.reset();
  has_left_ = has_left_ && !unsynced_.empty();
  if (!lost_.empty() && again_ms_ <= unix_ms) {
    again_ms_ = Segments::NextTick(unix_ms);
    DeleteAgain();
  }
  if (!sweep_ && !Begin(pace, unix_ms)) return false;
  for (std::uint64_t looked_at = 0; looked_at < bytes;) {
    const std::optional<Place> next = log_.FirstFrom(sweep_->segment, sweep_->next);
    if (!next) {
      End(now);
      return true;
    }
    const Place place = *next;
    // An expired record that stays has an unsynced write, which will soon replace or delete it.
    if (log_.IsLive(place) && !RemoveIfExpired(place, unix_ms)) {
      const std::int64_t expiry_ms = Segments::ExpiryOf(log_.Header(place));
      if (HasExpired(log_.Header(place).expiry_ms, unix_ms)) {
        has_left_ = true;
      } else {
        sweep_->expiry_ms = std::min(sweep_->expiry_ms, expiry_ms);
      }
    }
    sweep_->next = place.offset_bytes() + place.extent_bytes();
    looked_at += place.extent_bytes();
  }
  return true;
}

bool Expirer::Begin(Pace pace, std::int64_t unix_ms) {
  std::optional<SegmentNumber> segment;
  if (!lost_.empty() && pace == Pace::kDue) return false;  // the tier would not take these deletions either
  if (const auto due = segments_.first_due(); due && due->first <= unix_ms) {
    segment = due->second;
  } else if (pace == Pace::kHurry) {
    segment = segments_.AnyExpired(unix_ms);
  }
  if (!segment) return false;
  const std::int64_t pause = (watched_ ? kWatchedPauseMsPerSegment : kPauseMsPerSegment) *
                             static_cast<std::int64_t>(segments_.expiring_count());
  // From here on, NoteExpiry counts for the next sweep.
  segments_.ForgetExpiry(*segment, std::max(Segments::NextTick(unix_ms), unix_ms + pause));
  sweep_ = {*segment, segments_[*segment].retired, segments_[*segment].begin};
  return true;
}

void Expirer::End(TimePoint now) {
  const Segments::Segment& segment = segments_[sweep_->segment];
  if (sweep_->expiry_ms != Segments::kNoExpiry) segments_.NoteExpiry(segment.begin, sweep_->expiry_ms);
  if (segment.use == Segments::Use::kLog && segment.live == 0) segments_.Retire(sweep_->segment, now);
  sweep_.reset();
}

std::optional<std::int64_t> Expirer::next_due_ms() const {
  if (!is_on()) return std::nullopt;
  if (sweep_) return 0;
  if (!lost_.empty()) return again_ms_;
  const auto due = segments_.first_due();
  if (!due) return std::nullopt;
  return due->first;
}

bool Expirer::RemoveIfExpired(const Place& place, std::int64_t unix_ms) {
  if (!HasExpired(log_.Header(place).expiry_ms, unix_ms) || !is_on()) return false;
  const std::string_view key = log_.Key(place);
  if (unsynced_.Has(key)) return false;
  const std::uint64_t key_hash = HashKey(key);
  const std::optional<Index::Entry> entry = index_.Find(key, key_hash);
  REMORA_CHECK(entry.has_value() && entry->place == place);  // a live record is the one that the index names
  // The deletion may reach the tier later, or never: the record there has expired, and a restart drops it.
  // But it must not reach the tier after a later write of the same key. So it goes into the tier's batch now,
  // before any such write.
  if (tier_ != nullptr) tier_->Delete(key);
  if (changes_ != nullptr) changes_->Append({.kind = ChangeKind::kDelete, .key = key});
  if (ordered_ != nullptr) ordered_->NoteRemove(place);
  log_.Kill(place);  // I5
  index_.Erase(key_hash, *entry);
  if (ordered_ != nullptr) ordered_->FinishRemove();
  Removed(key);
  return true;
}

void Expirer::RemoveCold(std::string_view key, const Index::ColdEntry& entry) {
  // The key is gone, and the tier has not taken its deletion: the entry is that of another key.
  if (ordered_ != nullptr && !ordered_->NoteExpiredCold(key)) return;
  tier_->Delete(key);
  index_.EraseCold(entry);
  if (ordered_ != nullptr) ordered_->FinishRemove();
  Removed(key);
}

void Expirer::RemoveStored(std::string_view key) {
  tier_->Delete(key);
  Removed(key);
}

void Expirer::Removed(std::string_view key) {
  ++removed_;
  if (tier_ == nullptr) return;
  unflushed_.emplace_back(key);
  if (unflushed_.size() == kMaxUnflushed) Flush();
}

void Expirer::Flush() {
  if (unflushed_.empty()) return;
  // If the write fails, the tier keeps the expired records, which does no harm (RemoveIfExpired), and it
  // reports the failure to the next write of a client. But watches must see the deletions once the disk takes
  // writes again, so the expirer repeats them.
  if (!tier_->Write().ok()) lost_.insert(lost_.end(), unflushed_.begin(), unflushed_.end());
  unflushed_.clear();
}

void Expirer::DeleteAgain() {
  for (std::string& key : std::exchange(lost_, {})) {
    // If the key was written again, watches see that write instead.
    const std::uint64_t key_hash = HashKey(key);
    if (index_.Find(key, key_hash) || index_.FindCold(key_hash) || unsynced_.Has(key)) continue;
    tier_->Delete(key);
    unflushed_.push_back(std::move(key));
  }
  Flush();
}

}  // namespace remora
