// Maintenance: the work that writes leave behind, and the work that becomes due with time.
//
// A group of writes causes debt: splits of the index for new keys, cleaning for appended bytes, and counters.
// The caller that waits for the outcomes need not wait for this work. The server pays the debt after it has
// sent the replies. If the debt becomes urgent before, the next group pays it first.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "store/base/clock.h"
#include "store/engine/core.h"
#include "store/engine/writer_lock.h"
#include "store/reclaim/space_manager.h"

namespace remora {

/// Owns the maintenance debt of a store.
///
/// Thread safety: any thread may call debt_is_due and has_expired. The writer calls the other functions, and
/// not while it commits a group.
class Maintenance {
 public:
  /// Makes maintenance without debt. Both arguments must outlive it.
  Maintenance(StoreCore& core, SpaceManager& space) : core_(core), space_(space) {}
  Maintenance(const Maintenance&) = delete;
  Maintenance& operator=(const Maintenance&) = delete;

  // --- Debt

  /// Counts a group of `writes` writes, and adds its debt. `keys` and `written` are the number of keys and of
  /// appended bytes before the group.
  void AddGroup(std::size_t writes, std::uint64_t keys, std::uint64_t written) REMORA_WRITER;
  /// Notes that the counters of sizes cannot wait, because other records than small ones were written or
  /// removed.
  void NoteSizes() REMORA_WRITER { debt_.sizes = true; }
  /// Makes the groups of one call count as debt from now on. `now` and `unix_ms`: when the groups came.
  void AddDebt(TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Returns whether the next group has to wait for PayDebt.
  bool DebtIsUrgent() const REMORA_WRITER;
  /// Pays the part of the debt that must keep pace with the writes.
  void PayDebt(TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Pays all debt, if there is any.
  void PayAllDebt() REMORA_WRITER;
  /// Returns whether PayAllDebt should be called soon.
  bool debt_is_due() const { return debt_is_due_.load(std::memory_order_relaxed); }

  // --- Work that is due

  /// Does a bounded step of the work that is due. False: there was nothing to do. REQUIRES: the caller calls
  /// Finish afterwards.
  bool RunOnce(TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Ends work outside a group: deletes the removed keys from the tier, starts grace periods, and sets
  /// counters.
  void Finish() REMORA_WRITER;
  /// Does Finish, and clears the debt. REQUIRES: all debt is paid.
  void FinishAll() REMORA_WRITER;
  /// Returns when RunOnce or PayAllDebt will next have something to do, if nothing else happens. Nothing:
  /// never.
  std::optional<TimePoint> NextDue() const REMORA_WRITER;

  /// Returns whether an expirer has work: records may have expired that are still to be removed.
  bool has_expired() const;
  /// Makes the expirers remove records sooner from now on, because a client watches changes.
  void SetWatched() REMORA_WRITER;

  /// Sets all counters of sizes.
  void SetSizeCounters() REMORA_WRITER;

 private:
  // Work that the groups since the last FinishAll have left.
  struct Debt {
    bool any = false;
    bool sizes = false;  // the counters of sizes cannot wait
    std::uint32_t groups = 0;
    TimePoint now;  // when the last group came
    std::int64_t unix_ms = 0;
    // Since the last PayDebt:
    std::uint64_t keys = 0;   // new keys
    std::uint64_t bytes = 0;  // bytes appended
    std::size_t writes = 0;   // writes done
  };

  void NoteDeletions() REMORA_WRITER;

  StoreCore& core_;
  SpaceManager& space_;
  Debt debt_ REMORA_WRITERS;
  std::atomic<bool> debt_is_due_ = false;                          // only the writer stores it
  std::atomic<std::int64_t> expiry_due_ms_ = Segments::kNoExpiry;  // when an expirer has work; likewise
};

}  // namespace remora
