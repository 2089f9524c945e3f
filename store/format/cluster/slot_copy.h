// The file by which the records of slots go from one server of a host to another one. The source writes it,
// and the destination reads it (server/cluster/slot_copy.h).
//
//   SlotCopyHeader | entry | entry | ... | entry of kind kEnd
//   entry:  SlotCopyEntry | key | value
//
// A later entry of a key counts, and the earlier ones do not. The last entry has the numbers of the whole
// file. Its key and its value are empty. `version` is greater than all versions that the source has given,
// and `number` is the count of the entries before. Its checksum covers all bytes before it:
//   chain(header) = XXH3(header)     chain(n) = XXH3(chain(n - 1), XXH3(bytes of entry n))
// A file without such an end is not whole, and nobody takes it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "store/format/cluster/shard_identity.h"
#include "store/format/cluster/slot.h"
#include "store/format/memory/hash.h"

namespace remora {

inline constexpr std::uint64_t kSlotCopyMagic = 0x31505941544f4c53;

/// The beginning of the file.
struct SlotCopyHeader {
  std::uint64_t magic = kSlotCopyMagic;
  std::uint64_t move = 0;  // the number of the move, random and not 0
  ShardIdentity source;
  ShardIdentity destination;
  std::array<std::uint8_t, kSlots / 8> slots{};  // a bit for each slot
};
static_assert(sizeof(SlotCopyHeader) == 96 + kSlots / 8);
static_assert(std::has_unique_object_representations_v<SlotCopyHeader>);

enum class SlotCopyKind : std::uint8_t {
  kRecord = 1,
  kGone = 2,  // the key does not exist; no value
  kEnd = 3,
};

/// The beginning of an entry.
struct SlotCopyEntry {
  std::uint64_t version = 0;
  std::uint64_t number = 0;    // of a record: its expiry in ms since 1970, or 0
  std::uint64_t checksum = 0;  // of kEnd; else 0
  std::uint32_t value_size = 0;
  std::uint16_t key_size = 0;
  SlotCopyKind kind{};
  std::uint8_t reserved = 0;
};
static_assert(sizeof(SlotCopyEntry) == 32);
static_assert(std::has_unique_object_representations_v<SlotCopyEntry>);

/// Returns the checksum of a file that goes on with these bytes.
inline std::uint64_t ChainSlotCopy(std::uint64_t before, const void* bytes, std::size_t size) {
  const std::array<std::uint64_t, 2> parts = {before, HashBytes(bytes, size)};
  return HashBytes(parts.data(), sizeof(parts));
}

}  // namespace remora
