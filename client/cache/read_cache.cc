#include "client/cache/read_cache.h"

namespace remora {

void ReadCache::Learn(std::uint64_t key_hash, const Slot& slot, SegmentGenerations::Number refreshes) {
  // Skips a large value: compared with its READ, that of a bucket costs nothing, and needs no READ of
  // generations before.
  if (!locations_.is_on() || slot.extent_bytes() > kMaxSmallExtent) return;
  const std::uint64_t segment = SegmentGenerations::SegmentOf(slot);
  const SegmentGenerations::Number number =
      SlotNamesPlace(slot, memory_size_) ? generations_->NumberOf(segment) : 0;
  if (number != 0 && number <= refreshes) {
    locations_.Remember(key_hash, {EncodeSlot(slot), number});
  } else {
    locations_.Forget(key_hash);
  }
}

}  // namespace remora
