// A set of slots of a cluster (store/format/cluster/slot.h): those that a server has.
//
//   text:  numbers and ranges with commas between, as in 0-8191,8200
#pragma once

#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "store/format/cluster/slot.h"
#include "store/format/memory/hash.h"

namespace remora {

/// A set of slots, of 2 KiB.
///
/// Thread safety: any thread may call const functions while no thread calls another function.
class ClusterSlots {
 public:
  /// Returns whether the set has a slot. REQUIRES: slot < kSlots.
  bool Has(std::uint32_t slot) const { return (words_[slot / kBits] >> (slot % kBits) & 1) != 0; }
  /// Adds the slots from `first` to `last`. REQUIRES: first <= last < kSlots.
  void Add(std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t slot = first; slot <= last; ++slot) {
      words_[slot / kBits] |= std::uint64_t{1} << (slot % kBits);
    }
  }
  /// Removes the slots that `others` has.
  void Remove(const ClusterSlots& others) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= ~others.words_[i];
  }
  /// Returns whether it has all slots that `others` has.
  bool HasAll(const ClusterSlots& others) const {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      if ((others.words_[i] & ~words_[i]) != 0) return false;
    }
    return true;
  }
  /// Returns how many slots it has.
  std::uint32_t count() const {
    std::uint32_t count = 0;
    for (const std::uint64_t word : words_) count += static_cast<std::uint32_t>(std::popcount(word));
    return count;
  }
  /// Returns whether it has none.
  bool empty() const { return *this == ClusterSlots(); }

  friend bool operator==(const ClusterSlots&, const ClusterSlots&) = default;

 private:
  static constexpr std::uint32_t kBits = 64;
  std::array<std::uint64_t, kSlots / kBits> words_{};
};

/// Returns the first slot of one of `count` parts of all slots, whose sizes differ by one at most, and kSlots
/// for part == count. REQUIRES: count <= kSlots.
constexpr std::uint32_t FirstSlotOfPart(std::size_t part, std::size_t count) {
  return static_cast<std::uint32_t>(part * kSlots / count);
}

/// Returns the number that the text is; nullopt: it is no slot.
inline std::optional<std::uint32_t> SlotIn(std::string_view text) {
  std::uint32_t slot = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slot);
  if (error != std::errc() || end != text.data() + text.size() || slot >= kSlots) return std::nullopt;
  return slot;
}

/// Reads a set of at least one slot, in any order. Nullopt: the text is something else, or has a slot twice.
inline std::optional<ClusterSlots> SlotsIn(std::string_view text) {
  ClusterSlots slots;
  for (bool is_last = false; !is_last;) {
    const std::size_t size = text.find(',');
    is_last = size == std::string_view::npos;
    const std::string_view word = text.substr(0, size);
    if (!is_last) text.remove_prefix(size + 1);
    const std::size_t dash = word.find('-');
    const std::optional<std::uint32_t> first = SlotIn(word.substr(0, dash));
    const std::optional<std::uint32_t> last =
        dash == std::string_view::npos ? first : SlotIn(word.substr(dash + 1));
    if (!first || !last || *first > *last) return std::nullopt;
    for (std::uint32_t slot = *first; slot <= *last; ++slot) {
      if (slots.Has(slot)) return std::nullopt;
      slots.Add(slot, slot);
    }
  }
  return slots;
}

/// Returns the text of a set, with as few ranges as possible. Empty: the set is.
inline std::string SlotsText(const ClusterSlots& slots) {
  std::string text;
  for (std::uint32_t first = 0; first < kSlots; ++first) {
    if (!slots.Has(first)) continue;
    std::uint32_t last = first;
    while (last + 1 < kSlots && slots.Has(last + 1)) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(first);
    if (last != first) text.append("-").append(std::to_string(last));
    first = last;
  }
  return text;
}

/// Returns a checksum of a set: the low 32 bits of the XXH3 of its text. Part of the format. A number of the
/// size goes through Prometheus unchanged.
inline std::uint64_t SlotsChecksum(const ClusterSlots& slots) {
  return HashKey(SlotsText(slots)) & 0xFFFF'FFFFu;
}

}  // namespace remora
