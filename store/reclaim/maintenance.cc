// Housekeeping: freeing what has rested, removing what has expired, cleaning when memory is short.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/tsan.h"
#include "store/engine/store_impl.h"

namespace remora {
namespace {

// Of all segments, those that cleaning keeps free, or resting and so free soon: what is written meanwhile
// goes there.
constexpr std::size_t kFreeShare = 64;
constexpr std::size_t kMinFree = 3;

// At most this share of the segments is free or rests while writers wait for room, and for so many grace
// periods after.
constexpr std::size_t kMaxAheadShare = 4;
constexpr int kGoAheadFor = 10;

// With less than this free, and more than this of the log alive, it is worth knowing which keys are used:
// some of the others will have to go. What is dead goes first: nothing is evicted where a quarter of a
// segment is. Once something has been evicted, free is what was evicted ahead of writers, and no sign of
// room.
constexpr std::size_t kFillingShare = 4;
constexpr std::size_t kAliveShare = 2;

// A bounded bit of work: about a millisecond of records of 100 bytes.
constexpr std::uint64_t kBitOfCleaning = std::uint64_t{256} << 10;
// Less, because each removal costs a deletion on disk.
constexpr std::uint64_t kBitOfSweeping = std::uint64_t{64} << 10;
// Entries of the durable tier.
constexpr std::size_t kBitOfColdSweeping = 500;

// As kCleanPace, for expired records, which are removed as they come due; at least so many for each group.
constexpr std::uint64_t kSweepPace = 8;
constexpr std::uint64_t kMinSweep = 512;
// Entries of the durable tier for each write, while it is being read through.
constexpr std::size_t kColdSweepPace = 4;

// Groups of writes that leave nothing pressing, between two times that CatchUp does what they do.
constexpr std::uint32_t kGroupsPerCatchUp = 16;
constexpr std::size_t kMostWritesOwed = 256;

}  // namespace

bool Store::Impl::Work() {
  std::unique_lock lock(core_.mutex);
  const TimePoint now = core_.clock.Now();
  const bool worked = WorkLocked(now, core_.clock.UnixMillisAt(now));
  FinishWork();
  OweNothing();
  TellAll(lock);
  return worked;
}

void Store::Impl::CatchUp() {
  if (!catch_up_is_due_.load(std::memory_order_relaxed)) return;
  std::unique_lock lock(core_.mutex);
  CatchUpLocked();
  TellAll(lock);
}

// As of when the writes came: a look at the clock less, and nothing is freed that has not rested.
void Store::Impl::CatchUpLocked() {
  if (!owed_.any) return;
  Release(owed_.now);
  KeepPace(owed_.now, owed_.unix_ms);
  FinishWork();
  OweNothing();
}

void Store::Impl::OweNothing() {
  owed_ = {};
  catch_up_is_due_.store(false, std::memory_order_relaxed);
}

// What may wait for a few groups, or for a moment without any (Work): memory that has rested, what has
// expired, the counters.
void Store::Impl::Owe(TimePoint now, std::int64_t unix_ms) {
  if (std::exchange(owed_.sizes, false)) SetSizeCounters();
  owed_.any = true;
  owed_.now = now;
  owed_.unix_ms = unix_ms;
  const bool is_due = ++owed_.groups >= kGroupsPerCatchUp || IsPressing();
  catch_up_is_due_.store(is_due, std::memory_order_relaxed);
}

void Store::Impl::NoteGroup(std::size_t writes, std::uint64_t keys, std::uint64_t written) {
  core_.metrics.CountOne(Counter::kCommitGroups);
  // Who was answered may count what he wrote.
  if (core_.index.entry_count() != keys) core_.metrics.Set(Counter::kKeys, core_.index.entry_count());
  core_.metrics.Set(Counter::kLastVersion, core_.next_version - 1);
  if (core_.index.entry_count() > keys) owed_.keys += core_.index.entry_count() - keys;
  owed_.bytes += core_.log.bytes_appended(ValueLog::Head::kWrites) - written;
  owed_.writes += writes;
}

bool Store::Impl::IsPressing() const {
  return owed_.keys > 0 || owed_.writes >= kMostWritesOwed || (owed_.bytes > 0 && Short());
}

// At the pace of what was written: a split for each new key, and when memory is short, as many bytes looked
// at as lets the cleaner keep up.
void Store::Impl::KeepPace(TimePoint now, std::int64_t unix_ms) {
  if (owed_.writes == 0) return;
  if (owed_.keys > 0) core_.index.Grow(owed_.keys, now);
  sweeper_.Work(std::max(kSweepPace * owed_.bytes, kMinSweep), Sweeper::Pace::kDue, now, unix_ms);
  cold_sweep_.Work(kColdSweepPace * owed_.writes, now, unix_ms);
  if (Short()) cleaner_.Work(kCleanPace * owed_.bytes, now, unix_ms);
  owed_.keys = owed_.bytes = owed_.writes = 0;
}

bool Store::Impl::WorkLocked(TimePoint now, std::int64_t unix_ms) {
  Release(now);
  KeepPace(now, unix_ms);
  PublishSynced(now, unix_ms);
  bool worked = sweeper_.Work(kBitOfSweeping, Sweeper::Pace::kDue, now, unix_ms);
  worked |= cold_sweep_.Work(kBitOfColdSweeping, now, unix_ms);
  if (Short() || core_.segments.IsRunInUse()) worked |= cleaner_.Work(kBitOfCleaning, now, unix_ms);
  return worked;
}

std::optional<TimePoint> Store::Impl::next_work() const {
  const std::lock_guard lock(core_.mutex);
  std::optional<TimePoint> next = core_.index.next_tick();
  const auto also = [&next](TimePoint time) { next = next ? std::min(*next, time) : time; };
  if (const auto release = core_.segments.next_release()) also(*release);
  for (const auto& due_ms : {sweeper_.next_due_ms(), cold_sweep_.next_due_ms()}) {
    if (!due_ms) continue;
    // Nobody waits longer than this, and no sum overflows.
    constexpr std::int64_t kLongest = std::int64_t{1000} * 60 * 60 * 24;
    const std::int64_t wait_ms = std::clamp<std::int64_t>(*due_ms - core_.clock.UnixMillis(), 0, kLongest);
    also(core_.clock.Now() + std::chrono::milliseconds(wait_ms));
  }
  if (core_.segments.IsRunInUse() || owed_.any) also(core_.clock.Now());
  if (!pending_.empty() && pending_.front().ticket <= synced_to_)
    also(core_.clock.Now());  // for want of room
  return next;
}

void Store::Impl::FinishWork() {
  sweeper_.Flush();
  if (core_.has_tier()) NoteDeletions();
  RestFromNow();
  const std::size_t log_segments = core_.segments.count() - core_.index.segment_count();
  const bool filling =
      (core_.segments.free_count() < core_.segments.count() / kFillingShare || evictor_.evictions() > 0) &&
      core_.segments.live_bytes() > log_segments * kSegmentSize / kAliveShare;
  core_.counts_reads.store(evictor_.is_on() && filling, std::memory_order_relaxed);
  core_.frequency.set_keys(core_.index.entry_count() - core_.index.cold_count());
  SetSizeCounters();
}

// What was removed is deleted in the log by now: watches see it, whether or not anything is written.
void Store::Impl::NoteDeletions() {
  SetChangesEnd();
  expiry_due_ms_.store(std::min(sweeper_.next_due_ms().value_or(Segments::kNoExpiry),
                                cold_sweep_.next_due_ms().value_or(Segments::kNoExpiry)),
                       std::memory_order_relaxed);
}

void Store::Impl::BeginToBeWatched() {
  const std::lock_guard lock(core_.mutex);
  sweeper_.SetWatched();
  cold_sweep_.SetWatched();
}

bool Store::Impl::RemoveExpired() {
  // Relaxed: who sees it late looks again soon.
  return expiry_due_ms_.load(std::memory_order_relaxed) <= core_.clock.UnixMillis() && Work();
}

// Memory rests from the moment that nothing leads there any more, and between the look at the clock with
// which a piece of work begins and its end, a disk may have stalled, or this thread. Before the lock is given
// up: another thread may release what has rested.
void Store::Impl::RestFromNow() {
  if (!core_.index.has_come_to_rest() && !core_.segments.has_retired()) return;
  const TimePoint now = core_.clock.Now();
  core_.index.RestFrom(now);
  core_.segments.RestFrom(now);
}

void Store::Impl::Release(TimePoint now) {
  if (ahead_until_ <= now) ahead_ = 0;
  TimeHasPassed(this);  // for readers that were in time, with what is freed here
  core_.index.Tick(now);
  // A slot that is left to clear may name a segment that began to rest at the same moment, or later.
  const std::optional<TimePoint> left = core_.index.next_tick();
  core_.segments.Release(left && *left <= now ? *left - Duration(1) : now);
}

std::size_t Store::Impl::WantedFree() const {
  return std::max(kMinFree, core_.segments.count() / kFreeShare);
}

bool Store::Impl::Short() const {
  return core_.segments.free_count() + core_.segments.resting_count() < std::max(WantedFree(), ahead_);
}

// Writers wait for memory to rest. What is evicted sooner rests sooner.
void Store::Impl::GoAhead(TimePoint now) {
  if (!evictor_.is_on()) return;
  const std::size_t so_far = core_.segments.free_count() + core_.segments.resting_count();
  ahead_ = std::min(2 * so_far, core_.segments.count() / kMaxAheadShare);
  ahead_until_ = now + kGoAheadFor * core_.grace;
}

Store::Impl::Room Store::Impl::MakeRoom(TimePoint now, std::int64_t unix_ms) {
  // First what nobody can read any more: it need not be moved.
  while (core_.segments.free_count() <= Segments::kReserve && Short() &&
         (sweeper_.Work(kBitOfCleaning, Sweeper::Pace::kHurry, now, unix_ms) ||
          cleaner_.Work(kBitOfCleaning, now, unix_ms) || EvictLarge(now))) {
  }
  // What is kept for a run must not make the store full.
  if (core_.segments.free_count() <= Segments::kReserve && core_.segments.resting_count() == 0)
    core_.segments.CancelRun();
  if (core_.segments.free_count() > Segments::kReserve) return Room::kNow;
  if (core_.segments.resting_count() > 0) {
    GoAhead(now);
    return Room::kLater;
  }
  return Room::kNever;
}

// A large record may lack the run; or it has that, and the index has no room for its key.
Store::Impl::Room Store::Impl::MakeRoomFor(const Write& write, TimePoint now, std::int64_t unix_ms) {
  Release(now);
  const Room room = MakeRoom(now, unix_ms);
  const std::size_t run = RunOf(write);
  return room != Room::kNow || run == 0 ? room : MakeRun(run, now, unix_ms);
}

absl::Status Store::Impl::Full() const {
  return absl::ResourceExhaustedError(
      absl::StrCat("the memory is full: of ", core_.shape.memory_size, " bytes, records take ",
                   core_.log.bytes_used(), ", ", core_.log.bytes_dead(), " of them dead, and the index of ",
                   core_.index.entry_count(), " keys takes ", core_.index.segment_count() * kSegmentSize,
                   "; delete keys, or open with more memory (--memory)"));
}

}  // namespace remora
