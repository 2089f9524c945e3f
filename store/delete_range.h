// Deletion of a range of keys in bounded steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace remora {

class StoreEngine;
struct RangeOptions;

/// Deletes those keys of a range that had been written when it began (Store::BeginDeleteRange).
///
/// It commits groups of ordinary deletes. Each delete names the version that it is for, so writes that come
/// later stay. A deletion is not atomic: meanwhile a reader may find some of the keys deleted and others not.
///
/// Thread safety: none, but other threads may use the store meanwhile. The caller owns the deletion, and must
/// destroy it before the store.
class RangeDeletion {
 public:
  ~RangeDeletion();
  RangeDeletion(const RangeDeletion&) = delete;
  RangeDeletion& operator=(const RangeDeletion&) = delete;

  /// Deletes some more keys, at most one group. Returns false if none are left. Outcomes:
  ///   Aborted: there is no space right now; call it again later.
  ///   DataLoss, Unavailable: the durable tier cannot be read or written.
  absl::StatusOr<bool> Step();
  /// Deletes some more keys as Step does, but does not wait for the disk if the store's writes are synced. A
  /// later step then counts the deleted keys, and until then readers may still find them. Outcomes as for
  /// Step, and:
  ///   Aborted: the disk does not have yet the deletes of the step before; this step did nothing.
  absl::StatusOr<bool> StepWithoutWaiting();

  /// Returns how many keys it has deleted so far.
  std::uint64_t deleted() const { return deleted_; }

 private:
  friend class ServerStore;
  friend class Store;
  struct Rep;
  static absl::StatusOr<std::unique_ptr<RangeDeletion>> Begin(StoreEngine& engine,
                                                              const RangeOptions& options, bool may_wait);
  explicit RangeDeletion(std::unique_ptr<Rep> rep);
  absl::StatusOr<bool> Delete(bool wait);

  const std::unique_ptr<Rep> rep_;
  std::uint64_t deleted_ = 0;
};

}  // namespace remora
