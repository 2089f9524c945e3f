// Deleting a range of keys, a bounded bit at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "store/store.h"

namespace remora {

/// Deletes what had been written in a range when it began, key by key, as any other deletes, in groups. What
/// is written later stays: each delete names the version that it is for. Not atomic: who reads meanwhile may
/// find some of the keys gone and others not.
///
/// Thread Safety: none; the store may be used by others meanwhile. It must be destroyed before the store.
class RangeDeletion {
 public:
  ~RangeDeletion();
  RangeDeletion(const RangeDeletion&) = delete;
  RangeDeletion& operator=(const RangeDeletion&) = delete;

  /// Deletes some keys more: a group of them, at most. False: none are left. Aborted: no room right now, as
  /// a Write; call it again later. DataLoss, Unavailable: the durable tier cannot be read or written.
  absl::StatusOr<bool> Step();
  /// The same, without waiting for the disk where the store's writes are synced: what it deletes counts, and
  /// is gone for readers, at a later step. Aborted, too: the disk does not have yet what the step before
  /// deleted; nothing was done.
  absl::StatusOr<bool> StepWithoutWaiting();

  /// How many were deleted so far.
  std::uint64_t deleted() const { return deleted_; }

 private:
  friend class Store;
  struct Rep;
  explicit RangeDeletion(std::unique_ptr<Rep> rep);
  absl::StatusOr<bool> Delete(bool wait);

  const std::unique_ptr<Rep> rep_;
  std::uint64_t deleted_ = 0;
};

}  // namespace remora
