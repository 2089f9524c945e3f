#include "client/get/visit.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>

#include "store/format/memory/index_view.h"
#include "store/format/memory/layout.h"
#include "store/format/memory/record.h"

namespace remora {
namespace {

thread_local const char* shown_in_place = nullptr;  // begin of the value

/// Notes that a value is shown in place, as long as it lives. The function may visit keys of other clients.
class ShownInPlace {
 public:
  explicit ShownInPlace(std::string_view value) { shown_in_place = value.data(); }
  ~ShownInPlace() { shown_in_place = before_; }
  ShownInPlace(const ShownInPlace&) = delete;
  ShownInPlace& operator=(const ShownInPlace&) = delete;

 private:
  const char* const before_ = shown_in_place;
};

/// A live record of the key, in the mapping.
struct FoundInPlace {
  Slot slot;
  LiveRecord record;
};

/// Returns the generations of the segments that a record has.
std::span<const std::byte> GenerationsOf(const Session& session, const Slot& slot) {
  const std::uint64_t first = slot.offset_bytes() / kSegmentSize;
  const std::uint64_t last = (slot.offset_bytes() + slot.extent_bytes() - 1) / kSegmentSize;
  const std::byte* const bytes =
      session.region().At(GenerationsOffset(session.server().shape().memory_size) + first, last - first + 1);
  return {bytes, bytes == nullptr ? 0 : last - first + 1};
}

/// Returns the record at `slot` if its header says that it is the key's live one.
std::optional<LiveRecord> LiveAt(const Session& session, const Slot& slot, std::string_view key) {
  const std::byte* const at = session.region().At(slot.offset_bytes(), slot.extent_bytes());
  RecordPlace place;
  place.extent_bytes = slot.extent_bytes();
  LiveRecord record;
  // V1 needs no checksum, so no hash is of use.
  if (at == nullptr || !ReadLiveRecord<RecordChecks::kHeaderAndKey>(key, 0, at, place, &record)) {
    return std::nullopt;
  }
  return record;
}

/// The generations of a record's segments, as they were at a moment.
class SeenGenerations {
 public:
  /// Returns false if the slot has more segments than a record can have.
  bool Take(const Session& session, const Slot& slot) {
    const std::span<const std::byte> now = GenerationsOf(session, slot);
    if (now.empty() || now.size() > bytes_.size()) return false;
    taken_at_ = session.Coarse();
    count_ = now.size();
    Load(now, bytes_.data());
    return true;
  }
  /// Returns whether they are still the same. REQUIRES: Take returned true for this slot.
  bool Hold(const Session& session, const Slot& slot) const {
    std::atomic_thread_fence(std::memory_order_acquire);  // the loads of the value come before
    std::array<std::byte, kMaxRunLength> now;
    Load(GenerationsOf(session, slot), now.data());
    return std::equal(now.begin(), now.begin() + static_cast<std::ptrdiff_t>(count_), bytes_.begin()) &&
           session.Coarse() - taken_at_ <= session.server().grace() * 256;
  }

 private:
  static void Load(std::span<const std::byte> from, std::byte* to) {
    for (const std::byte& generation : from) {
      const auto* const byte = reinterpret_cast<const unsigned char*>(&generation);
      *to++ = std::byte{__atomic_load_n(byte, __ATOMIC_ACQUIRE)};
    }
  }

  std::array<std::byte, kMaxRunLength> bytes_;
  std::size_t count_ = 0;
  TimePoint taken_at_;
};

/// Looks for the key in its main bucket (V1).
std::optional<FoundInPlace> Find(const Session& session, std::string_view key, std::uint64_t key_hash,
                                 SeenGenerations* seen) {
  const RegionReader& region = session.region();
  const std::uint64_t epoch = region.ReuseEpoch();
  const std::uint64_t offset =
      region.KnownOffsetOf({false, session.server().index().HomeOf(key_hash).bucket});
  const std::byte* const bytes = offset == 0 ? nullptr : region.At(offset, sizeof(Bucket));
  if (bytes == nullptr) return std::nullopt;
  const auto& bucket = *reinterpret_cast<const Bucket*>(bytes);
  for (SlotSet slots = FindSlots(bucket, key_hash); !slots.empty();) {
    const Slot slot = DecodeSlot(__atomic_load_n(bucket.slots.data() + slots.Next(), __ATOMIC_ACQUIRE));
    if (!SlotNamesPlace(slot, session.server().shape().memory_size)) continue;
    if (!seen->Take(session, slot)) continue;
    const std::optional<LiveRecord> record = LiveAt(session, slot, key);
    if (!record) continue;
    std::atomic_thread_fence(std::memory_order_acquire);  // the loads of the header come before
    if (region.ReuseEpochInside() != epoch) return std::nullopt;
    return FoundInPlace{slot, *record};
  }
  return std::nullopt;
}

}  // namespace

bool IsShownInPlace(const void* bytes) { return bytes == shown_in_place && bytes != nullptr; }

bool TryVisit(Session& session, std::string_view key, absl::FunctionRef<void(std::string_view)> show,
              std::uint64_t* version) {
  if (!session.region().reads_now()) return false;
  const TimePoint begin = session.Coarse();
  const std::uint64_t key_hash = HashKey(key);
  SeenGenerations seen;
  const std::optional<FoundInPlace> found = Find(session, key, key_hash, &seen);
  if (!found) return false;
  const LiveRecord& record = found->record;
  if (record.expiry_ms != 0 && !session.server().IsAlive(record.expiry_ms)) return false;
  {
    const ShownInPlace shown(record.value);
    show(record.value);
  }
  if (!session.server().InTime(begin) && !seen.Hold(session, found->slot)) return false;  // V2
  if (!session.region().ServerIsAlive()) return false;                                    // V3
  session.counters().reads += 2;
  if (version != nullptr) *version = record.version;
  session.NoteRead(key_hash);
  return true;
}

}  // namespace remora
