#include "store/reclaim/maintenance.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace remora {
namespace {

// The store counts reads once the evictor will soon need to know which keys are used. There are two
// conditions. First, less than 1/kFillingShare of the segments is free. Once a record has been evicted, this
// condition no longer counts, because the evictor makes segments free ahead of writers. Second, more than
// 1/kAliveShare of the log is live. Dead bytes go first: nothing is evicted while a quarter of some segment
// is dead.
constexpr std::size_t kFillingShare = 4;
constexpr std::size_t kAliveShare = 2;

// Bytes of records in one step of the expirer. Fewer than in a step of the cleaner, because each removal
// costs a deletion on disk.
constexpr std::uint64_t kBitOfSweeping = std::uint64_t{64} << 10;
// Entries of the durable tier in one step of the cold expirer.
constexpr std::size_t kBitOfColdSweeping = 500;

// Bytes of records that the expirer looks at for each byte written, and the least for each payment of debt.
constexpr std::uint64_t kSweepPace = 8;
constexpr std::uint64_t kMinSweep = 512;
// Entries of the durable tier that the cold expirer looks at for each write, during a pass.
constexpr std::size_t kColdSweepPace = 4;

// Groups after which the debt is due even if none of it is urgent.
constexpr std::uint32_t kGroupsOfDebt = 16;
// Writes after which the debt is urgent.
constexpr std::size_t kMostWritesOfDebt = 256;

}  // namespace

void Maintenance::AddGroup(std::size_t writes, std::uint64_t keys, std::uint64_t written) {
  core_.metrics.CountOne(Metric::kCommitGroups);
  // A client whose write was acknowledged may check these counters.
  if (core_.index.entry_count() != keys) core_.metrics.Set(Metric::kKeys, core_.index.entry_count());
  core_.metrics.Set(Metric::kLastVersion, core_.next_version - 1);
  if (core_.index.entry_count() > keys) debt_.keys += core_.index.entry_count() - keys;
  debt_.bytes += core_.log.bytes_appended(ValueLog::Head::kWrites) - written;
  debt_.writes += writes;
}

// Expired records and counters may wait for a few groups, or for Store::RunMaintenance while no group comes.
// Memory whose time has come does not wait: a server that is never idle gives it back, too.
void Maintenance::AddDebt(TimePoint now, std::int64_t unix_ms) {
  if (std::exchange(debt_.sizes, false)) SetSizeCounters();
  debt_.any = true;
  debt_.now = now;
  debt_.unix_ms = unix_ms;
  const std::optional<TimePoint> release = core_.segments.next_release();
  const bool is_due = ++debt_.groups >= kGroupsOfDebt || DebtIsUrgent() || (release && *release <= now);
  debt_is_due_.store(is_due, std::memory_order_relaxed);
}

bool Maintenance::DebtIsUrgent() const {
  return debt_.keys > 0 || debt_.writes >= kMostWritesOfDebt || (debt_.bytes > 0 && space_.MemoryIsLow());
}

// The work is proportional to the writes: a split for each new key, and when memory is low, so many bytes
// that the cleaner keeps up.
void Maintenance::PayDebt(TimePoint now, std::int64_t unix_ms) {
  if (debt_.writes == 0) return;
  if (debt_.keys > 0) core_.index.Grow(debt_.keys, now);
  space_.expirer().Work(std::max(kSweepPace * debt_.bytes, kMinSweep), Expirer::Pace::kDue, now, unix_ms);
  space_.cold_expirer().Work(kColdSweepPace * debt_.writes, now, unix_ms);
  if (space_.MemoryIsLow()) space_.Clean(SpaceManager::kCleanPace * debt_.bytes, now, unix_ms);
  debt_.keys = debt_.bytes = debt_.writes = 0;
}

// Uses the time at which the writes came. This saves a clock reading, and an earlier time frees nothing too
// early.
void Maintenance::PayAllDebt() {
  if (!debt_.any) return;
  space_.ReleaseRetired(debt_.now);
  PayDebt(debt_.now, debt_.unix_ms);
  FinishAll();
}

void Maintenance::Finish() {
  space_.expirer().Flush();
  if (core_.keeps_changes()) NoteDeletions();
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

// Shows watches the deletions of removed keys, even if no client writes. The log has these deletions by now.
void Maintenance::NoteDeletions() {
  core_.AdvanceChangesEnd();
  expiry_due_ms_.store(std::min(space_.expirer().next_due_ms().value_or(Segments::kNoExpiry),
                                space_.cold_expirer().next_due_ms().value_or(Segments::kNoExpiry)),
                       std::memory_order_relaxed);
}

bool Maintenance::RunOnce(TimePoint now, std::int64_t unix_ms) {
  bool worked = space_.expirer().Work(kBitOfSweeping, Expirer::Pace::kDue, now, unix_ms);
  worked |= space_.cold_expirer().Work(kBitOfColdSweeping, now, unix_ms);
  if (space_.MemoryIsLow() || space_.HasBegunToMove()) {
    worked |= space_.Clean(SpaceManager::kBitOfCleaning, now, unix_ms);
  }
  return worked;
}

std::optional<TimePoint> Maintenance::NextDue() const {
  std::optional<TimePoint> next = core_.index.next_tick();
  const auto also = [&next](TimePoint time) { next = next ? std::min(*next, time) : time; };
  if (const auto release = core_.segments.next_release()) also(*release);
  for (const auto& due_ms : {space_.expirer().next_due_ms(), space_.cold_expirer().next_due_ms()}) {
    if (!due_ms) continue;
    // The bound keeps the sum from overflowing. No thread sleeps that long.
    constexpr std::int64_t kLongest = std::int64_t{1000} * 60 * 60 * 24;
    const std::int64_t wait_ms = std::clamp<std::int64_t>(*due_ms - core_.clock.UnixMillis(), 0, kLongest);
    also(core_.clock.Now() + std::chrono::milliseconds(wait_ms));
  }
  if (space_.HasBegunToMove() || debt_.any) also(core_.clock.Now());
  return next;
}

void Maintenance::SetWatched() {
  space_.expirer().SetWatched();
  space_.cold_expirer().SetWatched();
}

// Relaxed: a watch that sees the new value late asks again soon.
bool Maintenance::has_expired() const {
  return expiry_due_ms_.load(std::memory_order_relaxed) <= core_.clock.UnixMillis();
}

void Maintenance::SetSizeCounters() {
  core_.metrics.Set(Metric::kKeys, core_.index.entry_count());
  core_.metrics.Set(Metric::kColdKeys, core_.index.cold_count());
  core_.metrics.Set(Metric::kEvictions, space_.evictor().evictions());
  core_.metrics.Set(Metric::kExpired, space_.expirer().removed());
  core_.metrics.Set(Metric::kIndexBytes, core_.index.segment_count() * kSegmentSize);
  core_.metrics.Set(Metric::kIndexBuckets, core_.index.bucket_count());
  core_.metrics.Set(Metric::kOverflowBuckets, core_.index.overflow_count());
  if (core_.ordered != nullptr) {
    core_.metrics.Set(Metric::kOrderedIndexBytes, core_.ordered->keys().memory_bytes());
    core_.metrics.Set(Metric::kScanSavedBytes, core_.ordered->saved_bytes());
    core_.metrics.Set(Metric::kScansOvertaken, core_.ordered->given_up());
  }
  if (core_.changes != nullptr) {
    const ChangeRing::Kept kept = core_.changes->FindKept();
    core_.metrics.Set(Metric::kChangeLogBytes, kept.bytes);
    core_.metrics.Set(Metric::kChangesBegin, kept.begin);
  }
  core_.metrics.Set(Metric::kMemoryBytesFree, core_.segments.free_count() * kSegmentSize);
  core_.metrics.Set(Metric::kLogBytesUsed, core_.log.bytes_used());
  core_.metrics.Set(Metric::kLogBytesDead, core_.log.bytes_dead());
  core_.metrics.Set(Metric::kSegmentsCleaned, space_.cleaner().segments_cleaned());
  core_.metrics.Set(Metric::kBytesMoved, core_.log.bytes_appended(ValueLog::Head::kMoves));
  core_.metrics.Set(Metric::kBytesWritten,
                    core_.log.bytes_appended(ValueLog::Head::kWrites) + core_.log.large_bytes_appended());
}

}  // namespace remora
