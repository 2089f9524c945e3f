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

  /// Takes the size of the server's memory in bytes, and its grace period. `shared`: generations that other
  /// clients use, too, which must outlive this object or the next Begin; null: it makes its own. Call it
  /// before all others.
  void Begin(std::uint64_t memory_size, Duration grace, SegmentGenerations* shared) {
    memory_size_ = memory_size;
    generations_ = shared;
    own_generations_.reset();
    if (shared == nullptr) generations_ = &own_generations_.emplace(memory_size, grace);
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

  /// Returns the count of refreshes, for a later Learn; 0 before Begin.
  SegmentGenerations::Number refreshes() const { return generations_ == nullptr ? 0 : generations_->count(); }
  /// Caches the location of a key. REQUIRES: its live record was at `slot` at a moment of the call that the
  /// client has just made: during a READ of the record, or between request and reply. `refreshes` was the
  /// count before the READ or the request was posted (client/cache/segment_generations.h, G4).
  void Learn(std::uint64_t key_hash, const Slot& slot, SegmentGenerations::Number refreshes);

 private:
  std::uint64_t memory_size_ = 0;
  LocationCache locations_;
  SpeculationBudget budget_;
  std::optional<SegmentGenerations> own_generations_;
  SegmentGenerations* generations_ = nullptr;
};

}  // namespace remora
