// State that a client keeps from its GETs, to make the next ones cheaper.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "client/cache/location_cache.h"
#include "client/cache/segment_generations.h"
#include "store/base/clock.h"
#include "store/format/memory/index_view.h"

namespace remora {

/// The locations of keys, the generations of their segments, and the budget for READs that may be useless.
///
/// Thread safety: none.
class ReadCache {
 public:
  /// Makes a cache with `bytes` for locations.
  explicit ReadCache(std::size_t bytes) : locations_(bytes) {}

  /// Takes the size of the server's memory in bytes, and its grace period. Call it before all others.
  void Begin(std::uint64_t memory_size, Duration grace) {
    memory_size_ = memory_size;
    generations_.emplace(memory_size, grace);
  }
  void Forget() {
    locations_.Clear();
    budget_ = {};
  }

  LocationCache& locations() { return locations_; }
  const LocationCache& locations() const { return locations_; }
  SpeculationBudget& budget() { return budget_; }
  // REQUIRES: Begin.
  SegmentGenerations& generations() { return *generations_; }
  const SegmentGenerations& generations() const { return *generations_; }

  /// Caches the location of a key. REQUIRES: its live record was at `slot` at a moment of the call that the
  /// client has just made: during a READ of the record, or between request and reply. Since then the client
  /// has begun no READ of generations (client/cache/segment_generations.h, G4).
  void Learn(std::uint64_t key_hash, const Slot& slot);

 private:
  std::uint64_t memory_size_ = 0;
  LocationCache locations_;
  SpeculationBudget budget_;
  std::optional<SegmentGenerations> generations_;
};

}  // namespace remora
