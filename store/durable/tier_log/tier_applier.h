// Moves the groups of a tier's commit log to RocksDB, and has RocksDB persist them. It keeps C3 to C5, C12,
// T2 to T4 of tier_log.h.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "store/base/clock.h"
#include "store/base/mutex.h"
#include "store/durable/commit_log/commit_log.h"
#include "store/durable/commit_log/log_reader.h"
#include "store/durable/tier_log/apply_pace.h"
#include "store/durable/tier_log/asked_lately.h"
#include "store/durable/tier_log/log_applier.h"
#include "store/durable/tier_log/log_moment.h"
#include "store/durable/tier_log/log_progress.h"
#include "store/durable/tier_log/step_threads.h"
#include "store/durable/tier_log/tier_log_options.h"
#include "store/durable/tier_log/writer_pace.h"

namespace remora {

/// Owns the applier, the reader that feeds it, and the threads that run it.
///
/// The class has more than 25 methods and 15 fields, because steps of the applier and flushes overlap, and
/// have to agree on how far both are. Each group of fields names its lock.
///
/// Thread safety: one thread calls Replay, Start and Begin, before all others. Any thread may call the other
/// members, at any time; ApplyUnlogged one at a time.
class TierApplier {
 public:
  /// `applied_to`: of LogApplier::ReadAppliedTo. `pace`: of the writer; it outlives this.
  TierApplier(const TierLogOptions& options, Lsn applied_to, const WriterPace& pace);
  /// Waits for steps that have begun. Applies and flushes nothing.
  ~TierApplier() = default;
  TierApplier(const TierApplier&) = delete;
  TierApplier& operator=(const TierApplier&) = delete;

  /// Applies a group of a log that is being opened (C5).
  absl::Status Replay(const LogGroup& group) ABSL_LOCKS_EXCLUDED(apply_mutex_);
  /// Applies the rest of the replayed groups. From then on, it applies the groups of `log`, which outlives
  /// this. It starts the threads, unless the options ask for none.
  ///
  /// - ResourceExhausted: the system does not start a thread.
  /// - Others: those of ApplyAll.
  absl::Status Start(CommitLog& log) ABSL_LOCKS_EXCLUDED(apply_mutex_);
  /// Says that RocksDB has all versions ever written below this one. REQUIRES: as for TierLog::Begin.
  void Begin(std::uint64_t version_limit) { applied_version_.store(version_limit - 1); }

  /// Applies all groups that were appended before the call.
  ///
  /// - Unavailable, DataLoss: the log cannot be read, or RocksDB cannot write.
  absl::Status ApplyAll() ABSL_LOCKS_EXCLUDED(apply_mutex_);
  /// Applies all groups, and entries that are in no group of the log, and persists them (T1). Calls `applied`
  /// before it persists them. Errors are those of ApplyAll and PersistAll.
  absl::Status ApplyUnlogged(std::span<const LogEntry> entries, const std::function<void()>& applied)
      ABSL_LOCKS_EXCLUDED(persist_mutex_, apply_mutex_);
  /// Applies all groups, and waits until tables have them.
  absl::Status PersistAll() ABSL_LOCKS_EXCLUDED(persist_mutex_, apply_mutex_);
  /// Has a thread apply the log. If the writer does that, it does so now.
  void Advance() ABSL_LOCKS_EXCLUDED(persist_mutex_, apply_mutex_);
  /// See TierLog::Holds.
  bool Holds(std::uint64_t version) ABSL_LOCKS_EXCLUDED(apply_mutex_);
  /// Has steps follow each other without a delay for a while (C12).
  void Hurry() { pace_.Ask(); }
  /// Has the thread of the applier make a round now.
  void Wake() { threads_.Wake(StepThreads::Step::kApply); }

  /// Returns whether a thread applies the log, and its last attempt has not failed.
  bool is_served() const {
    return options_.applying == LogApplying::kInThread && !apply_failed_.load(std::memory_order_relaxed);
  }
  /// Returns OK, or the error of the last attempt to apply the log.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(apply_mutex_);
  /// Returns the latest moment of RocksDB (C7). If the snapshot is not null, the position is not before
  /// applied_to(). It is null unless a moment was wanted lately.
  LogMoment moment() const { return moment_.Get(); }
  /// Makes a moment unless there is one, and has steps keep the latest one for a while.
  LogMoment MakeMoment() ABSL_LOCKS_EXCLUDED(apply_mutex_);
  /// Has the thread of the applier make a moment, and steps keep the latest one for a while.
  void WantMoment() { moment_asked_.Ask(); }
  Lsn applied_to() const { return Lsn{applied_to_.load(std::memory_order_acquire)}; }
  Lsn persisted_to() const { return Lsn{persisted_to_.load(std::memory_order_acquire)}; }
  /// See TierLog::WatchProgress.
  void WatchProgress(std::function<void(const LogProgress&)> take) ABSL_LOCKS_EXCLUDED(apply_mutex_);

  /// Returns the bytes of the log that a caller applies at once.
  std::uint64_t apply_bytes() const { return apply_bytes_; }

 private:
  /// Applies the groups before `until`, or fewer: it may stop behind `enough`, and with `may_wait` where
  /// HasToWaitForFlush is true.
  absl::Status ApplyTo(Lsn until, Lsn enough = kMaxLsn, bool may_wait = false)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_mutex_);
  /// Does the work of ApplyTo.
  absl::Status ApplyGroupsTo(Lsn until, Lsn enough, bool may_wait)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_mutex_);
  absl::Status ApplyAdded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_mutex_);
  /// Tells take_progress_. `begin`: of a write to RocksDB that has just ended; nullopt: none has.
  void TellProgress(std::optional<TimePoint> begin) ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_mutex_);
  /// Sets moment_ to what RocksDB has, or drops it if none was wanted lately.
  void NoteMoment() ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_mutex_);
  /// Waits until tables have all that was applied before the call. The applier may go on meanwhile (T2).
  absl::Status Persist() ABSL_EXCLUSIVE_LOCKS_REQUIRED(persist_mutex_) ABSL_LOCKS_EXCLUDED(apply_mutex_);
  /// Does the work of Persist.
  absl::Status PersistApplied() ABSL_EXCLUSIVE_LOCKS_REQUIRED(persist_mutex_)
      ABSL_LOCKS_EXCLUDED(apply_mutex_);
  absl::Status Flush();
  /// Returns whether RocksDB has a write buffer's worth in memory, or a share of the log is not persisted.
  bool HasEnoughToPersist() const;
  /// Returns whether a flush runs, and RocksDB has as much in memory as it may (T4).
  bool HasToWaitForFlush() const;
  /// Returns whether enough bytes are applied, or the last flush or the last step of the applier has failed.
  /// RocksDB rejects both after an error, until Persist has resumed it (T3).
  bool HasToPersist() const;
  absl::Status PersistIfNeeded() ABSL_LOCKS_EXCLUDED(persist_mutex_, apply_mutex_);
  /// Returns whether the thread of the applier has to make a step now.
  bool IsStepDue() ABSL_LOCKS_EXCLUDED(apply_mutex_);
  /// Makes a round of the applier's thread.
  void Round() ABSL_LOCKS_EXCLUDED(apply_mutex_);

  const TierLogOptions options_;
  const std::uint64_t apply_bytes_;
  const std::uint64_t step_bytes_;     // bytes of distinct keys and values in one step of the applier
  const std::uint64_t persist_bytes_;  // bytes of the log from one flush to the next, at most
  const WriterPace& writer_pace_;
  CommitLog* log_ = nullptr;  // from Start on

  Mutex persist_mutex_;  // locked before apply_mutex_
  mutable Mutex apply_mutex_;
  LogApplier applier_ ABSL_GUARDED_BY(apply_mutex_);
  std::unique_ptr<CommitLogReader> reader_ ABSL_GUARDED_BY(apply_mutex_);  // from Start on
  bool flush_is_open_ ABSL_GUARDED_BY(apply_mutex_) = false;               // T2: it runs, or it has failed
  bool files_are_synced_ ABSL_GUARDED_BY(apply_mutex_) = false;            // while Replay is called

  std::function<void(const LogProgress&)> take_progress_ ABSL_GUARDED_BY(apply_mutex_);  // may be empty
  absl::Status apply_status_ ABSL_GUARDED_BY(apply_mutex_);  // of the last attempt
  /// All groups that were appended before this moment are applied.
  TimePoint applied_at_ ABSL_GUARDED_BY(apply_mutex_) = std::chrono::steady_clock::now();

  LatestLogMoment moment_;
  AskedLately moment_asked_;                                    // IsTrue: under apply_mutex_
  LogPosition applied_position_ ABSL_GUARDED_BY(apply_mutex_);  // from Start on: the end of what RocksDB has
  ApplyPace pace_;                                              // IsDue: the thread of the applier

  // Stored under apply_mutex_.
  std::atomic<std::uint64_t> applied_to_;
  std::atomic<std::uint64_t> applied_version_ = 0;
  std::atomic<bool> apply_failed_ = false;
  std::atomic<std::uint64_t> applied_entry_bytes_ =
      0;  // bytes in memory of all that was applied, since Start
  // Stored under persist_mutex_.
  std::atomic<std::uint64_t> persisted_to_;
  std::atomic<bool> flush_runs_ = false;
  std::atomic<std::uint64_t> persisted_entry_bytes_ = 0;  // of applied_entry_bytes_
  std::atomic<bool> flush_failed_ = false;                // also true while a flush runs

  StepThreads threads_;  // last: they use all of the above
};

}  // namespace remora
