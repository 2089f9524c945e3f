// Memory for writes: how much of it should be free, and how the store makes it free.
//
// The store tries the following, in this order:
//
//   1. Retired memory becomes free after its grace period.
//   2. The expirer removes expired records.
//   3. The cleaner cleans segments with many dead bytes.
//   4. The evictor evicts records that were not used lately.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "store/base/clock.h"
#include "store/engine/core.h"
#include "store/engine/writer_lock.h"
#include "store/options.h"
#include "store/reclaim/cleaner.h"
#include "store/reclaim/cold_expirer.h"
#include "store/reclaim/evictor.h"
#include "store/reclaim/expirer.h"

namespace remora {

/// Result of trying to free memory for a write.
enum class SpaceResult : std::uint8_t {
  kAvailable = 1,   // there is memory
  kRetryLater = 2,  // work is left to do, or retired memory becomes free after its grace period
  kFull = 3,        // the memory is full
};

/// Owner of the expirers, the evictor and the cleaner, which make memory free.
///
/// Thread safety: none; used by the writer. It calls MakeSpace and MakeRun not while it commits a group,
/// because they call the cleaner.
class SpaceManager {
 public:
  /// Bytes that the cleaner looks at for each byte written when memory is low. With this pace it frees a byte
  /// for each byte written even if nine tenths of the bytes that it looks at are live.
  static constexpr std::uint64_t kCleanPace = 10;
  /// Bytes of records in one step of the cleaner: about a millisecond of work with records of 100 bytes.
  static constexpr std::uint64_t kBitOfCleaning = std::uint64_t{256} << 10;

  /// Makes a space manager. `core` must outlive it.
  SpaceManager(StoreCore& core, const StoreOptions& options);

  Expirer& expirer() { return expirer_; }
  const Expirer& expirer() const { return expirer_; }
  ColdExpirer& cold_expirer() { return cold_expirer_; }
  const ColdExpirer& cold_expirer() const { return cold_expirer_; }
  Evictor& evictor() { return evictor_; }
  const Evictor& evictor() const { return evictor_; }
  Cleaner& cleaner() { return cleaner_; }

  /// Tries to have a segment free for a write. Works until one is free, or enough memory is retired.
  SpaceResult MakeSpace(TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Does a step of the cleaner's work, as Cleaner::Work. If holes between large records take much memory,
  /// the cleaner empties a segment of these first.
  bool Clean(std::uint64_t bytes, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Does a step of the work that a large record of `bytes` bytes needs. The caller calls again after
  /// kRetryLater.
  SpaceResult MakeRun(std::uint64_t bytes, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Returns kRetryLater in place of kFull if memory is reserved for a large record. When that is given back,
  /// or becomes a record that can be evicted, there may be space. Not for writes: one reservation would delay
  /// all of them. `bytes`: those of the large record that the caller needs, or 0.
  SpaceResult OrWhenGivenBack(SpaceResult result, std::uint64_t bytes) const REMORA_WRITER;

  /// Frees memory that was retired long enough ago.
  void ReleaseRetired(TimePoint now) REMORA_WRITER;
  /// Starts the grace period of all memory that was retired since the last call.
  void StartGracePeriod() REMORA_WRITER;

  /// Returns how many segments should be free or retired.
  std::size_t WantedFree() const REMORA_WRITER {
    return std::max(kMinFree, core_.segments.count() / kFreeShare);
  }
  /// Returns whether fewer segments than wanted are free or retired, so that it is time to clean.
  bool MemoryIsLow() const REMORA_WRITER {
    const std::size_t so_far = core_.segments.free_count() + core_.segments.retired_count();
    return so_far < std::max(WantedFree(), raised_target_);
  }

  /// Returns whether records are being moved to make a run, or to close holes between large records.
  bool HasBegunToMove() const REMORA_WRITER {
    return core_.segments.IsRunInUse() || cleaner_.is_moving_large() || cleaner_.is_emptying_large();
  }

  /// Returns the error for a write when the memory is full.
  absl::Status FullError() const REMORA_WRITER;
  /// Returns the error for a write of a large record of `bytes` bytes when no memory for it can be made.
  absl::Status NoRunError(std::uint64_t bytes) const REMORA_WRITER;

 private:
  // The cleaner keeps 1/kFreeShare of all segments, and at least kMinFree, free or retired, so that writes
  // have space while it works.
  static constexpr std::size_t kFreeShare = 64;
  static constexpr std::size_t kMinFree = 3;

  /// Returns OK, or why no record may leave memory now: the disk fails.
  absl::Status DiskError() const REMORA_WRITER;
  /// Evicts a large record that was not used lately. False: no large record can be evicted, or eviction is
  /// off.
  bool EvictLarge(TimePoint now) REMORA_WRITER;
  /// Does a step to join holes, if these and the free segments have `bytes` bytes. False: it would not help,
  /// or it has to wait.
  bool JoinHoles(std::uint64_t bytes, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Begins to make a run of at least `length` segments, unless one is being made.
  void BeginRun(std::size_t length, TimePoint now) REMORA_WRITER;
  /// Raises the number of segments to keep free or retired for a while, because writers wait for retired
  /// memory. The store then evicts, and so retires, more memory ahead of them.
  void RaiseFreeTarget(TimePoint now) REMORA_WRITER;

  StoreCore& core_;
  Expirer expirer_;
  ColdExpirer cold_expirer_;
  Evictor evictor_;
  Cleaner cleaner_;
  std::size_t raised_target_ REMORA_WRITERS = 0;  // segments to keep free or retired until raised_until_
  TimePoint raised_until_ REMORA_WRITERS;
  TimePoint next_join_ REMORA_WRITERS;    // when the holes may be joined next
  std::size_t ahead_ REMORA_WRITERS = 0;  // segments of the last run that was made, until ahead_until_
  TimePoint ahead_until_ REMORA_WRITERS;
};

}  // namespace remora
