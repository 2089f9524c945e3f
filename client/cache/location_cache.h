// Cache of the locations where a client last found its keys. The next GET of such a key needs no READ of its
// bucket.
//
//   set (64 bytes, one cache line): 4 ways
//   ┌──────────────────────┬─────┬────────┬─────┐
//   │ slot (8)             │ tag │ number │ ... │   slot: as in the index; 0: the way is empty
//   └──────────────────────┴─────┴────────┴─────┘   tag: 32 bits of the key's hash, next to the slot's 12
//
// The cache mistakes two keys for one another if their set and their 12 + 32 bits are equal. That only costs
// a useless READ, because the record has the key.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "client/cache/segment_generations.h"
#include "store/format/memory/index_view.h"

namespace remora {

/// A record's location, and the number that its segment had when the record was there
/// (client/cache/segment_generations.h).
struct KnownLocation {
  std::uint64_t slot = 0;  // EncodeSlot; 0: none
  SegmentGenerations::Number number = 0;
};

/// A table of fixed size, allocated once. It replaces about the entry that was not found for the longest
/// time: a hit moves up by one way, and a new entry takes the last way.
///
/// Thread safety: none.
class LocationCache {
 public:
  /// Makes a cache of at most `bytes`. If that is less than a set, or if there is no memory for it, the cache
  /// is off and finds nothing. REQUIRES: bytes <= kMaxLocationCacheBytes.
  explicit LocationCache(std::size_t bytes);
  /// Returns whether there was no memory for it.
  bool lacks_memory() const { return lacks_memory_; }

  bool is_on() const { return set_count_ > 0; }
  std::size_t capacity() const { return set_count_ * kWays; }

  /// Prefetches what Find reads. A large cache is mostly in memory, so that many Finds wait for it together.
  void Prefetch(std::uint64_t key_hash) const {
    if (set_count_ > 0) __builtin_prefetch(&sets_[SetNumberOf(key_hash)], /*rw=*/1);
  }
  KnownLocation Find(std::uint64_t key_hash) {
    if (set_count_ == 0) return {};
    Set& set = SetOf(key_hash);
    const std::size_t way = WayOf(set, key_hash);
    if (way == kWays) return {};
    const KnownLocation found{set.ways[way].slot, set.ways[way].number};
    if (way > 0) std::swap(set.ways[way - 1], set.ways[way]);
    return found;
  }
  /// Stores the key's location. REQUIRES: location.slot belongs to a record of this key.
  void Remember(std::uint64_t key_hash, const KnownLocation& location);
  void Forget(std::uint64_t key_hash);
  void Clear() { std::fill_n(sets_.get(), set_count_, Set()); }

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

  // Takes the upper half of the hash as a fraction of 2^32, so the number of sets is arbitrary. The lower
  // half is the tag.
  std::size_t SetNumberOf(std::uint64_t key_hash) const { return (key_hash >> 32) * set_count_ >> 32; }
  Set& SetOf(std::uint64_t key_hash) { return sets_[SetNumberOf(key_hash)]; }
  /// Returns the way that holds the key's location; kWays: none does.
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
  std::unique_ptr<Set[]> sets_;  // null: the cache is off
  bool lacks_memory_ = false;
};

/// Budget for the READs that the location cache may waste: one READ for every kPrice useful ones, and a few
/// at once. It pays for a READ of a record that is not the value any more, and for a READ of generations.
/// With an empty budget, GETs ignore the cache and refill the budget.
///
/// So the loss is bounded where keys churn, and where GETs come so seldom that each would need its own READ
/// of generations. Every kPrice READs buy another try, so the client notices when the load changes.
///
/// Thread safety: none.
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
