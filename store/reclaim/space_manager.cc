#include "store/reclaim/space_manager.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "store/base/check.h"
#include "store/base/shortage.h"
#include "store/base/status_macros.h"
#include "store/base/tsan.h"

namespace remora {
namespace {

// The raised target is at most 1/kMaxRaisedShare of the segments. It holds for kRaiseFor grace periods after
// a writer last waited for space.
constexpr std::size_t kMaxRaisedShare = 4;
constexpr int kRaiseFor = 10;

// A run that is made ahead of need takes at most 1/kMaxAheadShare of the segments.
constexpr std::size_t kMaxAheadShare = 16;

// Holes between large records that make it worth to move some of these: 1/kHolesShare of the memory in which
// large records are.
constexpr std::uint64_t kHolesShare = 8;

// Bytes of records that the cleaner looks at in one call of MakeRun: some milliseconds of work.
constexpr std::uint64_t kBitOfEmptying = std::uint64_t{4} << 20;

std::size_t SegmentsOf(std::uint64_t bytes) { return (bytes + kSegmentSize - 1) / kSegmentSize; }

Evictor::Mode ModeOf(const StoreOptions& options) {
  if (options.eviction == Eviction::kNone) return Evictor::Mode::kOff;
  return options.durability == Durability::kMemory ? Evictor::Mode::kDrop : Evictor::Mode::kMarkCold;
}

}  // namespace

SpaceManager::SpaceManager(StoreCore& core, const StoreOptions& options)
    : core_(core),
      expirer_(core.segments, core.log, core.index, core.ordered.get(), core.tier.get(), core.changes.get(),
               core.unsynced_keys, core.follows),
      cold_expirer_(core.tier.get(), core.index, expirer_, core.slots, core.coverage, core.unsynced_keys),
      evictor_(ModeOf(options), core.segments, core.log, core.index, core.ordered.get(), cold_expirer_,
               core.frequency, core.tier.get(), core.changes.get(), core.unsynced_keys),
      cleaner_(core.segments, core.log, core.index, expirer_, evictor_) {}

void SpaceManager::ReleaseRetired(TimePoint now) {
  if (raised_until_ <= now) raised_target_ = 0;
  TimeHasPassed(&core_);  // tells ThreadSanitizer that readers in time are done with the memory freed here
  core_.index.Tick(now);
  // If the index still has a slot to clear, that slot may name a segment that was retired at the same moment
  // or later. Such a segment must not become free yet.
  const std::optional<TimePoint> left = core_.index.next_tick();
  core_.segments.Release(left && *left <= now ? *left - Duration(1) : now);
}

// The grace period begins when nothing leads to the memory any more. So the clock is read at the end of a
// piece of work, because a disk or this thread may have stalled since its begin. The writer calls this before
// it gives up the lock, because another thread may then release memory that was retired long enough ago.
void SpaceManager::StartGracePeriod() {
  if (!core_.index.has_retired() && !core_.segments.has_retired()) return;
  const TimePoint now = core_.clock.Now();
  core_.index.StartGracePeriod(now);
  core_.segments.StartGracePeriod(now);
}

// Memory that is evicted sooner is free sooner.
void SpaceManager::RaiseFreeTarget(TimePoint now) {
  if (!evictor_.is_on()) return;
  const std::size_t so_far = core_.segments.free_count() + core_.segments.retired_count();
  raised_target_ = std::min(2 * so_far, core_.segments.count() / kMaxRaisedShare);
  raised_until_ = now + kRaiseFor * core_.grace;
}

SpaceResult SpaceManager::MakeSpace(TimePoint now, std::int64_t unix_ms) {
  // Expired records come first, because they need not be moved. Other clients wait meanwhile, so large
  // records are moved in steps.
  const std::uint64_t moved = core_.log.bytes_appended(ValueLog::Head::kMoves);
  while (core_.segments.free_count() <= Segments::kReserve && MemoryIsLow() &&
         (expirer_.Work(kBitOfCleaning, Expirer::Pace::kHurry, now, unix_ms) ||
          Clean(kBitOfCleaning, now, unix_ms) || EvictLarge(now) || cleaner_.EmptyLarge(unix_ms))) {
    const bool is_enough = core_.log.bytes_appended(ValueLog::Head::kMoves) - moved >= kBitOfEmptying;
    if (cleaner_.is_moving_large() || (is_enough && core_.segments.retired_count() > 0)) break;
  }
  // Segments that are kept for a run must not make the store full.
  if (core_.segments.free_count() <= Segments::kReserve && core_.segments.retired_count() == 0 &&
      !cleaner_.is_moving_large()) {
    core_.segments.CancelRun();
  }
  if (core_.segments.free_count() > Segments::kReserve) return SpaceResult::kAvailable;
  // The cleaner can make segments of the holes that retired large records leave.
  if (core_.segments.retired_count() > 0 || core_.segments.RetiredLargeMayHelp() ||
      cleaner_.is_moving_large()) {
    RaiseFreeTarget(now);
    return SpaceResult::kRetryLater;
  }
  return SpaceResult::kFull;
}

bool SpaceManager::Clean(std::uint64_t bytes, TimePoint now, std::int64_t unix_ms) {
  const LargeSpace& large = core_.segments.large();
  const bool is_worth_it =
      large.hole_bytes() >= std::max<std::uint64_t>(2, large.owned_count() / kHolesShare) * kSegmentSize;
  return ((is_worth_it || cleaner_.is_emptying_large()) && cleaner_.EmptyLarge(unix_ms)) ||
         cleaner_.Work(bytes, now, unix_ms);
}

// --- Runs -----------------------------------------------------------------------------------------------

SpaceResult SpaceManager::MakeRun(std::uint64_t bytes, TimePoint now, std::int64_t unix_ms) {
  const std::size_t length = SegmentsOf(bytes);
  if (core_.segments.HasLarge(bytes)) return SpaceResult::kAvailable;
  if (length > core_.segments.max_run()) return SpaceResult::kFull;
  bool worked = expirer_.Work(kBitOfEmptying, Expirer::Pace::kHurry, now, unix_ms);
  BeginRun(length, now);
  // The cleaner moves records that are in the way of the run. Otherwise, while enough memory is about to
  // become free, the store only waits: an eviction would be useless.
  if (core_.segments.IsRunInUse()) {
    worked |= cleaner_.Work(kBitOfEmptying, now, unix_ms);
  } else if (!core_.segments.HasEnoughFor(length) || core_.segments.retired_count() == 0) {
    // The records that make way are of the kind, large or small, that takes more of the memory.
    const bool large_first = core_.segments.large_bytes() * 2 > core_.segments.live_bytes();
    worked |= (large_first && EvictLarge(now)) || cleaner_.Work(kBitOfEmptying, now, unix_ms) ||
              EvictLarge(now) || cleaner_.EmptyLarge(unix_ms) || JoinHoles(bytes, now, unix_ms);
  }
  if (core_.segments.HasLarge(bytes)) return SpaceResult::kAvailable;
  if (worked || core_.segments.retired_count() > 0 || core_.segments.has_retired_large()) {
    RaiseFreeTarget(now);
    return SpaceResult::kRetryLater;
  }
  core_.segments.CancelRun();
  return core_.segments.HasLarge(bytes) ? SpaceResult::kAvailable : SpaceResult::kFull;
}

// The gain of a move is known only when the memory that the last move retired is free. So there is one move
// in each grace period.
bool SpaceManager::JoinHoles(std::uint64_t bytes, TimePoint now, std::int64_t unix_ms) {
  if (!core_.segments.HasBytesFor(bytes) || now < next_join_) return false;
  if (!cleaner_.JoinHoles(bytes, unix_ms)) return false;
  next_join_ = now + 2 * core_.grace;
  return true;
}

// The store makes one run at a time, and each takes a grace period. So while writers wait for one run after
// the other, each run is twice as long as the one before, and serves several of them.
void SpaceManager::BeginRun(std::size_t length, TimePoint now) {
  if (core_.segments.is_making_run()) {
    core_.segments.MakeRun(length, now);
    return;
  }
  if (ahead_until_ < now) ahead_ = 0;
  std::size_t want = std::max(length, std::min(2 * ahead_, core_.segments.count() / kMaxAheadShare));
  while (!core_.segments.MakeRun(want, now) && want > length) want = std::max(length, want / 2);
  if (!core_.segments.is_making_run()) return;
  ahead_ = want;
  ahead_until_ = now + kRaiseFor * core_.grace;
}

SpaceResult SpaceManager::OrWhenGivenBack(SpaceResult result, std::uint64_t bytes) const {
  if (result != SpaceResult::kFull || SegmentsOf(bytes) > core_.segments.max_run()) return result;
  return core_.segments.large().AnyFixed() ? SpaceResult::kRetryLater : SpaceResult::kFull;
}

bool SpaceManager::EvictLarge(TimePoint now) {
  if (!evictor_.is_on()) return false;
  // The store passes over a few large records that were used since they were written; they go to the end of
  // the queue.
  constexpr std::size_t kMaxPassedOver = 8;
  const std::size_t count = core_.segments.large().count();
  std::size_t to_pass_over = std::min(kMaxPassedOver, count);
  for (std::size_t i = 0; i < 2 * count; ++i) {
    const Place place = core_.log.At(core_.segments.large().Oldest());
    core_.segments.RenewLarge(place.offset_bytes());
    if (!core_.log.IsLive(place)) continue;  // reserved, or staged
    const std::string_view key = core_.log.Key(place);
    const std::uint64_t key_hash = HashKey(key);
    if (to_pass_over > 0 && core_.frequency.Of(key_hash) > 1) {
      --to_pass_over;
      continue;
    }
    const std::optional<Index::Entry> entry = core_.index.Find(key, key_hash);
    REMORA_CHECK(entry.has_value() &&
                 entry->place == place);  // a live record is the one that the index names
    if (evictor_.Evict(key_hash, *entry, now)) return true;
  }
  return false;
}

absl::Status SpaceManager::DiskError() const {
  const absl::Status disk = core_.tier == nullptr ? absl::OkStatus() : core_.tier->apply_status();
  if (disk.ok()) return disk;
  return WithMarksOf(disk, absl::Status(disk.code(), absl::StrCat("the memory is full, and records cannot "
                                                                  "leave it: ",
                                                                  disk.message())));
}

absl::Status SpaceManager::FullError() const {
  REMORA_RETURN_IF_ERROR(DiskError());
  return absl::ResourceExhaustedError(
      absl::StrCat("the memory is full: of ", core_.shape.memory_size, " bytes, records take ",
                   core_.log.bytes_used(), ", ", core_.log.bytes_dead(), " of them dead, and the index of ",
                   core_.index.entry_count(), " keys takes ", core_.index.segment_count() * kSegmentSize,
                   "; delete keys, or open with more memory (--memory)"));
}

absl::Status SpaceManager::NoRunError(std::uint64_t bytes) const {
  const std::size_t length = SegmentsOf(bytes);
  const std::size_t most = core_.segments.max_run();
  if (length > most) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "large value: it needs ", length, " MiB in one piece, and a memory of ", core_.shape.memory_size,
        " bytes has ", most, " at most; open with more memory (--memory)"));
  }
  REMORA_RETURN_IF_ERROR(DiskError());
  return absl::ResourceExhaustedError(absl::StrCat(
      "large value: no space for ", length, " MiB in one piece: of ", core_.shape.memory_size, " bytes, ",
      core_.segments.free_count() * kSegmentSize, " are free, holes between large records take ",
      core_.segments.large().hole_bytes(), ", and records take ", core_.log.bytes_used(),
      "; delete keys, large ones above all, or open with more memory (--memory)"));
}

}  // namespace remora
