// Space for the records of large values: pages of segments (store/region/large_space.h) that a client or the
// caller fills in place.
#pragma once

#include <cstddef>
#include <span>

#include "absl/status/statusor.h"
#include "store/engine/core.h"
#include "store/engine/writer_lock.h"
#include "store/reclaim/maintenance.h"
#include "store/reclaim/space_manager.h"
#include "store/write/write.h"

namespace remora {

/// Reserves space for large records.
///
/// Thread safety: any thread may call Reserve, Release and PlaceOf; the first two take the store's lock. The
/// caller of RunOf and Release holds that lock.
class LargeRecords {
 public:
  /// All three arguments outlive this.
  LargeRecords(StoreCore& core, SpaceManager& space, Maintenance& maintenance)
      : core_(core), space_(space), maintenance_(maintenance) {}
  LargeRecords(const LargeRecords&) = delete;
  LargeRecords& operator=(const LargeRecords&) = delete;

  /// Implement ServerStore::Reserve and ServerStore::Release.
  absl::StatusOr<Reservation> Reserve(std::size_t key_size, std::size_t value_size);
  void Release(const Reservation& reservation);

  /// Releases the reservations of writes that end without being staged.
  void Release(std::span<const Write> writes) const REMORA_WRITER;

  /// Returns the place of a reservation's record.
  Place PlaceOf(const Reservation& reservation) const;
  /// Returns the bytes of memory that a write needs for a large record, or 0 if its record is small.
  std::uint64_t RunOf(const Write& write) const REMORA_WRITER;

 private:
  StoreCore& core_;
  SpaceManager& space_;
  Maintenance& maintenance_;
};

}  // namespace remora
