#include "store/reclaim/maintenance.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace remora {
namespace {

// With less than this free, and more than this of the log alive, it is worth knowing which keys are used:
// some of the others will have to go. What is dead goes first: nothing is evicted where a quarter of a
// segment is. Once something has been evicted, free is what was evicted ahead of writers, and no sign of
// room.
constexpr std::size_t kFillingShare = 4;
constexpr std::size_t kAliveShare = 2;

// Less than of cleaning, because each removal costs a deletion on disk.
constexpr std::uint64_t kBitOfSweeping = std::uint64_t{64} << 10;
// Entries of the durable tier.
constexpr std::size_t kBitOfColdSweeping = 500;

// As SpaceManager::kCleanPace, for expired records, which are removed as they come due; at least so many for
// each group.
constexpr std::uint64_t kSweepPace = 8;
constexpr std::uint64_t kMinSweep = 512;
// Entries of the durable tier for each write, while it is being read through.
constexpr std::size_t kColdSweepPace = 4;

// Groups of writes that leave nothing urgent, between two times that the debt is due.
constexpr std::uint32_t kGroupsOfDebt = 16;
constexpr std::size_t kMostWritesOfDebt = 256;

}  // namespace

void Maintenance::AddGroup(std::size_t writes, std::uint64_t keys, std::uint64_t written) {
  core_.metrics.CountOne(Counter::kCommitGroups);
  // A client that was answered may count what it wrote.
  if (core_.index.entry_count() != keys) core_.metrics.Set(Counter::kKeys, core_.index.entry_count());
  core_.metrics.Set(Counter::kLastVersion, core_.next_version - 1);
  if (core_.index.entry_count() > keys) debt_.keys += core_.index.entry_count() - keys;
  debt_.bytes += core_.log.bytes_appended(ValueLog::Head::kWrites) - written;
  debt_.writes += writes;
}

// What may wait for a few groups, or for a moment without any (Store::Work): retired memory, what has
// expired, the counters.
void Maintenance::AddDebt(TimePoint now, std::int64_t unix_ms) {
  if (std::exchange(debt_.sizes, false)) SetSizeCounters();
  debt_.any = true;
  debt_.now = now;
  debt_.unix_ms = unix_ms;
  const bool is_due = ++debt_.groups >= kGroupsOfDebt || DebtIsUrgent();
  debt_is_due_.store(is_due, std::memory_order_relaxed);
}

bool Maintenance::DebtIsUrgent() const {
  return debt_.keys > 0 || debt_.writes >= kMostWritesOfDebt || (debt_.bytes > 0 && space_.MemoryIsLow());
}

// At the pace of what was written: a split for each new key, and when memory is short, as many bytes looked
// at as lets the cleaner keep up.
void Maintenance::PayDebt(TimePoint now, std::int64_t unix_ms) {
  if (debt_.writes == 0) return;
  if (debt_.keys > 0) core_.index.Grow(debt_.keys, now);
  space_.expirer().Work(std::max(kSweepPace * debt_.bytes, kMinSweep), Expirer::Pace::kDue, now, unix_ms);
  space_.cold_expirer().Work(kColdSweepPace * debt_.writes, now, unix_ms);
  if (space_.MemoryIsLow()) space_.cleaner().Work(SpaceManager::kCleanPace * debt_.bytes, now, unix_ms);
  debt_.keys = debt_.bytes = debt_.writes = 0;
}

// As of when the writes came: a look at the clock less, and nothing is freed too early.
void Maintenance::PayAllDebt() {
  if (!debt_.any) return;
  space_.ReleaseRetired(debt_.now);
  PayDebt(debt_.now, debt_.unix_ms);
  FinishAll();
}

void Maintenance::Finish() {
  space_.expirer().Flush();
  if (core_.has_tier()) NoteDeletions();
  space_.StartGracePeriod();
  const std::size_t log_segments = core_.segments.count() - core_.index.segment_count();
  const bool filling = (core_.segments.free_count() < core_.segments.count() / kFillingShare ||
                        space_.evictor().evictions() > 0) &&
                       core_.segments.live_bytes() > log_segments * kSegmentSize / kAliveShare;
  core_.counts_reads.store(space_.evictor().is_on() && filling, std::memory_order_relaxed);
  core_.frequency.set_keys(core_.index.entry_count() - core_.index.cold_count());
  SetSizeCounters();
}

void Maintenance::FinishAll() {
  Finish();
  debt_ = {};
  debt_is_due_.store(false, std::memory_order_relaxed);
}

// What was removed is deleted in the log by now: watches see it, whether or not anything is written.
void Maintenance::NoteDeletions() {
  core_.AdvanceChangesEnd();
  expiry_due_ms_.store(std::min(space_.expirer().next_due_ms().value_or(Segments::kNoExpiry),
                                space_.cold_expirer().next_due_ms().value_or(Segments::kNoExpiry)),
                       std::memory_order_relaxed);
}

bool Maintenance::RunOnce(TimePoint now, std::int64_t unix_ms) {
  bool worked = space_.expirer().Work(kBitOfSweeping, Expirer::Pace::kDue, now, unix_ms);
  worked |= space_.cold_expirer().Work(kBitOfColdSweeping, now, unix_ms);
  if (space_.MemoryIsLow() || core_.segments.IsRunInUse()) {
    worked |= space_.cleaner().Work(SpaceManager::kBitOfCleaning, now, unix_ms);
  }
  return worked;
}

std::optional<TimePoint> Maintenance::NextDue() const {
  std::optional<TimePoint> next = core_.index.next_tick();
  const auto also = [&next](TimePoint time) { next = next ? std::min(*next, time) : time; };
  if (const auto release = core_.segments.next_release()) also(*release);
  for (const auto& due_ms : {space_.expirer().next_due_ms(), space_.cold_expirer().next_due_ms()}) {
    if (!due_ms) continue;
    // Nobody waits longer than this, and no sum overflows.
    constexpr std::int64_t kLongest = std::int64_t{1000} * 60 * 60 * 24;
    const std::int64_t wait_ms = std::clamp<std::int64_t>(*due_ms - core_.clock.UnixMillis(), 0, kLongest);
    also(core_.clock.Now() + std::chrono::milliseconds(wait_ms));
  }
  if (core_.segments.IsRunInUse() || debt_.any) also(core_.clock.Now());
  return next;
}

void Maintenance::SetWatched() {
  space_.expirer().SetWatched();
  space_.cold_expirer().SetWatched();
}

// Relaxed: a watch that sees it late looks again soon.
bool Maintenance::has_expired() const {
  return expiry_due_ms_.load(std::memory_order_relaxed) <= core_.clock.UnixMillis();
}

void Maintenance::SetSizeCounters() {
  core_.metrics.Set(Counter::kKeys, core_.index.entry_count());
  core_.metrics.Set(Counter::kColdKeys, core_.index.cold_count());
  core_.metrics.Set(Counter::kEvictions, space_.evictor().evictions());
  core_.metrics.Set(Counter::kExpired, space_.expirer().removed());
  core_.metrics.Set(Counter::kIndexBytes, core_.index.segment_count() * kSegmentSize);
  core_.metrics.Set(Counter::kIndexBuckets, core_.index.bucket_count());
  core_.metrics.Set(Counter::kOverflowBuckets, core_.index.overflow_count());
  core_.metrics.Set(Counter::kMemoryBytesFree, core_.segments.free_count() * kSegmentSize);
  core_.metrics.Set(Counter::kLogBytesUsed, core_.log.bytes_used());
  core_.metrics.Set(Counter::kLogBytesDead, core_.log.bytes_dead());
  core_.metrics.Set(Counter::kSegmentsCleaned, space_.cleaner().segments_cleaned());
  core_.metrics.Set(Counter::kBytesMoved, core_.log.bytes_appended(ValueLog::Head::kMoves));
  core_.metrics.Set(Counter::kBytesWritten,
                    core_.log.bytes_appended(ValueLog::Head::kWrites) + core_.log.large_bytes_appended());
}

}  // namespace remora
