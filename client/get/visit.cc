#include "client/get/visit.h"

#include <atomic>
#include <cstddef>
#include <cstring>
#include <optional>

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

/// Returns the byte that changes when the record is dead: that of a large record's beginning, or the
/// generation of a small one's segment. Null: the slot leads out of the region.
const std::byte* GenerationOf(const Session& session, const Slot& slot) {
  const std::uint64_t size = session.server().shape().memory_size;
  const bool is_large = slot.extent_bytes() > kMaxSmallExtent;
  return session.region().At(is_large ? BeginningOffset(size, slot.offset_bytes())
                                      : GenerationsOffset(size) + SegmentGenerations::SegmentOf(slot),
                             1);
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

/// The generation of a record, as it was at a moment.
class SeenGeneration {
 public:
  /// Returns false if the slot names no record.
  bool Take(const Session& session, const Slot& slot) {
    const std::byte* const now = GenerationOf(session, slot);
    if (now == nullptr) return false;
    taken_at_ = session.Coarse();
    byte_ = Load(now);
    return true;
  }
  /// Returns whether it is still the same. REQUIRES: Take returned true for this slot.
  bool Holds(const Session& session, const Slot& slot) const {
    std::atomic_thread_fence(std::memory_order_acquire);  // the loads of the value come before
    return Load(GenerationOf(session, slot)) == byte_ &&
           session.Coarse() - taken_at_ <= session.server().grace() * 256;
  }

 private:
  static unsigned char Load(const std::byte* byte) {
    return __atomic_load_n(reinterpret_cast<const unsigned char*>(byte), __ATOMIC_ACQUIRE);
  }

  unsigned char byte_ = 0;
  TimePoint taken_at_;
};

/// Looks for the key in its main bucket (V1).
std::optional<FoundInPlace> Find(const Session& session, std::string_view key, std::uint64_t key_hash,
                                 SeenGeneration* seen) {
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
  SeenGeneration seen;
  const std::optional<FoundInPlace> found = Find(session, key, key_hash, &seen);
  if (!found) return false;
  const LiveRecord& record = found->record;
  if (record.expiry_ms != 0 && !session.server().IsAlive(record.expiry_ms)) return false;
  {
    const ShownInPlace shown(record.value);
    show(record.value);
  }
  if (!session.server().InTime(begin) && !seen.Holds(session, found->slot)) return false;  // V2
  if (!session.region().ServerIsAlive()) return false;                                     // V3
  session.counters().reads += 2;
  if (version != nullptr) *version = record.version;
  session.NoteRead(key_hash);
  return true;
}

}  // namespace remora
