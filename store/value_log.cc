#include "store/value_log.h"

#include <algorithm>
#include <cstring>

#include "store/atomic_word.h"
#include "store/base/check.h"
#include "store/format/record.h"

namespace remora {

// Unit 0 is never handed out: a slot that names it is none.
ValueLog::ValueLog(std::span<std::byte> memory, std::uint64_t incarnation)
    : memory_(memory), incarnation_(incarnation), mark_{kUnitSize, kUnitSize} {}

std::optional<Place> ValueLog::Append(std::string_view key, std::string_view value) {
  Place place;
  place.extent_code = RecordExtentCode(key.size(), value.size());
  const std::uint64_t size = place.extent_bytes();

  std::uint64_t start = mark_.used;
  const std::uint64_t segment_end = (start / kSegmentSize + 1) * kSegmentSize;
  if (start + size > segment_end) start = segment_end;
  if (start > memory_.size() || size > memory_.size() - start) return std::nullopt;
  mark_.dead += start - mark_.used;
  mark_.used = start + size;

  place.offset_units = start / kUnitSize;
  std::byte* body = At(place) + sizeof(RecordHeader);
  std::memcpy(body, key.data(), key.size());
  // An empty view may have no address, which memcpy does not take.
  if (!value.empty()) std::memcpy(body + key.size(), value.data(), value.size());
  return place;
}

void ValueLog::Seal(const Place& place, std::size_t key_size, std::size_t value_size, std::uint64_t version,
                    std::uint64_t key_hash, std::uint64_t value_hash) {
  RecordHeader header{};
  header.version_live = version << 1;
  header.value_size = static_cast<std::uint32_t>(value_size);
  header.key_size = static_cast<std::uint16_t>(key_size);
  header.checksum = RecordChecksum(header, key_hash, value_hash, place.offset_units, incarnation_);
  // Nobody was led here yet but by a torn slot, and to such a reader anything may be torn.
  std::memcpy(At(place), &header, sizeof(header));
}

// The live bit comes last and not with the header: between the two, the durable tier may take its time, or
// fail. Until then a reader that a torn slot led here finds a dead record and looks again; with the bit set,
// it would return a value that was never committed.
void ValueLog::MakeLive(const Place& place) {
  std::uint64_t& word = reinterpret_cast<RecordHeader*>(At(place))->version_live;
  const std::uint64_t old = LoadWord(word, std::memory_order_relaxed);  // only the writer stores it
  REMORA_CHECK((old & kLiveBit) == 0);
  // Relaxed: whoever follows the slot sees it, because the slot is stored after it, with release.
  StoreWord(word, old | kLiveBit, std::memory_order_relaxed);
}

void ValueLog::Kill(const Place& place) {
  std::uint64_t& word = reinterpret_cast<RecordHeader*>(At(place))->version_live;
  const std::uint64_t old = LoadWord(word, std::memory_order_relaxed);  // only the writer stores it
  REMORA_CHECK((old & kLiveBit) != 0);
  // Relaxed: I5 asks that it comes before the new slot, which is stored after it, with release. So whoever
  // has seen the new slot sees this bit cleared.
  StoreWord(word, old & ~kLiveBit, std::memory_order_relaxed);
  mark_.dead += place.extent_bytes();
}

const RecordHeader& ValueLog::Header(const Place& place) const {
  return *reinterpret_cast<const RecordHeader*>(At(place));
}

const std::byte* ValueLog::Body(const Place& place) const { return At(place) + sizeof(RecordHeader); }

std::string_view ValueLog::Key(const Place& place, std::size_t key_size) const {
  return {reinterpret_cast<const char*>(Body(place)), key_size};
}

std::string_view ValueLog::Value(const Place& place, std::size_t key_size, std::size_t value_size) const {
  return {reinterpret_cast<const char*>(Body(place)) + key_size, value_size};
}

}  // namespace remora
