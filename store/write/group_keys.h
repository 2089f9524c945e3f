// A table of the last write of each key in a group. To empty it, Begin increments a counter. It allocates
// memory only for a group that is larger than all before.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "store/engine/writer_lock.h"

namespace remora {

/// Maps each key of a group to the number of its last write.
///
/// Thread safety: none; the caller holds the store's lock.
class GroupKeys {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  /// Begins a group of at most so many writes.
  void Begin(std::size_t writes) {
    const std::size_t size = std::bit_ceil(2 * writes);
    if (places_.size() < size) places_.resize(size);
    mask_ = size - 1;
    if (++group_ == 0) {  // the counter wrapped, so old entries could pass for those of a new group
      std::ranges::fill(places_, Place{});
      ++group_;
    }
  }

  /// Returns a reference to the number of the key's last write, or kNone if the group has none. The caller
  /// stores the next number there. `has_key(number)` returns whether that write has this key.
  /// REQUIRES: the caller stores one number for each write.
  template <typename HasKey>
  std::uint32_t& LastOf(std::uint64_t key_hash, const HasKey& has_key) REMORA_WRITER {
    for (std::size_t i = key_hash;; ++i) {
      Place& place = places_[i & mask_];
      if (place.group != group_) {
        place = {key_hash, group_, kNone};
        return place.number;
      }
      if (place.key_hash == key_hash && place.number != kNone && has_key(place.number)) return place.number;
    }
  }

 private:
  struct Place {
    std::uint64_t key_hash = 0;
    std::uint32_t group = 0;
    std::uint32_t number = kNone;
  };

  std::vector<Place> places_;  // at least twice as many as writes, so that each search ends
  std::size_t mask_ = 0;
  std::uint32_t group_ = 0;
};

}  // namespace remora
