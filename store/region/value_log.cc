#include "store/region/value_log.h"

#include <algorithm>
#include <cstring>

#include "store/base/check.h"
#include "store/format/memory/record.h"
#include "store/region/atomic_word.h"

namespace remora {

namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kLinesAhead = 3;

Segments::Queue QueueOf(ValueLog::Head head) {
  return head == ValueLog::Head::kWrites ? Segments::Queue::kWritten : Segments::Queue::kMoved;
}

}  // namespace

ValueLog::ValueLog(std::span<std::byte> region, Segments& segments, std::uint64_t incarnation)
    : region_(region), segments_(segments), incarnation_(incarnation) {}

std::optional<Place> ValueLog::Append(Head head, std::string_view key, std::string_view value,
                                      TimePoint now) {
  if (RunLength(key.size(), value.size()) > 0) {
    REMORA_CHECK(head == Head::kWrites);
    const std::optional<Place> place = Reserve(key.size(), value.size());
    if (place) WriteBody(*place, key, value);
    return place;
  }
  const std::optional<Place> place = TakeFromHead(head, RecordExtentCode(key.size(), value.size()), now);
  if (!place) return std::nullopt;
  WriteSizes(*place, key.size(), value.size());
  WriteBody(*place, key, value);
  return place;
}

std::optional<Place> ValueLog::Reserve(std::size_t key_size, std::size_t value_size) {
  const std::optional<Place> place = TakeLarge(key_size, value_size, Segments::Growth::kAllowed);
  if (place) large_appended_ += place->extent_bytes();
  return place;
}

// A record that is moved to empty a segment takes no other segment, or nothing would be gained.
std::optional<Place> ValueLog::ReserveMove(std::size_t key_size, std::size_t value_size) {
  const auto growth = segments_.is_making_run() ? Segments::Growth::kAllowed : Segments::Growth::kNone;
  const std::optional<Place> place = TakeLarge(key_size, value_size, growth);
  if (place) appended_[static_cast<std::size_t>(Head::kMoves)] += place->extent_bytes();
  return place;
}

std::optional<Place> ValueLog::TakeLarge(std::size_t key_size, std::size_t value_size,
                                         Segments::Growth growth) {
  Place place;
  place.extent_code = RecordExtentCode(key_size, value_size);
  const std::uint64_t size = place.extent_bytes();
  const std::optional<std::uint64_t> offset = segments_.TakeLarge(size, growth);
  if (!offset) return std::nullopt;
  place.offset_units = *offset / kUnitSize;
  segments_.AddLive(place.offset_bytes(), size);
  WriteSizes(place, key_size, value_size);
  return place;
}

std::optional<Place> ValueLog::TakeFromHead(Head head, std::uint32_t extent_code, TimePoint now) {
  Place place;
  place.extent_code = extent_code;
  const std::uint64_t size = place.extent_bytes();

  Open& open = heads_[static_cast<std::size_t>(head)];
  if (!open.there || size > open.end - open.next) {
    const std::size_t keep = head == Head::kWrites ? Segments::kReserve : 0;
    const std::optional<SegmentNumber> taken = segments_.Take(Segments::Use::kLogHead, keep);
    if (!taken) return std::nullopt;
    if (open.there) {
      const Full full{open.segment, open.next, head};
      if (pinned_.contains(open.segment)) {
        full_.push_back(full);
      } else {
        SealSegment(full, now);
      }
    }
    open = {true, *taken, segments_[*taken].begin, Segments::EndOf(*taken)};
  }
  place.offset_units = open.next / kUnitSize;
  open.next += size;
  // Prefetches the lines of the next record, if it has the usual size, so that this CPU can write them.
  for (std::size_t i = 0; i < kLinesAhead; ++i) {
    __builtin_prefetch(region_.data() + open.next + i * kCacheLine, /*rw=*/1);
  }
  segments_.AddLive(place.offset_bytes(), size);
  appended_[static_cast<std::size_t>(head)] += size;
  return place;
}

// Writes a header that is not live. Until now, only a torn slot can have led a reader here. The sizes say
// where the next record begins.
void ValueLog::WriteSizes(const Place& place, std::size_t key_size, std::size_t value_size) {
  RecordHeader header{};
  header.key_size = static_cast<std::uint16_t>(key_size);
  header.value_size = static_cast<std::uint32_t>(value_size);
  std::memcpy(Memory(place), &header, sizeof(header));
}

void ValueLog::WriteBody(const Place& place, std::string_view key, std::string_view value) {
  std::byte* const body = Memory(place) + sizeof(RecordHeader);
  std::memcpy(body, key.data(), key.size());
  // An empty view may have a null address, which memcpy does not accept.
  if (!value.empty()) std::memcpy(body + key.size(), value.data(), value.size());
}

void ValueLog::Rollback(const Place& place) {
  REMORA_CHECK(!IsLive(place));
  segments_.Drop(place.offset_bytes(), place.extent_bytes());
  if (IsLarge(place)) return segments_.ReleaseLarge(place.offset_bytes());
  for (Open& open : heads_) {
    // The first check is needed because a record at the end of the segment before may end where this one
    // begins.
    if (open.there && place.offset_bytes() >= segments_[open.segment].begin &&
        place.offset_bytes() + place.extent_bytes() == open.next) {
      open.next = place.offset_bytes();
      return;
    }
  }
}

void ValueLog::Pin(const Place& place) {
  if (segments_[place.segment()].use == Segments::Use::kLogHead) ++pinned_[place.segment()];
}

void ValueLog::Unpin(const Place& place, TimePoint now) {
  const auto pinned = pinned_.find(place.segment());
  if (pinned == pinned_.end() || --pinned->second > 0) return;
  pinned_.erase(pinned);
  const auto full =
      std::ranges::find_if(full_, [&](const Full& other) { return other.segment == place.segment(); });
  if (full == full_.end()) return;
  SealSegment(*full, now);
  full_.erase(full);
}

void ValueLog::SealSegment(const Full& full, TimePoint now) {
  segments_.Seal(full.segment, full.end, now, QueueOf(full.head));
}

void ValueLog::Seal(const Place& place, std::uint64_t version, std::uint64_t expiry_ms,
                    std::uint64_t key_hash, std::uint64_t value_hash) {
  RecordHeader& header = MutableHeader(place);
  RecordHeader sealed = header;
  sealed.version_live = version << 1;
  sealed.expiry_ms = expiry_ms;
  sealed.checksum = RecordChecksum(sealed, key_hash, value_hash, place.offset_units, incarnation_);
  std::memcpy(&header, &sealed, sizeof(sealed));
}

void ValueLog::WriteSealed(const Place& place, std::string_view key, std::string_view value,
                           std::uint64_t version, std::uint64_t expiry_ms, std::uint64_t key_hash) {
  RecordHeader header{};
  header.version_live = version << 1;
  header.key_size = static_cast<std::uint16_t>(key.size());
  header.value_size = static_cast<std::uint32_t>(value.size());
  header.expiry_ms = expiry_ms;
  header.checksum = RecordChecksum(header, key_hash, HashValue(value.data(), value.size()),
                                   place.offset_units, incarnation_);
  std::memcpy(Memory(place), &header, sizeof(header));
  WriteBody(place, key, value);
}

void ValueLog::Adopt(SegmentNumber segment, TimePoint now) {
  const std::uint64_t end = segments_[segment].end;
  Open& open = heads_[static_cast<std::size_t>(Head::kWrites)];
  if (open.there) {
    segments_.Seal(segment, end, now);
  } else {
    open = {true, segment, end, Segments::EndOf(segment)};
  }
}

// The live bit is set after the rest of the header, because the durable tier may fail or take long in
// between. Until then, a reader that a torn slot led here finds a dead record and looks again. With the bit
// set, it would return a value that was never committed.
void ValueLog::MakeLive(const Place& place) {
  std::uint64_t& word = MutableHeader(place).version_live;
  const std::uint64_t old = LoadWord(word, std::memory_order_relaxed);  // only the writer stores it
  REMORA_CHECK((old & kLiveBit) == 0);
  // Relaxed: the slot is stored after the bit, with release, so a reader that follows the slot sees the bit.
  StoreWord(word, old | kLiveBit, std::memory_order_relaxed);
  if (IsLarge(place)) segments_.MakeLargeLive(place.offset_bytes());
  // Only now: a sweep before passes over the record, and forgets the expiries that were noted until then.
  segments_.NoteExpiry(place.offset_bytes(), Segments::ExpiryOf(Header(place)));
}

void ValueLog::PublishMoved(const Place& from, const Place& to, std::uint64_t key_hash,
                            std::uint64_t value_hash) {
  const RecordHeader& header = Header(from);
  Seal(to, header.version_live >> 1, header.expiry_ms, key_hash, value_hash);
  Kill(from);
  MakeLive(to);
}

void ValueLog::Kill(const Place& place) {
  std::uint64_t& word = MutableHeader(place).version_live;
  const std::uint64_t old = LoadWord(word, std::memory_order_relaxed);  // only the writer stores it
  REMORA_CHECK((old & kLiveBit) != 0);
  // Relaxed: by I5 the bit is cleared before the new slot is stored. The slot is stored with release, so a
  // reader that has seen it sees this bit cleared.
  StoreWord(word, old & ~kLiveBit, std::memory_order_relaxed);
  segments_.Drop(place.offset_bytes(), place.extent_bytes());
  if (IsLarge(place)) segments_.RetireLarge(place.offset_bytes());
}

const RecordHeader& ValueLog::Header(const Place& place) const { return MutableHeader(place); }

const std::byte* ValueLog::Body(const Place& place) const { return Memory(place) + sizeof(RecordHeader); }

std::string_view ValueLog::Key(const Place& place) const {
  return {reinterpret_cast<const char*>(Body(place)), Header(place).key_size};
}

std::string_view ValueLog::Value(const Place& place) const {
  const RecordHeader& header = Header(place);
  return {reinterpret_cast<const char*>(Body(place)) + header.key_size, header.value_size};
}

bool ValueLog::IsLive(const Place& place) const {
  return (LoadWord(Header(place).version_live, std::memory_order_relaxed) & kLiveBit) != 0;
}

Place ValueLog::At(std::uint64_t offset) const {
  Place place{offset / kUnitSize, 0};
  const RecordHeader& header = Header(place);
  place.extent_code = RecordExtentCode(header.key_size, header.value_size);
  return place;
}

std::uint64_t ValueLog::EndOf(SegmentNumber segment) const {
  for (const Open& open : heads_) {
    if (open.there && open.segment == segment) return open.next;
  }
  for (const Full& full : full_) {
    if (full.segment == segment) return full.end;
  }
  return segments_[segment].end;
}

std::optional<Place> ValueLog::FirstFrom(SegmentNumber segment, std::uint64_t offset) const {
  // A segment whose last large record was just removed has none any more, and is retired.
  const Segments::Use use = segments_[segment].use;
  if (use != Segments::Use::kLog && use != Segments::Use::kLogHead) {
    const auto large = segments_.large().FirstFrom(offset, Segments::EndOf(segment));
    return large ? std::optional(At(*large)) : std::nullopt;
  }
  return offset == EndOf(segment) ? std::nullopt : std::optional(At(offset));
}

std::uint64_t ValueLog::bytes_used() const {
  std::uint64_t used = segments_.log_bytes();
  for (const Open& open : heads_) {
    if (open.there) used += open.next - segments_[open.segment].end;
  }
  for (const Full& full : full_) used += full.end - segments_[full.segment].end;
  return used;
}

}  // namespace remora
