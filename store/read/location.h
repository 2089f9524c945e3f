// Where a value is in the region.
#pragma once

#include <cstdint>

namespace remora {

/// Location of a value at the moment of the call.
struct Location {
  std::uint64_t slot = 0;  // EncodeSlot; 0: the record stays in the durable tier (ServerStore::FinishLocate)
  std::uint64_t version = 0;
};

}  // namespace remora
