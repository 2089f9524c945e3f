// Large records: room that is filled in place, and runs for them (store/region/segments.h).
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"
#include "store/engine/core.h"
#include "store/engine/writer_lock.h"
#include "store/reclaim/maintenance.h"
#include "store/reclaim/space_manager.h"
#include "store/store.h"

namespace remora {

/// Reserves room for large records.
///
/// Thread Safety: Reserve and GiveBack take the store's lock; the rest is the writer's.
class LargeRecords {
 public:
  /// All three outlive it.
  LargeRecords(StoreCore& core, SpaceManager& space, Maintenance& maintenance)
      : core_(core), space_(space), maintenance_(maintenance) {}
  LargeRecords(const LargeRecords&) = delete;
  LargeRecords& operator=(const LargeRecords&) = delete;

  /// As Store::Reserve and Store::GiveBack.
  absl::StatusOr<Reservation> Reserve(std::size_t key_size, std::size_t value_size);
  void GiveBack(const Reservation& reservation);

  /// Returns where the record of a reservation is. Any thread.
  Place PlaceOf(const Reservation& reservation) const;
  /// Returns the length of the run that a write needs. 0: none.
  std::size_t RunOf(const Write& write) const REMORA_WRITER;

 private:
  StoreCore& core_;
  SpaceManager& space_;
  Maintenance& maintenance_;
};

}  // namespace remora
