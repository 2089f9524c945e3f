// The slot of a key: the unit in which a cluster divides its keys among shards. Part of the format.
//
//   slot = low 14 bits of the XXH3 (store/format/memory/hash.h) of the key's hashed part
//
// The hashed part is the tag, the bytes between the first `{` and the next `}` behind it. If there is no such
// pair, or nothing between them, it is the whole key. So keys with the same tag have the same slot:
//   user:{42}:name and user:{42}:mail have the tag 42;   {}:a, a}{ and a{b have none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "store/format/memory/hash.h"

namespace remora {

inline constexpr std::uint32_t kSlots = 16384;
static_assert((kSlots & (kSlots - 1)) == 0);

/// Returns whether a key of 8 to 64 bytes has a `{`: eight bytes at a time, the last ones perhaps twice. A
/// call of memchr(3) takes longer than the rest of a routing.
[[gnu::always_inline]] inline bool HasBrace(std::string_view key) {
  constexpr std::uint64_t kOnes = 0x0101010101010101, kHighBits = 0x8080808080808080;
  const auto zero_bytes = [&](std::size_t at) {
    std::uint64_t word = 0;
    std::memcpy(&word, key.data() + at, sizeof(word));
    word ^= kOnes * static_cast<unsigned char>('{');
    return (word - kOnes) & ~word & kHighBits;
  };
  std::uint64_t found = zero_bytes(key.size() - 8);
  for (std::size_t at = 0; at + 8 < key.size(); at += 8) found |= zero_bytes(at);
  return found != 0;
}

/// Returns the part of the key that decides its slot: the tag, or the whole key.
[[gnu::always_inline]] inline std::string_view SlotTag(std::string_view key) {
  if (key.size() >= 8 && key.size() <= 64 && !HasBrace(key)) [[likely]]
    return key;
  // memchr(3) may not get the null of an empty view.
  if (key.empty()) return key;
  const auto* const open = static_cast<const char*>(std::memchr(key.data(), '{', key.size()));
  if (open == nullptr) return key;
  const std::string_view behind = key.substr(static_cast<std::size_t>(open - key.data()) + 1);
  const std::size_t size = behind.find('}');
  return size == std::string_view::npos || size == 0 ? key : behind.substr(0, size);
}

/// The slot of a key, which is less than kSlots, and the key's HashKey.
struct HashedSlot {
  std::uint32_t slot = 0;
  std::uint64_t key_hash = 0;
};

/// Returns the slot of a key, and its hash. Only a key with a tag is hashed twice.
[[gnu::always_inline]] inline HashedSlot HashedSlotOf(std::string_view key) {
  const std::string_view tag = SlotTag(key);
  const std::uint64_t of_tag = HashKey(tag);
  return {static_cast<std::uint32_t>(of_tag) & (kSlots - 1),
          tag.size() == key.size() ? of_tag : HashKey(key)};
}

/// Returns the slot of a key whose HashKey is known.
[[gnu::always_inline]] inline std::uint32_t SlotOfHashed(std::string_view key, std::uint64_t key_hash) {
  const std::string_view tag = SlotTag(key);
  return static_cast<std::uint32_t>(tag.size() == key.size() ? key_hash : HashKey(tag)) & (kSlots - 1);
}

/// Returns the slot of a key.
[[gnu::always_inline]] inline std::uint32_t SlotOf(std::string_view key) {
  return static_cast<std::uint32_t>(HashKey(SlotTag(key))) & (kSlots - 1);
}

}  // namespace remora
