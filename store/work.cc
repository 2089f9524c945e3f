// Housekeeping: freeing what has rested, removing what has expired, cleaning when memory is short.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "store/base/tsan.h"
#include "store/store_impl.h"

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
// segment is.
constexpr std::size_t kFillingShare = 4;
constexpr std::size_t kAliveShare = 2;

// A bounded bit of work: about a millisecond of records of 100 bytes.
constexpr std::uint64_t kBitOfCleaning = std::uint64_t{256} << 10;
// Less, because each removal costs a deletion on disk.
constexpr std::uint64_t kBitOfSweeping = std::uint64_t{64} << 10;
// Entries of the durable tier.
constexpr std::size_t kBitOfColdSweeping = 500;

}  // namespace

bool Store::Impl::Work() {
  std::unique_lock lock(mutex_);
  const TimePoint now = clock_.Now();
  const bool worked = WorkLocked(now, clock_.UnixMillisAt(now));
  FinishWork();
  TellAll(lock);
  return worked;
}

bool Store::Impl::WorkLocked(TimePoint now, std::int64_t unix_ms) {
  Release(now);
  PublishSynced(now, unix_ms);
  bool worked = sweeper_.Work(kBitOfSweeping, Sweeper::Pace::kDue, now, unix_ms);
  worked |= cold_sweep_.Work(kBitOfColdSweeping, now, unix_ms);
  if (Short() || segments_.IsRunInUse()) worked |= cleaner_.Work(kBitOfCleaning, now, unix_ms);
  return worked;
}

std::optional<TimePoint> Store::Impl::next_work() const {
  const std::lock_guard lock(mutex_);
  std::optional<TimePoint> next = index_.next_tick();
  const auto also = [&next](TimePoint time) { next = next ? std::min(*next, time) : time; };
  if (const auto release = segments_.next_release()) also(*release);
  for (const auto& due_ms : {sweeper_.next_due_ms(), cold_sweep_.next_due_ms()}) {
    if (!due_ms) continue;
    // Nobody waits longer than this, and no sum overflows.
    constexpr std::int64_t kLongest = std::int64_t{1000} * 60 * 60 * 24;
    const std::int64_t wait_ms = std::clamp<std::int64_t>(*due_ms - clock_.UnixMillis(), 0, kLongest);
    also(clock_.Now() + std::chrono::milliseconds(wait_ms));
  }
  if (segments_.IsRunInUse()) also(clock_.Now());
  if (!pending_.empty() && pending_.front().ticket <= synced_to_) also(clock_.Now());  // for want of room
  return next;
}

void Store::Impl::FinishWork() {
  sweeper_.Flush();
  // Memory rests from the moment that nothing leads there any more, and between the look at the clock with
  // which a piece of work begins and its end, a disk may have stalled, or this thread.
  if (index_.has_come_to_rest() || segments_.has_retired()) {
    const TimePoint now = clock_.Now();
    index_.RestFrom(now);
    segments_.RestFrom(now);
  }
  const std::size_t log_segments = segments_.count() - index_.segment_count();
  const bool filling = segments_.free_count() < segments_.count() / kFillingShare &&
                       segments_.live_bytes() > log_segments * kSegmentSize / kAliveShare;
  wants_reads_.store(evictor_.is_on() && filling, std::memory_order_relaxed);
  frequency_.set_keys(index_.entry_count() - index_.cold_count());
  SetSizeCounters();
}

void Store::Impl::NoteRead(std::uint64_t key_hash) {
  if (wants_reads()) frequency_.Note(key_hash);
}

void Store::Impl::Release(TimePoint now) {
  if (ahead_until_ <= now) ahead_ = 0;
  TimeHasPassed(this);  // for readers that were in time, with what is freed here
  index_.Tick(now);
  // A slot that is left to clear may name a segment that began to rest at the same moment, or later.
  const std::optional<TimePoint> left = index_.next_tick();
  segments_.Release(left && *left <= now ? *left - Duration(1) : now);
}

std::size_t Store::Impl::WantedFree() const { return std::max(kMinFree, segments_.count() / kFreeShare); }

bool Store::Impl::Short() const {
  return segments_.free_count() + segments_.resting_count() < std::max(WantedFree(), ahead_);
}

// Writers wait for memory to rest. What is evicted sooner rests sooner.
void Store::Impl::GoAhead(TimePoint now) {
  if (!evictor_.is_on()) return;
  const std::size_t so_far = segments_.free_count() + segments_.resting_count();
  ahead_ = std::min(2 * so_far, segments_.count() / kMaxAheadShare);
  ahead_until_ = now + kGoAheadFor * grace_;
}

Store::Impl::Room Store::Impl::MakeRoom(TimePoint now, std::int64_t unix_ms) {
  // First what nobody can read any more: it need not be moved.
  while (segments_.free_count() <= Segments::kReserve && Short() &&
         (sweeper_.Work(kBitOfCleaning, Sweeper::Pace::kHurry, now, unix_ms) ||
          cleaner_.Work(kBitOfCleaning, now, unix_ms) || EvictLarge(now))) {
  }
  // What is kept for a run must not make the store full.
  if (segments_.free_count() <= Segments::kReserve && segments_.resting_count() == 0) segments_.CancelRun();
  if (segments_.free_count() > Segments::kReserve) return Room::kNow;
  if (segments_.resting_count() > 0) {
    GoAhead(now);
    return Room::kLater;
  }
  return Room::kNever;
}

absl::Status Store::Impl::Full() const {
  return absl::ResourceExhaustedError(absl::StrCat(
      "the memory is full: of ", shape_.memory_size, " bytes, records take ", log_.bytes_used(), ", ",
      log_.bytes_dead(), " of them dead, and the index of ", index_.entry_count(), " keys takes ",
      index_.segment_count() * kSegmentSize, "; delete keys, or open with more memory (--memory)"));
}

}  // namespace remora
