#include "client/cache/read_cache.h"

namespace remora {

void ReadCache::Learn(std::uint64_t key_hash, const Slot& slot) {
  // Skips a large value: compared with its READ, that of a bucket costs nothing, and needs no READ of
  // generations before.
  if (!locations_.is_on() || slot.extent_bytes() > kMaxSmallExtent) return;
  const std::uint64_t segment = SegmentGenerations::SegmentOf(slot);
  if (SlotNamesPlace(slot, memory_size_) && generations_->HasNumber(segment)) {
    locations_.Remember(key_hash, {EncodeSlot(slot), generations_->NumberOf(segment)});
  } else {
    locations_.Forget(key_hash);
  }
}

}  // namespace remora
