// Whether the disk takes what is written to it.
#pragma once

#include "absl/status/status.h"
#include "store/engine/metrics.h"

namespace remora {

/// Remembers what became of the last write to the durable tier, and whether a sync has ever failed.
///
/// A disk that failed to sync leaves open what it has, and asking it again proves nothing. So a failed sync
/// is for good: the store takes no more writes. A write that failed is not: the next one may succeed.
///
/// Thread Safety: none; the writer's.
class DiskHealth {
 public:
  /// `metrics` outlive it.
  explicit DiskHealth(const Metrics& metrics) : metrics_(metrics) {}

  /// OK, or Unavailable: the store takes no more writes until it is opened again.
  const absl::Status& sync_failure() const { return sync_failure_; }
  /// OK, or Unavailable: why the last write or sync failed.
  const absl::Status& status() const { return status_; }

  void NoteSync(const absl::Status& sync);
  /// Notes the outcome of the tier's write of a group. Nothing of it counts once a sync has failed.
  void NoteWrite(const absl::Status& write);

 private:
  void SetStatus(const absl::Status& status);

  const Metrics& metrics_;
  absl::Status sync_failure_;
  absl::Status status_;
};

}  // namespace remora
