// The counters of a store, in its superblock, where clients READ them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "store/format/memory/layout.h"
#include "store/region/atomic_word.h"

namespace remora {

/// Counts what a store does, and what it holds. All accesses are relaxed: each counter is a number of its
/// own, and nothing is concluded from it about anything else.
///
/// Thread Safety: any thread; but one thread at a time writes a counter with Set and CountOne, and nobody
/// uses Add on it.
class Metrics {
 public:
  /// The superblock outlives it.
  explicit Metrics(Superblock& superblock) : superblock_(superblock) {}

  void Add(Counter counter, std::int64_t delta) const {
    std::atomic_ref(At(counter)).fetch_add(static_cast<std::uint64_t>(delta), std::memory_order_relaxed);
  }
  void Set(Counter counter, std::uint64_t value) const {
    StoreWord(At(counter), value, std::memory_order_relaxed);
  }
  /// Adds one without the barrier that Add is, which would wait for all stores before it.
  void CountOne(Counter counter) const { Set(counter, Read(counter) + 1); }
  std::uint64_t Read(Counter counter) const { return LoadWord(At(counter), std::memory_order_relaxed); }

  /// Returns all counters, by name, in a fixed order.
  std::vector<std::pair<std::string, std::uint64_t>> ReadAll() const;

 private:
  std::uint64_t& At(Counter counter) const { return superblock_.counters[static_cast<std::size_t>(counter)]; }

  Superblock& superblock_;
};

}  // namespace remora
