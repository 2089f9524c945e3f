// Where a client last found its keys, so that the next GET of one needs no READ of its bucket.
//
//   set (64 bytes, one cache line): 4 ways
//   ┌──────────────────────┬─────┬────────┬─────┐
//   │ slot (8)             │ tag │ number │ ... │   slot: as in the index; 0: the way is empty
//   └──────────────────────┴─────┴────────┴─────┘   tag: 32 bits of the key's hash, next to the slot's 12
//
// Keys whose 12 + 32 bits and set are the same are taken for one another. That costs a READ in vain, no more:
// the record says whose it is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "client/cache/segment_generations.h"
#include "store/format/memory/index_view.h"

namespace remora {

/// A record's place, and the number that its segment had when it was there
/// (client/cache/segment_generations.h).
struct KnownLocation {
  std::uint64_t slot = 0;  // EncodeSlot; 0: none
  SegmentGenerations::Number number = 0;
};

/// A table of fixed size, allocated once. What has not been found for the longest time gives way, about: a
/// hit moves up by one way, and what is new takes the last.
///
/// Thread Safety: none.
class LocationCache {
 public:
  /// Of at most `bytes`. Less than a set: none, and nothing is ever found.
  explicit LocationCache(std::size_t bytes);

  bool is_on() const { return set_count_ > 0; }
  std::size_t capacity() const { return set_count_ * kWays; }

  KnownLocation Find(std::uint64_t key_hash) {
    if (set_count_ == 0) return {};
    Set& set = SetOf(key_hash);
    const std::size_t way = WayOf(set, key_hash);
    if (way == kWays) return {};
    const KnownLocation found{set.ways[way].slot, set.ways[way].number};
    if (way > 0) std::swap(set.ways[way - 1], set.ways[way]);
    return found;
  }
  /// REQUIRES: location.slot is one of a record of this key.
  void Remember(std::uint64_t key_hash, const KnownLocation& location);
  void Forget(std::uint64_t key_hash);
  void Clear() { sets_.assign(sets_.size(), Set()); }

 private:
  static constexpr std::size_t kWays = 4;
  struct Entry {
    std::uint64_t slot = 0;
    std::uint32_t tag = 0;
    SegmentGenerations::Number number = 0;
  };
  struct alignas(64) Set {
    std::array<Entry, kWays> ways;
  };
  static_assert(sizeof(Set) == 64);

  // The upper half, as a fraction of 2^32: any number of sets will do. The tag is the lower half.
  Set& SetOf(std::uint64_t key_hash) { return sets_[(key_hash >> 32) * set_count_ >> 32]; }
  /// The way that holds the key's location, or kWays.
  static std::size_t WayOf(const Set& set, std::uint64_t key_hash) {
    const auto tag = static_cast<std::uint32_t>(key_hash);
    const std::uint64_t fingerprint = Fingerprint(key_hash);
    for (std::size_t way = 0; way < kWays; ++way) {
      const Entry& entry = set.ways[way];
      if (entry.tag == tag && entry.slot >> 52 == fingerprint) return way;
    }
    return kWays;
  }

  std::uint64_t set_count_;
  std::vector<Set> sets_;
};

/// What remembering may cost: one READ for every kPrice that were of use, and a few at once. A READ of a
/// record that is not the value any more, and a look at generations, is paid for with it; with nothing left,
/// GETs go the cold way, and earn. So where keys churn, or GETs come so seldom that each would need a look of
/// its own, the loss is bounded, and as each kPrice READs buy another try, it is noticed when that has
/// changed.
///
/// Thread Safety: none.
class SpeculationBudget {
 public:
  static constexpr std::int64_t kPrice = 12;
  static constexpr std::int64_t kAtOnce = 16;

  bool has_some() const { return credit_ >= kPrice; }
  void Spend() { credit_ -= kPrice; }
  void Earn(std::uint64_t reads) {
    credit_ += static_cast<std::int64_t>(reads);
    if (credit_ > kAtOnce * kPrice) credit_ = kAtOnce * kPrice;
  }

 private:
  std::int64_t credit_ = kAtOnce * kPrice;
};

}  // namespace remora
