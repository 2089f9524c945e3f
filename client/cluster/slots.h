// Slots for programs beside the client library, which divide keys as a cluster does. The library itself uses
// the functions of store/format/cluster/slot.h, which are inline for the path of a GET.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "client/cluster/topology.h"

namespace remora {

/// Returns the slot of a key, as SlotOf does.
std::uint32_t SlotOfKey(std::string_view key);

/// Returns the part of a key that decides its slot, as SlotTag does: the tag, or the whole key.
std::string_view TagOfKey(std::string_view key);

/// Returns one of `count` parts of all slots, whose sizes differ by one at most. REQUIRES: part < count, and
/// count <= kSlots.
SlotRange EvenSlots(std::size_t part, std::size_t count);

}  // namespace remora
