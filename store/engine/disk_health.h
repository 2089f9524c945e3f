// The health of the disk: whether it takes writes.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "store/base/clock.h"
#include "store/engine/metrics.h"

namespace remora {

/// Remembers the outcome of the last write to the durable tier, and whether a sync (fsync) has ever failed.
///
/// After a failed sync, it is unknown which writes the disk has, and a second fsync proves nothing. So a
/// failed sync is final: the store takes no more writes. A failed write is final only if it is unknown
/// whether the disk has it (NoteUnknownWrite). Otherwise the next one may succeed, unless the commit log or
/// RocksDB rejects it.
///
/// Thread safety: none; only the writer uses it.
class DiskHealth {
 public:
  /// `metrics` outlive it.
  explicit DiskHealth(const Metrics& metrics) : metrics_(metrics) {}

  /// Returns OK, or the error of the first failed sync. Unavailable: the store takes no more writes until it
  /// is opened again.
  const absl::Status& sync_failure() const { return sync_failure_; }
  /// Returns OK, or why the last write failed or a sync has failed (Unavailable).
  const absl::Status& status() const { return status_; }

  /// Counts a call of fsync, and notes its outcome.
  void NoteSync(const absl::Status& sync);
  /// Notes a failed write of which it is unknown whether the disk has it. It is final, as a failed sync is.
  void NoteUnknownWrite(const absl::Status& write);
  /// Notes the outcome of the tier's write of a group. Has no effect once a sync has failed.
  void NoteWrite(const absl::Status& write);

  /// Returns when the store should find out whether the disk takes writes again (DurableTier::TryToWrite), if
  /// no write comes before. Nothing: never.
  std::optional<TimePoint> next_try() const { return next_try_; }
  /// Sets next_try() after a write that failed. Call it now and then.
  void PlanTry(TimePoint now);
  /// Notes the outcome of a try at `now`. A failure changes nothing.
  void NoteTry(const absl::Status& outcome, TimePoint now);

 private:
  void SetStatus(const absl::Status& status);

  const Metrics& metrics_;
  absl::Status sync_failure_;
  absl::Status status_;
  std::optional<TimePoint> next_try_;
};

}  // namespace remora
