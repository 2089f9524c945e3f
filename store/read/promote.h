// Promotion: brings a record to memory that is only in the durable tier, as it was evicted, or is not loaded
// yet.
//
// What the tier says is so: a write is in it before the lock is given up, and so is the removal of what has
// expired, or else what is left there has expired.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "store/engine/core.h"
#include "store/engine/writer_lock.h"
#include "store/reclaim/maintenance.h"
#include "store/reclaim/space_manager.h"

namespace remora {

/// Thread Safety: none; the writer's. Not while a group is being committed.
class Promoter {
 public:
  /// All three outlive it.
  Promoter(StoreCore& core, SpaceManager& space, Maintenance& maintenance)
      : core_(core), space_(space), maintenance_(maintenance) {}

  /// Returns the place of the key's record, promoted if it is not in memory. It may have expired. NotFound.
  /// Aborted, ResourceExhausted: no room, as for a write. Unavailable, DataLoss: the tier cannot be read.
  absl::StatusOr<Place> FindOrPromote(std::string_view key, std::uint64_t key_hash) REMORA_WRITER;

 private:
  /// Appends the record of a key that is not in memory; nothing leads to it yet. `entry`: of the cold key.
  /// NotFound: that is another key's entry, or it has expired. Aborted: no room; `run` is the length of the
  /// run that it takes.
  absl::StatusOr<Place> Append(std::string_view key, std::uint64_t key_hash,
                               const std::optional<Index::ColdEntry>& entry, TimePoint now,
                               std::int64_t unix_ms, std::size_t* run) REMORA_WRITER;

  StoreCore& core_;
  SpaceManager& space_;
  Maintenance& maintenance_;
};

}  // namespace remora
