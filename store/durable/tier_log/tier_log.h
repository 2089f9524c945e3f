// The commit log of the durable tier, and the applier that moves its groups to RocksDB (decision 0049).
// RocksDB's own log is not used then: a group of writes is durable once it is in the commit log.
//
//   writer ── Write ──> CommitLog ── reader ──> LogApplier ──> memtables ── Persist ──> tables, applied_to
//                       C1, C2                  C3                          C4
//
// Two threads do that: one applies, the other persists. Neither the applier nor a scan waits for a flush.
//
//   C1   Write returns OK only when the whole group is in the log, or is on the disk (T1).
//   C3   Groups are applied in their order, together with the LSN that they reach, in one atomic step.
//   C4   Before RocksDB persists an applied_to, the log is synced to that LSN. Files are recycled only after
//        both. So Persist alone flushes the memtables, and RocksDB has no bound for their size.
//   C5   Open applies the groups of the log behind applied_to, before any read.
//   C6   RocksDB has each record that leaves memory, since Holds waits for the applier. A deleted key
//        is the exception: it leaves memory at once, and IsDeleted knows the deleted keys that RocksDB
//        may still have.
//   C7   A cursor shows all logged groups: a snapshot of RocksDB, taken behind a step of the applier, and
//        laid over it the groups behind that step. It waits for no step, unless many bytes are not applied
//        (IsReadyForView).
//   C10  Writers are slowed down as the log fills, or while a cursor waits, and apply the log themselves when
//        it is full. So a write is rejected only if the disk fails.
//   C11  A directory of an earlier store loses nothing: OpenIn flushes RocksDB's log to tables first.
//   C12  The thread of the applier delays its steps while no reader needs RocksDB to be current. Then one
//        step merges more versions of a key (apply_pace.h). Evictions, scans and many deleted keys end the
//        delay.
//   T1   A group that is larger than a file of the log goes directly to RocksDB, after all logged groups
//        are applied. It is on the disk when Write returns. Before it is written, the log gets a mark in
//        its place (C8c). It is rejected if the disk has no space for the tables that the flush writes.
//   T2   A flush takes what is in the memtables when RocksDB begins it. After a failed flush, RocksDB may
//        try again by itself. So from before a flush until one succeeds, the log is synced before each
//        step of the applier.
//   T3   A full disk stops RocksDB, and a later Persist resumes it. All steps go on by themselves as soon as
//        the disk has space again. Until then each returns an error: none waits for space.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/base/clock.h"
#include "store/base/mutex.h"
#include "store/durable/change_log.h"
#include "store/durable/commit_log/commit_log.h"
#include "store/durable/commit_log/log_reader.h"
#include "store/durable/completion_records.h"
#include "store/durable/data_dir.h"
#include "store/durable/flusher.h"
#include "store/durable/format.h"
#include "store/durable/tier_log/apply_pace.h"
#include "store/durable/tier_log/log_applier.h"
#include "store/durable/tier_log/log_change_feed.h"
#include "store/durable/tier_log/log_moment.h"
#include "store/durable/tier_log/log_progress.h"
#include "store/durable/tier_log/log_retention.h"
#include "store/durable/tier_log/scan_overlay.h"
#include "store/format/types/scan_range.h"

namespace remora {

/// Least value of TierLogOptions::max_bytes.
inline constexpr std::uint64_t kMinTierLogBytes = std::uint64_t{1} << 20;

/// The actor that applies the log. In addition, Holds, ApplyAll, and a write to a full log apply it.
enum class LogApplying : std::uint8_t {
  kInThread = 1,  // a thread of the tier; a second one persists
  kByWriter = 2,  // Write, once enough bytes are logged
  kOnDemand = 3,  // none; for tests
};

struct TierLogOptions {
  /// An existing directory that holds this log and nothing else.
  std::string dir{};
  /// The database and its families, see LogApplierOptions. RocksDB never flushes the memtables by itself.
  /// The database outlives the log.
  rocksdb::DB* db = nullptr;
  rocksdb::ColumnFamilyHandle* entries = nullptr;
  rocksdb::ColumnFamilyHandle* meta = nullptr;
  /// ResumedBy::kFlusher. The database has its listener. The default hears of no error: the first is final.
  std::shared_ptr<Flusher> flusher = std::make_shared<Flusher>(ResumedBy::kFlusher);
  /// See CommitLogOptions.
  bool is_of_this_boot = false;
  LogWriterKind writer = LogWriterKind::kChoose;
  /// Bound on the bytes of all files together. LogFileSizeFor says how large each is.
  std::uint64_t max_bytes = std::uint64_t{1} << 30;
  /// Approximate bound on the bytes that are applied and not persisted. A quarter of max_bytes is another.
  std::uint64_t write_buffer_bytes = std::uint64_t{64} << 20;
  LogApplying applying = LogApplying::kInThread;
  /// See CommitLogOptions.
  LogRetention retention{};
};

/// Owns the commit log and its applier.
///
/// The class has more than 25 methods and 15 fields, because the log, the thread that applies it, and the
/// deletes that are not applied change together. Each group of fields names the lock that guards it.
///
/// Thread safety: one thread at a time may call AddOpening, Begin, and the functions from Put to Write. Any
/// thread may call the others, at any time.
class TierLog {
 public:
  /// Opens the log, and applies its groups (C5). Errors are those of CommitLog::Open and LogApplier.
  ///
  /// - InvalidArgument: max_bytes is too small.
  static absl::StatusOr<std::unique_ptr<TierLog>> Open(const TierLogOptions& options);
  /// Opens the log of a data directory. If there is none, it first moves the content of RocksDB's own log
  /// to tables, then makes the log. It sets `dir` and `is_of_this_boot` of the options. Errors are those of
  /// Store::Open.
  static absl::StatusOr<std::unique_ptr<TierLog>> OpenIn(DataDir& dir, TierLogOptions options);
  /// Returns the directory of the log of a data directory.
  static std::string DirIn(const DataDir& dir);
  /// Returns FailedPrecondition if the data directory has a log and the caller would use it without one.
  static absl::Status CheckUse(const DataDir& dir, bool with_log);
  /// Applies and flushes nothing, since the log has all groups.
  ~TierLog();
  TierLog(const TierLog&) = delete;
  TierLog& operator=(const TierLog&) = delete;

  /// Logs the opening of this incarnation, and returns all openings that the log knows (C8d of
  /// log_change_feed.h). REQUIRES: it is called once, before any other write. Errors are those of Write,
  /// and DataLoss.
  absl::StatusOr<std::vector<Opening>> AddOpening(std::uint64_t incarnation);
  /// See ReadLogChanges.
  absl::StatusOr<std::unique_ptr<ChangeLog>> ReadChanges(std::uint64_t from) const {
    return ReadLogChanges(*log_, from);
  }

  /// Tells the log that RocksDB has all versions ever written below this one. REQUIRES: it is called once,
  /// before Holds.
  void Begin(std::uint64_t version_limit) { applied_version_.store(version_limit - 1); }

  // The following functions add to the group.

  /// Does not copy the value and the key: the caller keeps the bytes unchanged until Write.
  void Put(std::string_view key, const StoredHeader& header, std::string_view value);
  void Delete(std::string_view key, std::uint64_t version);
  /// Sets a key of the meta family, or removes it if `value` is empty.
  void PutMeta(std::string_view key, std::string_view value);
  /// REQUIRES: the last addition was the Put or Delete of this version.
  void PutCompletion(const RequestId& request, std::uint64_t version, std::int64_t result);
  void DeleteClient(std::uint64_t client);

  /// Appends the group (C1), and begins a new one.
  ///
  /// - Unavailable: the group is not in the log. If it was larger than a file, RocksDB may have it.
  absl::Status Write();

  /// See CommitLog::Sync.
  absl::Status Sync();
  /// Applies all groups that were appended before the call, so that RocksDB shows them.
  ///
  /// - Unavailable, DataLoss: the log cannot be read, or RocksDB cannot write.
  absl::Status ApplyAll();
  /// Applies all groups, as ApplyAll does, and waits until tables on the disk have them. Then files of the
  /// log can be recycled, or a backup can be made.
  absl::Status PersistAll();
  /// The sources of a cursor (C7): RocksDB at one moment, and the groups that are logged behind it.
  struct View {
    std::shared_ptr<const rocksdb::Snapshot> snapshot;
    std::unique_ptr<ScanOverlay> overlay;  // null: there is no such group
  };
  /// Returns whether OpenView would be quick. If not, more than 16 MiB of the log are not applied; the thread
  /// of the applier hurries, and writers are slowed until it has caught up. True, too, if no thread applies
  /// the log, or its last attempt has failed: OpenView then applies it, or returns the error. Any thread.
  bool IsReadyForView();
  /// Returns a view of all groups that were appended before the call. REQUIRES: the log outlives the view.
  /// Errors are those of ApplyAll.
  ///
  /// Cost: a read of the groups that are not applied. It asks the applier to have fewer of them, and from
  /// 16 MiB on it applies them itself.
  absl::StatusOr<View> OpenView(const ScanRange& range);
  /// Returns whether RocksDB has the write of this version, and all earlier ones (C6). It applies the log if
  /// need be, as far as need be. Returns false if that fails, or if the last attempt has failed and the
  /// thread tries again.
  bool Holds(std::uint64_t version);
  /// Returns whether the key was deleted, and RocksDB may still have it (C6).
  bool IsDeleted(std::string_view key) const;

  /// Returns OK, or the error of the last attempt to apply the log.
  absl::Status apply_status() const {
    if (!apply_failed_.load(std::memory_order_relaxed)) return absl::OkStatus();
    const MutexLock lock(apply_mutex_);
    return apply_status_;
  }

  /// Returns whether RocksDB may show a write that failed: a group of T1 whose flush failed. If so, all
  /// later writes fail, too.
  bool may_show_failed() const { return may_show_failed_.load(std::memory_order_relaxed); }

  std::string description() const { return log_->description(); }
  /// See DurableTier::log_was_torn.
  bool was_torn() const { return log_->was_torn(); }
  Lsn appended() const { return log_->appended(); }
  Lsn durable() const { return log_->durable(); }
  Lsn applied_to() const { return Lsn{applied_to_.load(std::memory_order_acquire)}; }
  Lsn persisted_to() const { return Lsn{persisted_to_.load(std::memory_order_acquire)}; }
  /// Has `take` told the progress: behind each step of the applier, and in each round of its thread. `take`
  /// outlives this, and is called by one thread at a time. Any thread.
  void WatchProgress(std::function<void(const LogProgress&)> take) {
    const MutexLock lock(apply_mutex_);
    take_progress_ = std::move(take);
    TellProgress(std::nullopt);
  }
  /// Returns the total time for which Write has slept (C10).
  std::chrono::nanoseconds slowed() const {
    return std::chrono::nanoseconds(slowed_ns_.load(std::memory_order_relaxed));
  }

 private:
  TierLog(const TierLogOptions& options, Lsn applied_to);

  absl::Status Replay(const LogGroup& group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_mutex_);
  /// Applies the groups before `until`, or fewer: it may stop behind `enough`.
  absl::Status ApplyTo(Lsn until, Lsn enough = kMaxLsn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_mutex_);
  /// Does the work of ApplyTo.
  absl::Status ApplyGroupsTo(Lsn until, Lsn enough) ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_mutex_);
  absl::Status ApplyAdded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_mutex_);
  /// Tells take_progress_. `begin`: of a write to RocksDB that has just ended; nullopt: none has.
  void TellProgress(std::optional<TimePoint> begin) ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_mutex_);
  void TellProgress() {
    const MutexLock lock(apply_mutex_);
    TellProgress(std::nullopt);
  }
  /// Lets new views begin behind all applied groups.
  void NoteMoment() ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_mutex_) {
    moment_.Set(options_.db, reader_->position());
  }
  /// Waits until tables have all that was applied before the call. The applier may go on meanwhile (T2).
  absl::Status Persist() ABSL_EXCLUSIVE_LOCKS_REQUIRED(persist_mutex_) ABSL_LOCKS_EXCLUDED(apply_mutex_);
  absl::Status Flush() { return options_.flusher->Flush(options_.db, {options_.entries, options_.meta}); }
  /// Persists if enough bytes are applied, or if the last flush or the last step of the applier has failed.
  /// RocksDB rejects both after an error, until Persist has resumed it (T3).
  absl::Status PersistStep() ABSL_LOCKS_EXCLUDED(persist_mutex_, apply_mutex_);
  /// Appends a group. If the log is full, it first makes space. Errors are those of CommitLog::Append, and
  /// of PersistAll.
  absl::StatusOr<Lsn> Append(std::span<const LogEntry> entries);
  /// Writes the group as T1 says.
  absl::Status WriteUnlogged();
  /// Wakes the applier, or does its work, after enough bytes were appended up to `lsn`.
  void HaveApplied(Lsn lsn);
  enum class Step : std::uint8_t { kApply = 0, kPersist = 1 };
  /// Has the thread of the step do it, if there is one.
  void Wake(Step step) ABSL_LOCKS_EXCLUDED(thread_mutex_);
  /// Waits until the step is wanted. Returns false at the end.
  bool WaitFor(Step step) ABSL_LOCKS_EXCLUDED(thread_mutex_);
  /// Returns whether the thread of the applier has to make a step now.
  bool IsStepDue();
  void RunApplier();
  void RunPersister();
  bool HasToPersist() const;
  /// Notes the keys that the group at `lsn` deletes, and drops those that are applied (C6).
  void NoteDeletes(Lsn lsn);
  void Clear();
  /// Returns whether a caller of IsReadyForView waits for the applier. The writer.
  bool IsViewAwaited();
  /// Makes the writer sleep, as C10 says, after it has appended `bytes`.
  void SlowDown(std::uint64_t bytes);

  const TierLogOptions options_;
  const std::uint64_t file_size_;
  const std::uint64_t apply_bytes_;    // bytes of the log that a waiting caller applies at once
  const std::uint64_t step_bytes_;     // bytes of distinct keys and values in one step of the applier
  const std::uint64_t persist_bytes_;  // bytes of the log from one flush to the next
  std::unique_ptr<CommitLog> log_;

  // Only the writer uses these: the group, and copies of the bytes to which its entries point.
  std::vector<LogEntry> entries_;
  std::deque<std::string> own_;
  bool has_delete_ = false;
  Lsn woken_at_;
  double owed_ns_ = 0;

  Mutex persist_mutex_;  // locked before apply_mutex_
  mutable Mutex apply_mutex_;
  LogApplier applier_ ABSL_GUARDED_BY(apply_mutex_);
  std::unique_ptr<CommitLogReader> reader_ ABSL_GUARDED_BY(apply_mutex_);
  bool flush_is_open_ ABSL_GUARDED_BY(apply_mutex_) = false;     // T2: it runs, or it has failed
  bool files_are_synced_ ABSL_GUARDED_BY(apply_mutex_) = false;  // while Open replays them

  std::function<void(const LogProgress&)> take_progress_ ABSL_GUARDED_BY(apply_mutex_);  // may be empty
  absl::Status apply_status_ ABSL_GUARDED_BY(apply_mutex_);  // of the last attempt
  /// All groups that were appended before this moment are applied.
  TimePoint applied_at_ ABSL_GUARDED_BY(apply_mutex_) = std::chrono::steady_clock::now();

  LatestLogMoment moment_;
  ApplyPace pace_;  // IsDue: the thread of the applier

  // Stored under apply_mutex_; persisted_to_ under persist_mutex_.
  std::atomic<std::uint64_t> applied_to_;
  std::atomic<std::uint64_t> persisted_to_;
  std::atomic<bool> flush_failed_ = false;  // stored under persist_mutex_; also true while a flush runs
  std::atomic<bool> apply_failed_ = false;  // stored under apply_mutex_, with apply_status_
  std::atomic<std::uint64_t> applied_version_ = 0;
  std::atomic<std::int64_t> slowed_ns_ = 0;
  std::atomic<std::uint64_t> slowed_ = 0;

  std::atomic<bool> view_is_awaited_ = false;
  std::atomic<bool> may_show_failed_ = false;  // the writer stores it

  std::atomic<bool> has_deletes_ = false;
  mutable Mutex deletes_mutex_;
  absl::flat_hash_map<std::string, std::uint64_t> deletes_ ABSL_GUARDED_BY(deletes_mutex_);  // key to LSN
  std::deque<std::pair<std::uint64_t, std::string>> deletes_in_order_ ABSL_GUARDED_BY(deletes_mutex_);

  Mutex thread_mutex_;
  std::condition_variable wanted_changed_;
  std::array<bool, 2> wanted_ ABSL_GUARDED_BY(thread_mutex_) = {};  // by Step
  bool stops_ ABSL_GUARDED_BY(thread_mutex_) = false;
  std::thread applier_thread_;
  std::thread persister_thread_;
};

/// Returns the size of each file of a log with this bound: a sixteenth of it, but at least kMinLogFileSize.
/// From 1 GiB on, it is 65 MiB, so that each value fits into a file, and T1 is for large batches alone.
std::uint64_t LogFileSizeFor(std::uint64_t max_bytes);

}  // namespace remora
