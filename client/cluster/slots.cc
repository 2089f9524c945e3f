#include "client/cluster/slots.h"

#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/slot.h"

namespace remora {

std::uint32_t SlotOfKey(std::string_view key) { return SlotOf(key); }

std::string_view TagOfKey(std::string_view key) { return SlotTag(key); }

SlotRange EvenSlots(std::size_t part, std::size_t count) {
  return {FirstSlotOfPart(part, count), FirstSlotOfPart(part + 1, count) - 1};
}

}  // namespace remora
