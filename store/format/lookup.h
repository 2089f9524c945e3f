// From a key's hash to the slots that may hold it. Pure functions, used by both sides.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "store/format/layout.h"

namespace remora {

/// The main bucket of a hash: its low bits. The fingerprint is its top bits, so the two tell different
/// things.
constexpr std::uint64_t MainBucket(std::uint64_t key_hash, std::uint64_t bucket_count) {
  return key_hash & (bucket_count - 1);
}

/// 1 to 4095. Never 0, so that no mixture of two slots of one key reads as an empty slot.
constexpr std::uint32_t Fingerprint(std::uint64_t key_hash) {
  const auto top = static_cast<std::uint32_t>(key_hash >> 52);
  return top == 0 ? 1 : top;
}

/// Slots of one bucket, as a set; iterate with Next.
class SlotSet {
 public:
  constexpr explicit SlotSet(std::uint32_t bits) : bits_(bits) {}
  constexpr bool empty() const { return bits_ == 0; }
  /// Takes out the lowest. REQUIRES: !empty().
  constexpr int Next() {
    const int slot = std::countr_zero(bits_);
    bits_ &= bits_ - 1;
    return slot;
  }

 private:
  std::uint32_t bits_;
};

/// The slots of a (private copy of a) bucket whose fingerprint is that of `key_hash`. No empty slot is among
/// them. A torn one may be, and may name no place at all: see SlotNamesPlace.
inline SlotSet FindSlots(const Bucket& bucket, std::uint64_t key_hash) {
  const std::uint64_t fingerprint = Fingerprint(key_hash);
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < kSlotsPerBucket; ++i) {
    bits |= static_cast<std::uint32_t>(bucket.slots[i] >> 52 == fingerprint) << i;
  }
  return SlotSet(bits);
}

/// Whether a record can be where `slot` says, in a log of `log_size` bytes. False only for a torn slot.
constexpr bool SlotNamesPlace(const Slot& slot, std::uint64_t log_size) {
  return slot.offset_units != 0 && slot.extent_bytes() >= sizeof(RecordHeader) + kMinKeySize &&
         slot.extent_bytes() <= log_size && slot.offset_bytes() <= log_size - slot.extent_bytes();
}

}  // namespace remora
