// Of the writes of a group, the last one of each key: a table that is emptied by counting on, and never
// allocates but for a group that is larger than all before.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "store/engine/writer_lock.h"

namespace remora {

/// Thread Safety: none; the writer's.
class GroupKeys {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  /// Begins a group of so many writes at most.
  void Begin(std::size_t writes) {
    const std::size_t size = std::bit_ceil(2 * writes);
    if (places_.size() < size) places_.resize(size);
    mask_ = size - 1;
    if (++group_ == 0) {  // of all that is in there, nothing tells any more when it was
      std::ranges::fill(places_, Place{});
      ++group_;
    }
  }

  /// The number of the key's last write, to read and to set: kNone, if the group has none. `has_key(number)`:
  /// whether that write's key is this one. REQUIRES: it is set once for each write.
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

  std::vector<Place> places_;  // twice as many as writes, so that each search ends
  std::size_t mask_ = 0;
  std::uint32_t group_ = 0;
};

}  // namespace remora
