// Maintenance: what writes leave to be done, and what time alone makes due.
//
// A group of writes leaves debt: splits of the index for new keys, cleaning for bytes appended, counters. The
// caller that waits for the outcomes need not wait for that: the debt is paid when the replies are sent, or
// else by the next groups, before they get ahead of it.
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
/// Thread Safety: debt_is_due and has_expired from any thread; all else is the writer's, and not for while a
/// group is being committed.
class Maintenance {
 public:
  /// Both outlive it.
  Maintenance(StoreCore& core, SpaceManager& space) : core_(core), space_(space) {}
  Maintenance(const Maintenance&) = delete;
  Maintenance& operator=(const Maintenance&) = delete;

  // --- Debt

  /// Counts a group of `writes`, before which there were `keys` keys, and `written` bytes appended; adds what
  /// it leaves to be done.
  void AddGroup(std::size_t writes, std::uint64_t keys, std::uint64_t written) REMORA_WRITER;
  /// Notes that more than small records have come and gone: the counters of sizes cannot wait.
  void NoteSizes() REMORA_WRITER { debt_.sizes = true; }
  /// Ends the groups of one call, as of the moment when they came: from now on there is debt.
  void AddDebt(TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Whether the next group has to wait for PayDebt.
  bool DebtIsUrgent() const REMORA_WRITER;
  /// Pays, of all debt, what no group may get ahead of.
  void PayDebt(TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Pays all debt, if there is any.
  void PayAllDebt() REMORA_WRITER;
  /// Whether PayAllDebt should be called soon.
  bool debt_is_due() const { return debt_is_due_.load(std::memory_order_relaxed); }

  // --- Work that is due

  /// Does a bounded bit of what is due. False: there was nothing to do. REQUIRES: Finish afterwards.
  bool RunOnce(TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Ends all work that is not a group's: deletes from the tier what was removed, starts grace periods, sets
  /// counters.
  void Finish() REMORA_WRITER;
  /// The same, where all debt was paid with it.
  void FinishAll() REMORA_WRITER;
  /// When RunOnce or PayAllDebt will have something to do, if nothing else happens. Nothing: never.
  std::optional<TimePoint> NextDue() const REMORA_WRITER;

  /// Whether a record has expired, and is to be removed soon.
  bool has_expired() const;
  /// From now on, changes are watched: what expires is removed soon.
  void SetWatched() REMORA_WRITER;

  /// Sets all counters of sizes.
  void SetSizeCounters() REMORA_WRITER;

 private:
  // What the writes since the last time that it was paid have left to be done.
  struct Debt {
    bool any = false;
    bool sizes = false;  // the counters of sizes cannot wait
    std::uint32_t groups = 0;
    TimePoint now;  // when the last of them came
    std::int64_t unix_ms = 0;
    std::uint64_t keys = 0;   // that are new,
    std::uint64_t bytes = 0;  // appended,
    std::size_t writes = 0;   // done; of all three, what PayDebt has not seen
  };

  void NoteDeletions() REMORA_WRITER;

  StoreCore& core_;
  SpaceManager& space_;
  Debt debt_ REMORA_WRITERS;
  std::atomic<bool> debt_is_due_ = false;                          // written by the writer
  std::atomic<std::int64_t> expiry_due_ms_ = Segments::kNoExpiry;  // when the expirers go on; likewise
};

}  // namespace remora
