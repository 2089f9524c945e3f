// The slot of a key in a Redis Cluster, by which its clients choose a node.
//
//   slot = CRC-16/XMODEM of the key's hashed part, modulo 16384
//
// The hashed part is that of a slot of ours (store/format/cluster/slot.h): the tag, or the whole key. The
// hashes differ, so the two slots of a key have nothing to do with each other. But keys with the same tag
// have the same slot in both.
#pragma once

#include <cstdint>
#include <string_view>

namespace remora::kvgate {

/// Number of the slots: as many as ours.
inline constexpr std::uint32_t kRedisSlots = 16384;

/// Returns the slot of a key in a Redis Cluster, which is less than kRedisSlots.
std::uint32_t RedisSlotOf(std::string_view key);

}  // namespace remora::kvgate
