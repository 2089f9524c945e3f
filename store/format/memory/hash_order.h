// Keys in the order of their hashes, in which a store without a durable tier shows them.
//
// The order goes by the bits of a hash from the lowest to the highest. A bucket of the index has
// the hashes of the same low bits (index_view.h). So it has all keys between two places of this
// order, and so has each half of it when it is split. A scan that walks from place to place, one
// bucket after the other, meets each key once, however the index grows meanwhile. As a key's place
// depends on the key alone, so does a scan that continues later, with an index of another size.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "store/format/memory/record.h"

namespace remora {

constexpr std::uint64_t ReverseBits(std::uint64_t bits) {
  const auto swap = [&bits](int width, std::uint64_t low) {
    bits = (bits >> width & low) | (bits & low) << width;
  };
  swap(1, 0x5555555555555555);
  swap(2, 0x3333333333333333);
  swap(4, 0x0f0f0f0f0f0f0f0f);
  return __builtin_bswap64(bits);
}
static_assert(ReverseBits(1) == std::uint64_t{1} << 63 && ReverseBits(0xb0) == std::uint64_t{0xd} << 56);

inline std::uint64_t HashOrder(std::string_view key) { return ReverseBits(HashKey(key)); }

/// Returns whether `a` comes before `b`. Two keys of one hash come in the order of their bytes.
inline bool ComesBeforeByHash(std::string_view a, std::string_view b) {
  return std::pair(HashOrder(a), a) < std::pair(HashOrder(b), b);
}

}  // namespace remora
