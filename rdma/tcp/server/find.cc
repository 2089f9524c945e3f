#include "rdma/tcp/server/find.h"

#include "store/format/memory/index_view.h"
#include "store/format/memory/layout.h"

namespace remora::rdma {

std::span<std::byte> FindRecord(std::span<std::byte> region, std::uint64_t offset, std::uint32_t fingerprint,
                                std::uint32_t most) {
  const auto* const bucket = reinterpret_cast<const Bucket*>(region.data() + offset);
  for (const std::uint64_t& word : bucket->slots) {
    // Relaxed: the order of other loads does not matter, because the reader verifies the record.
    const std::uint64_t now = __atomic_load_n(&word, __ATOMIC_RELAXED);
    const Slot slot = DecodeSlot(now);
    if (slot.fingerprint != fingerprint || SlotIsCold(now)) continue;
    if (!SlotNamesPlace(slot, region.size()) || slot.extent_bytes() > most) return {};
    return region.subspan(slot.offset_bytes(), slot.extent_bytes());
  }
  return {};
}

}  // namespace remora::rdma
