// Change feed of a store that is only in memory. It reads the store's change log (store/changes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/durable/change_log.h"
#include "store/engine/core.h"
#include "store/format/types/change.h"

namespace remora {

/// Returns the sequence at which a feed continues that was at `position`. Outcomes are those of Continue in
/// store/durable/change_log.h. OutOfRange: another store, or the same before a restart.
absl::StatusOr<std::uint64_t> ContinueInRing(const StoreCore& core, const ChangePosition& position,
                                             std::uint64_t end);

/// Cursor over the changes in a store's ChangeRing. It copies some at a time, under the store's lock, and
/// shows them without it. Its work under the lock is bounded by kMostChanges, and by kMostBytes of keys and
/// values or one change. The sequence of a change is its number in the ring.
class RingChangeFeed final : public ChangeLog {
 public:
  /// Makes a cursor from sequence `from` on. REQUIRES: the store has a change log; `core` outlives this.
  RingChangeFeed(const StoreCore& core, std::uint64_t from) : core_(core), position_(from) {}

  absl::StatusOr<Step> Next(std::uint64_t end, Change* change) override;
  std::uint64_t position() const override { return position_; }

 private:
  static constexpr std::size_t kMostChanges = 64;
  static constexpr std::size_t kMostBytes = std::size_t{16} << 10;

  /// Copies changes from position() to `end`. Returns OutOfRange if the first is not kept.
  absl::Status CopySome(std::uint64_t end);
  /// Copies as many of them as the buffer has space for. Stores the bytes of the first in *needed.
  absl::Status CopyWhatFits(std::uint64_t end, std::size_t* needed);

  const StoreCore& core_;
  std::uint64_t position_;
  std::unique_ptr<char[]> buffer_;
  std::size_t buffer_size_ = 0;
  std::vector<Change> copied_;  // whose bytes are in the buffer
  std::size_t shown_ = 0;       // of them
};

}  // namespace remora
