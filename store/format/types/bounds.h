// Texts for values out of bounds, the same for the store, its clients and batches. They are built
// only after a check has failed, so a value in bounds costs nothing.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "store/format/memory/layout.h"
#include "store/format/types/expiry.h"

namespace remora {

inline constexpr std::string_view kNoSuchDurability =
    "durability: it is unknown; pass memory, logged or synced";
inline constexpr std::string_view kNoSuchVersion =
    "condition: no write ever has this version; pass one that a call returned";

/// Returns whether the key has 1 to kMaxKeySize bytes.
inline bool IsKey(std::string_view key) { return key.size() >= kMinKeySize && key.size() <= kMaxKeySize; }

/// Returns the text for a key of `size` bytes, which is out of bounds.
inline std::string NoKey(std::size_t size) {
  return "key: it has " + std::to_string(size) + " bytes; allowed are " + std::to_string(kMinKeySize) +
         " to " + std::to_string(kMaxKeySize);
}

/// Returns the text for a value of `size` bytes, which is out of bounds.
inline std::string NoValue(std::size_t size) {
  return "value: it has " + std::to_string(size) + " bytes; allowed are up to " +
         std::to_string(kMaxValueSize);
}

/// Returns the text for a time to live that is not IsTtl.
inline std::string NoTtl(std::chrono::milliseconds ttl) {
  return "ttl: " + std::to_string(ttl.count()) + " ms; allowed are 1 to " + std::to_string(kMaxTtl.count()) +
         ", and for ever";
}

}  // namespace remora
