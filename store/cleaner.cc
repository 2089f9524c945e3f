#include "store/cleaner.h"

#include "store/base/check.h"
#include "store/format/record.h"

namespace remora {

bool Cleaner::Work(std::uint64_t bytes, TimePoint now, std::int64_t unix_ms) {
  // The sweeper may have found it empty.
  if (victim_ && segments_[*victim_].retired != victim_retired_) victim_.reset();
  for (std::uint64_t looked_at = 0; looked_at < bytes;) {
    if (!victim_) {
      victim_ = segments_.Best(now);
      if (!victim_) return false;
      victim_retired_ = segments_[*victim_].retired;
      next_ = segments_[*victim_].begin;
    }
    const Segments::Segment& segment = segments_[*victim_];
    if (segment.live == 0 || next_ == segment.end) {
      segments_.Retire(*victim_, now);
      victim_.reset();
      ++segments_cleaned_;
      continue;
    }
    const Place place = log_.At(next_);
    if (log_.IsLive(place) && !sweeper_.RemoveIfExpired(place, unix_ms) && !Move(place, now)) return false;
    next_ += place.extent_bytes();
    looked_at += place.extent_bytes();
  }
  return true;
}

bool Cleaner::Move(const Place& place, TimePoint now) {
  const std::string_view key = log_.Key(place);
  const std::string_view value = log_.Value(place);
  const std::uint64_t key_hash = HashKey(key);
  const std::optional<Index::Entry> entry = index_.Find(key, key_hash);
  REMORA_CHECK(entry.has_value() && entry->place == place);  // a live record is the one that the index names
  const RecordHeader& header = log_.Header(place);
  const std::uint64_t value_hash = HashValue(value.data(), value.size());
  // Bytes that rotted here must not be given a checksum that fits.
  REMORA_CHECK(header.checksum == log_.Checksum(place, key_hash, value_hash));
  const std::optional<Place> to = log_.Append(ValueLog::Head::kMoves, key, value, now);
  if (!to) return false;
  log_.Seal(*to, header.version_live >> 1, header.expiry_ms, key_hash, value_hash);
  // I5, as for any other record that takes another's place.
  log_.Kill(place);
  log_.MakeLive(*to);
  index_.Replace(*entry, *to);
  return true;
}

}  // namespace remora
