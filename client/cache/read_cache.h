// What a client keeps of its GETs, so that the next ones are cheaper.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "client/cache/location_cache.h"
#include "client/cache/segment_generations.h"
#include "store/base/clock.h"
#include "store/format/memory/index_view.h"

namespace remora {

/// The locations of keys, the generations of the segments that these are in, and the budget for READs that
/// may turn out to be of no use.
///
/// Thread safety: none.
class ReadCache {
 public:
  /// `bytes`: for locations.
  explicit ReadCache(std::size_t bytes) : locations_(bytes) {}

  /// The server's memory has this size, and this grace period. Before anything else.
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

  /// The key's live record was at `slot` at a moment of the call that has just been made: of a READ of it, or
  /// between request and reply, with no READ of generations since that began
  /// (client/cache/segment_generations.h, G4).
  void Learn(std::uint64_t key_hash, const Slot& slot);

 private:
  std::uint64_t memory_size_ = 0;
  LocationCache locations_;
  SpeculationBudget budget_;
  std::optional<SegmentGenerations> generations_;
};

}  // namespace remora
