#include "store/reclaim/cleaner.h"

#include "store/base/check.h"
#include "store/format/memory/record.h"

namespace remora {
namespace {

// A segment is cleaned if it has at least so many dead bytes. With eviction, live records could be evicted
// instead of moved. So the cleaner then moves them only if that frees at least one byte for three moved ones.
constexpr std::uint64_t kWorthCleaning = kSegmentSize / 32;
constexpr std::uint64_t kWorthMoving = kSegmentSize / 4;

}  // namespace

bool Cleaner::Work(std::uint64_t bytes, TimePoint now, std::int64_t unix_ms) {
  // The expirer retires the victim if it finds it empty.
  if (victim_ && segments_[*victim_].retired != victim_retired_) victim_.reset();
  std::uint64_t left = LargeMover::kStep;
  if (!mover_.Copy(&left)) return true;
  for (std::uint64_t looked_at = 0; looked_at < bytes;) {
    if (const auto large = segments_.LargeInWay()) {
      if (!MoveLarge(*large, &left, unix_ms)) {
        segments_.CancelRun();
        return false;
      }
      if (mover_.is_busy()) return true;
      continue;
    }
    if (!victim_ && !PickVictim(now)) return false;
    const Segments::Segment& segment = segments_[*victim_];
    if (segment.live == 0 || next_ == segment.end) {
      segments_.Retire(*victim_, now);
      victim_.reset();
      ++segments_cleaned_;
      continue;
    }
    const Place place = log_.At(next_);
    if (log_.IsLive(place) && !expirer_.RemoveIfExpired(place, unix_ms) && !MoveOrEvict(place, now))
      return false;
    next_ += place.extent_bytes();
    looked_at += place.extent_bytes();
  }
  return true;
}

bool Cleaner::MoveLarge(std::uint64_t offset, std::uint64_t* left, std::int64_t unix_ms) {
  const Place place = log_.At(offset);
  if (!log_.IsLive(place)) return false;
  if (expirer_.RemoveIfExpired(place, unix_ms)) return true;
  if (!mover_.Begin(place)) return false;
  mover_.Copy(left);
  return true;
}

bool Cleaner::EmptyLarge(std::int64_t unix_ms) {
  std::uint64_t left = LargeMover::kStep;
  if (!mover_.Copy(&left)) return true;
  if (segments_.is_making_run()) {  // moves may take segments then
    emptied_.reset();
    return false;
  }
  if (emptied_) {
    segments_.WithholdLarge(*emptied_);  // holes in it may be free by now
  } else {
    emptied_ = segments_.BeginToEmptyLarge();
    if (!emptied_) return false;
  }
  while (const auto large = segments_.large().AnyIn({*emptied_, 1})) {
    if (!MoveLarge(*large, &left, unix_ms)) {
      emptied_.reset();
      return false;
    }
    if (mover_.is_busy()) return true;
  }
  emptied_.reset();
  ++segments_cleaned_;
  return true;
}

bool Cleaner::JoinHoles(std::uint64_t most, std::int64_t unix_ms) {
  std::uint64_t left = LargeMover::kStep;
  if (!mover_.Copy(&left)) return true;
  if (segments_.is_making_run()) return false;  // moves may take segments then
  const std::optional<std::uint64_t> place = segments_.BestJoin(most);
  return place && MoveLarge(*place, &left, unix_ms);
}

bool Cleaner::PickVictim(TimePoint now) {
  victim_ = segments_.Best(now, evictor_.is_on() ? kWorthMoving : kWorthCleaning);
  evicting_ = !victim_;
  if (evicting_) victim_ = evictor_.Next();
  if (!victim_) return false;
  victim_retired_ = segments_[*victim_].retired;
  next_ = segments_[*victim_].begin;
  return true;
}

bool Cleaner::MoveOrEvict(const Place& place, TimePoint now) {
  const std::string_view key = log_.Key(place);
  const std::uint64_t key_hash = HashKey(key);
  const std::optional<Index::Entry> entry = index_.Find(key, key_hash);
  REMORA_CHECK(entry.has_value() && entry->place == place);  // a live record is the one that the index names
  if (!evicting_) return Move(*entry, key, key_hash, now);
  if (evictor_.Stays(place, key_hash) && Move(*entry, key, key_hash, now)) return true;
  if (!evictor_.MayLeave(place)) {
    victim_.reset();  // a move would free nothing, without end; segments with dead bytes come first again
    return false;
  }
  return evictor_.Evict(key_hash, *entry, now) || Move(*entry, key, key_hash, now);
}

bool Cleaner::Move(const Index::Entry& entry, std::string_view key, std::uint64_t key_hash, TimePoint now) {
  const std::string_view value = log_.Value(entry.place);
  const std::uint64_t value_hash = HashValue(value.data(), value.size());
  log_.CheckIntact(entry.place, key_hash, value_hash);
  const std::optional<Place> to = log_.Append(ValueLog::Head::kMoves, key, value, now);
  if (!to) return false;
  log_.PublishMoved(entry.place, *to, key_hash, value_hash);
  index_.Replace(entry, *to);
  return true;
}

}  // namespace remora
