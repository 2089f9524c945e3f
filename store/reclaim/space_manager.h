// Memory for what is written: how much of it is to be free, and what is done where it is not.
//
// What makes memory free, in the order in which it is tried: memory that was retired comes free after its
// grace period; what has expired is removed; segments of which much is dead are cleaned; what was not used
// lately is evicted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "store/base/clock.h"
#include "store/engine/core.h"
#include "store/engine/writer_lock.h"
#include "store/reclaim/cleaner.h"
#include "store/reclaim/cold_expirer.h"
#include "store/reclaim/evictor.h"
#include "store/reclaim/expirer.h"
#include "store/store.h"

namespace remora {

/// What became of an attempt to make space.
enum class SpaceResult : std::uint8_t {
  kAvailable = 1,
  kRetryLater = 2,  // retired memory will be free after its grace period
  kFull = 3,
};

/// Owns what makes memory free: the expirers, the evictor and the cleaner.
///
/// Thread Safety: none; the writer's. MakeSpace and MakeRun: not while a group is being committed, as for the
/// cleaner.
class SpaceManager {
 public:
  /// Bytes that the cleaner looks at for each byte written, when memory is low: as much as it takes where
  /// nine tenths of what it looks at are live.
  static constexpr std::uint64_t kCleanPace = 10;
  /// A bounded bit of work: about a millisecond of records of 100 bytes.
  static constexpr std::uint64_t kBitOfCleaning = std::uint64_t{256} << 10;

  /// `core` outlives it.
  SpaceManager(StoreCore& core, const StoreOptions& options);

  Expirer& expirer() { return expirer_; }
  ColdExpirer& cold_expirer() { return cold_expirer_; }
  Evictor& evictor() { return evictor_; }
  const Evictor& evictor() const { return evictor_; }
  Cleaner& cleaner() { return cleaner_; }

  /// Makes sure that a segment is free for a write.
  SpaceResult MakeSpace(TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Does a bit of the work that it takes to have a run of this length.
  SpaceResult MakeRun(std::size_t length, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Returns kRetryLater in place of kFull, where there may be space when what is reserved is given back, or
  /// becomes a record that can be evicted. Not for writes: a reservation would hold up all of them. `run`: 0,
  /// or the run's length.
  SpaceResult OrWhenGivenBack(SpaceResult result, std::size_t run) const REMORA_WRITER;

  /// Frees what was retired a grace period ago.
  void ReleaseRetired(TimePoint now) REMORA_WRITER;
  /// Starts the grace period of all that was retired since the last call.
  void StartGracePeriod() REMORA_WRITER;

  /// Returns how many segments are to be free, or retired.
  std::size_t WantedFree() const REMORA_WRITER {
    return std::max(kMinFree, core_.segments.count() / kFreeShare);
  }
  /// Whether so little is free that it is time to clean.
  bool MemoryIsLow() const REMORA_WRITER {
    const std::size_t so_far = core_.segments.free_count() + core_.segments.retired_count();
    return so_far < std::max(WantedFree(), raised_target_);
  }

  /// Returns the error of a write for which there is no space, and will be none; and that of one that needs a
  /// run of this length.
  absl::Status FullError() const REMORA_WRITER;
  absl::Status NoRunError(std::size_t length) const REMORA_WRITER;

 private:
  // Of all segments, those that cleaning keeps free, or retired and so free soon: what is written meanwhile
  // goes there.
  static constexpr std::size_t kFreeShare = 64;
  static constexpr std::size_t kMinFree = 3;

  /// Evicts a large record that was not used lately, if there is one. False: none, or eviction is off.
  bool EvictLarge(TimePoint now) REMORA_WRITER;
  /// Writers wait for retired memory: has more of it evicted, and so retired, ahead of them.
  void RaiseFreeTarget(TimePoint now) REMORA_WRITER;

  StoreCore& core_;
  Expirer expirer_;
  ColdExpirer cold_expirer_;
  Evictor evictor_;
  Cleaner cleaner_;
  std::size_t raised_target_ REMORA_WRITERS = 0;  // segments to be free or retired, until then
  TimePoint raised_until_ REMORA_WRITERS;
};

}  // namespace remora
