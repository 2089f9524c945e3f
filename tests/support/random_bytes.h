// Bytes of values: the same for a seed, and not alike for any two.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace remora {

inline std::string RandomBytes(std::size_t size, std::uint64_t seed) {
  std::string bytes(size, '\0');
  std::uint64_t state = seed;
  for (std::size_t at = 0; at < size; at += sizeof(state)) {
    // SplitMix64 (Steele, Lea and Flood, 2014): a few instructions, also in builds that optimise nothing.
    std::uint64_t word = state += 0x9e3779b97f4a7c15u;
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 27) * 0x94d049bb133111ebu;
    word ^= word >> 31;
    std::memcpy(bytes.data() + at, &word, std::min(sizeof(word), size - at));
  }
  return bytes;
}

}  // namespace remora
