#include "store/durable/tier_log/tier_applier.h"

#include <rocksdb/db.h>

#include <algorithm>
#include <utility>

#include "store/base/status_macros.h"
#include "store/durable/commit_log/log_file.h"

namespace remora {
namespace {

// Share of the log that is applied at once.
constexpr std::uint64_t kPartsOfLog = 16;
constexpr std::uint64_t kMaxAppliedBytes = std::uint64_t{8} << 20;
// A step takes twice as much memory: a copy, and RocksDB's batch.
constexpr std::uint64_t kMaxStepBytes = std::uint64_t{16} << 20;
// Share of the log that may wait for the applier. A restart replays it, and the first scan waits for it.
constexpr std::uint64_t kLazyShare = 16;
// Share of the log that may be applied and not persisted. A restart replays it.
constexpr std::uint64_t kPersistShare = 4;
// Write buffers that RocksDB may have in memory while it flushes, before the applier's thread waits (T4).
constexpr std::uint64_t kMaxBuffers = 2;

std::uint64_t StepBytes(std::uint64_t max_bytes) { return std::min(kMaxStepBytes, max_bytes / kPartsOfLog); }

}  // namespace

std::uint64_t ApplierMemory(std::uint64_t max_bytes, std::uint64_t write_buffer_bytes) {
  return 2 * StepBytes(max_bytes) + kMaxBuffers * write_buffer_bytes;
}

TierApplier::TierApplier(const TierLogOptions& options, Lsn applied_to, const WriterPace& pace)
    : options_(options),
      apply_bytes_(std::min(kMaxAppliedBytes, options.max_bytes / kPartsOfLog)),
      step_bytes_(StepBytes(options.max_bytes)),
      persist_bytes_(options.max_bytes / kPersistShare),
      writer_pace_(pace),
      applier_({.db = options.db,
                .entries = options.entries,
                .meta = options.meta,
                .way = ApplyWay::kInsert,
                .dir = {}},
               applied_to),
      pace_(options.max_bytes / kLazyShare),
      applied_to_(applied_to.value),
      persisted_to_(applied_to.value) {}

// --- Opening (C5) ---------------------------------------------------------------------------------------

absl::Status TierApplier::Replay(const LogGroup& group) {
  const MutexLock lock(apply_mutex_);
  applier_.Add(group);
  if (applier_.bytes() < step_bytes_) return absl::OkStatus();
  REMORA_RETURN_IF_ERROR(ApplyAdded());
  if (!HasEnoughToPersist()) return absl::OkStatus();
  // C4: an earlier process may have appended the group without a sync.
  if (!files_are_synced_) REMORA_RETURN_IF_ERROR(SyncLogFiles(options_.dir));
  files_are_synced_ = true;
  REMORA_RETURN_IF_ERROR(Flush());
  persisted_to_.store(applier_.applied_to().value, std::memory_order_release);
  persisted_entry_bytes_.store(applied_entry_bytes_.load());
  return absl::OkStatus();
}

absl::Status TierApplier::Start(CommitLog& log) {
  {
    const MutexLock lock(apply_mutex_);
    REMORA_RETURN_IF_ERROR(ApplyAdded());
    log_ = &log;
    REMORA_ASSIGN_OR_RETURN(reader_, log.Read(std::max(applier_.applied_to(), log.first())));
    applied_position_ = reader_->position();
  }
  log.Recycle(persisted_to());
  if (options_.applying != LogApplying::kInThread) return absl::OkStatus();
  // After an error, the applier wakes the persister again.
  return threads_.Start([this] { Round(); }, [this] { PersistIfNeeded().IgnoreError(); });
}

// --- Applying (C3) --------------------------------------------------------------------------------------

absl::Status TierApplier::ApplyAll() {
  const Lsn until = log_->appended();
  if (applied_to() >= until) return absl::OkStatus();
  const MutexLock lock(apply_mutex_);
  return ApplyTo(until);
}

absl::Status TierApplier::ApplyTo(Lsn until, Lsn enough, bool may_wait) {
  const TimePoint begin = std::chrono::steady_clock::now();
  const absl::Status status = ApplyGroupsTo(until, enough, may_wait);
  apply_status_ = status;
  apply_failed_.store(!status.ok(), std::memory_order_relaxed);
  if (status.ok() && applied_to() >= until) applied_at_ = begin;  // `until` is of a moment before
  return status;
}

absl::Status TierApplier::ApplyGroupsTo(Lsn until, Lsn enough, bool may_wait) {
  if (flush_is_open_) REMORA_RETURN_IF_ERROR(log_->Sync().status());  // T2
  for (;;) {
    if (reader_->end() >= enough) return ApplyAdded();
    if (applier_.bytes() >= step_bytes_) {
      REMORA_RETURN_IF_ERROR(ApplyAdded());
      if (may_wait && HasEnoughToPersist()) threads_.Wake(StepThreads::Step::kPersist);
      if (may_wait && HasToWaitForFlush()) return absl::OkStatus();
    }
    REMORA_ASSIGN_OR_RETURN(const bool more, reader_->Next(until));
    if (!more) return ApplyAdded();
    applier_.Add(reader_->group());
  }
}

absl::Status TierApplier::ApplyAdded() {
  const TimePoint begin = std::chrono::steady_clock::now();
  const std::uint64_t bytes = applier_.bytes();
  REMORA_RETURN_IF_ERROR(applier_.Apply());
  applied_entry_bytes_.fetch_add(bytes);
  // Before applied_to_: see moment().
  if (reader_ != nullptr) {
    applied_position_ = reader_->position();
    NoteMoment();
  }
  const std::uint64_t version = applier_.applied_version();
  if (version > applied_version_.load()) applied_version_.store(version, std::memory_order_release);
  applied_to_.store(applier_.applied_to().value, std::memory_order_release);
  TellProgress(begin);
  return absl::OkStatus();
}

absl::Status TierApplier::ApplyUnlogged(std::span<const LogEntry> entries,
                                        const std::function<void()>& applied) {
  {
    const MutexLock lock(apply_mutex_);
    REMORA_RETURN_IF_ERROR(ApplyTo(log_->appended()));
    REMORA_RETURN_IF_ERROR(applier_.ApplyUnlogged(entries));
    applied();
    applied_position_ = reader_->position();
    NoteMoment();
    applied_version_.store(std::max(applied_version_.load(), applier_.applied_version()));
  }
  const MutexLock lock(persist_mutex_);
  return Persist();
}

void TierApplier::NoteMoment() {
  if (moment_asked_.IsTrue(std::chrono::steady_clock::now())) {
    moment_.Set(options_.db, applied_position_);
  } else {
    moment_.Drop();
  }
}

LogMoment TierApplier::MakeMoment() {
  WantMoment();
  LogMoment moment = moment_.Get();
  if (moment.snapshot != nullptr) return moment;
  const MutexLock lock(apply_mutex_);
  if (moment_.Get().snapshot == nullptr) moment_.Set(options_.db, applied_position_);
  return moment_.Get();  // nobody drops it meanwhile
}

void TierApplier::Advance() {
  if (options_.applying == LogApplying::kByWriter) {
    // The next step tries again, as in Round.
    ApplyAll().IgnoreError();
    PersistIfNeeded().IgnoreError();
  } else {
    Wake();
  }
}

bool TierApplier::Holds(std::uint64_t version) {
  Hurry();  // C12: later calls are about later versions
  // Acquire: from here on, this thread's reads of RocksDB see the applied groups.
  if (version <= applied_version_.load(std::memory_order_acquire)) return true;
  // An evictor asks for many records. RocksDB rejects each attempt after a failed flush.
  const bool is_tried_by_thread = options_.applying == LogApplying::kInThread;
  if (is_tried_by_thread && apply_failed_.load(std::memory_order_relaxed)) return false;
  const Lsn until = log_->appended();
  const MutexLock lock(apply_mutex_);
  while (version > applied_version_.load() && applied_to() < until) {
    if (!ApplyTo(until, applied_to() + apply_bytes_).ok()) break;  // applied_version_ says how far it came
  }
  return version <= applied_version_.load(std::memory_order_acquire);
}

absl::Status TierApplier::status() const {
  if (!apply_failed_.load(std::memory_order_relaxed)) return absl::OkStatus();
  const MutexLock lock(apply_mutex_);
  return apply_status_;
}

void TierApplier::WatchProgress(std::function<void(const LogProgress&)> take) {
  const MutexLock lock(apply_mutex_);
  take_progress_ = std::move(take);
  TellProgress(std::nullopt);
}

void TierApplier::TellProgress(std::optional<TimePoint> begin) {
  if (!take_progress_) return;
  const TimePoint now = std::chrono::steady_clock::now();
  const Lsn persisted = persisted_to();  // first, as it never passes the next one, nor that the end
  const Lsn applied = applied_to();
  const Lsn end = log_->appended();
  LogProgress progress;
  progress.unapplied_bytes = end - applied;
  progress.unpersisted_bytes = end - persisted;
  if (applied < end) progress.lag = now - applied_at_;
  progress.slowed = writer_pace_.sleeps();
  progress.slowed_for = writer_pace_.slept();
  if (begin) progress.write_time = now - *begin;
  take_progress_(progress);
}

// --- Persisting (C4) ------------------------------------------------------------------------------------

absl::Status TierApplier::Flush() {
  return options_.flusher->Flush(options_.db, {options_.entries, options_.meta});
}

absl::Status TierApplier::Persist() {
  flush_runs_.store(true);
  const absl::Status status = PersistApplied();
  flush_runs_.store(false);
  return status;
}

absl::Status TierApplier::PersistApplied() {
  {
    const MutexLock lock(apply_mutex_);
    flush_is_open_ = true;
  }
  flush_failed_.store(true, std::memory_order_relaxed);
  // C4; by T2 it also holds for all that is applied from here on.
  REMORA_RETURN_IF_ERROR(log_->Sync().status());
  options_.flusher->ResumeIfStopped(options_.db);  // if that fails, so does the flush
  const std::uint64_t entry_bytes = applied_entry_bytes_.load();
  const Lsn target = applied_to();
  REMORA_RETURN_IF_ERROR(Flush());
  {
    const MutexLock lock(apply_mutex_);
    flush_is_open_ = false;
  }
  persisted_to_.store(target.value, std::memory_order_release);
  persisted_entry_bytes_.store(entry_bytes);
  flush_failed_.store(false, std::memory_order_relaxed);
  log_->Recycle(target);
  return absl::OkStatus();
}

absl::Status TierApplier::PersistAll() {
  const MutexLock lock(persist_mutex_);
  REMORA_RETURN_IF_ERROR(ApplyAll());
  return Persist();
}

bool TierApplier::HasEnoughToPersist() const {
  const Lsn persisted = persisted_to();  // first, as it never passes applied_to()
  const std::uint64_t persisted_bytes = persisted_entry_bytes_.load();
  return applied_to() - persisted >= persist_bytes_ ||
         applied_entry_bytes_.load() - persisted_bytes >= options_.write_buffer_bytes;
}

bool TierApplier::HasToWaitForFlush() const {
  if (!flush_runs_.load()) return false;
  const std::uint64_t persisted = persisted_entry_bytes_.load();
  return applied_entry_bytes_.load() - persisted >= kMaxBuffers * options_.write_buffer_bytes;
}

bool TierApplier::HasToPersist() const {
  return flush_failed_.load() || apply_failed_.load() || HasEnoughToPersist();
}

absl::Status TierApplier::PersistIfNeeded() {
  const MutexLock lock(persist_mutex_);
  return HasToPersist() ? Persist() : absl::OkStatus();
}

// --- The thread of the applier (C12) --------------------------------------------------------------------

bool TierApplier::IsStepDue() {
  const TimePoint now = std::chrono::steady_clock::now();
  const Lsn applied = applied_to();  // first, as it never passes the end of the log
  const std::uint64_t backlog = log_->appended() - applied;
  const MutexLock lock(apply_mutex_);
  if (backlog == 0) applied_at_ = std::max(applied_at_, now);
  return pace_.IsDue(backlog, now - applied_at_, now) || !apply_status_.ok();
}

void TierApplier::Round() {
  // On an error, the next round tries again. Meanwhile the log fills, until an append returns the error.
  if (IsStepDue() && !HasToWaitForFlush()) {
    const Lsn until = log_->appended();
    const MutexLock lock(apply_mutex_);
    ApplyTo(until, kMaxLsn, /*may_wait=*/true).IgnoreError();
  }
  {
    const MutexLock lock(apply_mutex_);
    TellProgress(std::nullopt);
    const bool is_wanted = moment_asked_.IsTrue(std::chrono::steady_clock::now());
    if (is_wanted != (moment_.Get().snapshot != nullptr)) NoteMoment();
  }
  if (HasToPersist()) threads_.Wake(StepThreads::Step::kPersist);
}

}  // namespace remora
