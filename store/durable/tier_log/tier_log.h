// The commit log of the durable tier, and the applier that moves its groups to RocksDB (decision 0049).
// RocksDB's own log is not used then: a group of writes is durable once it is in the commit log.
//
//   writer ── Write ──> CommitLog ── reader ──> LogApplier ──> memtables ── Persist ──> tables, applied_to
//                       C1, C2                  C3                          C4
//
// Two threads do this work: one applies, the other persists. As a rule, neither the applier nor a scan waits
// for a flush (T4). tier_applier.h has the threads, and keeps C3 to C5, C12, T2 to T4.
//
//   C1   Write returns OK only when the whole group is in the log, or is on the disk (T1).
//   C3   Groups are applied in their order, together with the LSN that they reach, in one atomic step.
//   C4   Before RocksDB persists an applied_to, the log is synced to that LSN. Files are recycled only after
//        both. So Persist alone flushes the memtables; T4 bounds their size.
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
//   T4   While a flush runs, the thread of the applier stops once RocksDB has two write buffers in memory of
//        what is not persisted. Then the log fills, and writers are slowed (C10).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/durable/change_log.h"
#include "store/durable/commit_log/commit_log.h"
#include "store/durable/data_dir.h"
#include "store/durable/format.h"
#include "store/durable/tier_log/group_builder.h"
#include "store/durable/tier_log/group_history.h"
#include "store/durable/tier_log/group_numbers.h"
#include "store/durable/tier_log/log_change_feed.h"
#include "store/durable/tier_log/log_progress.h"
#include "store/durable/tier_log/scan_overlay.h"
#include "store/durable/tier_log/tier_applier.h"
#include "store/durable/tier_log/tier_log_options.h"
#include "store/durable/tier_log/unapplied_deletes.h"
#include "store/durable/tier_log/writer_pace.h"
#include "store/format/types/scan_range.h"

namespace remora {

/// Owns the commit log and its applier. It is the writer's side of the log: a group is built, appended, and
/// paced here.
///
/// The class has more than 25 methods, because the durable tier knows the log by this class alone.
///
/// Thread safety: one thread at a time may call AddOpening, Begin, group, Write and CheckSpace. Any thread
/// may call the others, at any time.
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
  ~TierLog() = default;
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

  /// See GroupHistory::Open.
  absl::StatusOr<std::unique_ptr<GroupHistory>> ReadGroups(std::uint64_t from) const {
    return GroupHistory::Open(*log_, from);
  }

  /// Tells the log that RocksDB has all versions ever written below this one. REQUIRES: it is called before
  /// Holds; or again, with a lower version, before any version is logged.
  void Begin(std::uint64_t version_limit) { applier_.Begin(version_limit); }

  /// The group that the next Write appends.
  GroupBuilder& group() { return group_; }
  /// The numbers of the groups that Write appends (store/durable/group_sink.h). The writer.
  GroupNumbers& numbers() { return numbers_; }
  const GroupNumbers& numbers() const { return numbers_; }

  /// Appends the group (C1), and begins a new one. If the groups are numbered, it numbers and ships this one
  /// (G1 of group_sink.h).
  ///
  /// - Unavailable: the group is not in the log. If it was larger than a file, RocksDB may have it.
  absl::Status Write();

  /// See CommitLog::CheckSpace. If the log is full, first has RocksDB persist what it has.
  absl::Status CheckSpace();

  /// See CommitLog::Sync.
  absl::Status Sync() { return log_->Sync().status(); }
  /// Applies all groups that were appended before the call, so that RocksDB shows them.
  ///
  /// - Unavailable, DataLoss: the log cannot be read, or RocksDB cannot write.
  absl::Status ApplyAll() { return applier_.ApplyAll(); }
  /// Applies all groups, as ApplyAll does, and waits until tables on the disk have them. Then files of the
  /// log can be recycled, or a backup can be made.
  absl::Status PersistAll() { return applier_.PersistAll(); }
  /// The sources of a cursor (C7): RocksDB at one moment, and the groups that are logged behind it.
  struct View {
    std::shared_ptr<const rocksdb::Snapshot> snapshot;
    std::unique_ptr<ScanOverlay> overlay;  // null: there is no such group
  };
  /// Returns whether OpenView would be quick. If not, there was no view for a minute, or more than 16 MiB of
  /// the log are not applied. Then the thread of the applier hurries, and if it is behind, writers are slowed
  /// until it has caught up. True, too, if no thread applies
  /// the log, or its last attempt has failed: OpenView then applies it, or returns the error. Any thread.
  bool IsReadyForView();
  /// Applies the log, so that IsReadyForView is true. Any thread.
  void MakeReadyForView();
  /// Returns a view of all groups that were appended before the call; or of those before `end`, which is the
  /// end of a group. REQUIRES: the log outlives the view. Errors are those of ApplyAll, and with `end`
  /// Aborted: RocksDB has later groups.
  ///
  /// Cost: a read of the groups that are not applied. It asks the applier to have fewer of them, and from
  /// 16 MiB on it applies them itself.
  absl::StatusOr<View> OpenView(const ScanRange& range, std::optional<Lsn> end = std::nullopt);
  /// Returns whether RocksDB has the write of this version, and all earlier ones (C6). It applies the log if
  /// need be, as far as need be. Returns false if that fails, or if the last attempt has failed and the
  /// thread tries again.
  bool Holds(std::uint64_t version) { return applier_.Holds(version); }
  /// Returns whether the key was deleted, and RocksDB may still have it (C6).
  bool IsDeleted(std::string_view key) const { return deletes_.Has(key, applied_to()); }

  /// Returns OK, or the error of the last attempt to apply the log.
  absl::Status apply_status() const { return applier_.status(); }

  /// Returns whether RocksDB may show a write that failed: a group of T1 whose flush failed. If so, all
  /// later writes fail, too.
  bool may_show_failed() const { return may_show_failed_.load(std::memory_order_relaxed); }

  std::string description() const { return log_->description(); }
  /// See DurableTier::log_was_torn.
  bool was_torn() const { return log_->was_torn(); }
  Lsn appended() const { return log_->appended(); }
  Lsn durable() const { return log_->durable(); }
  Lsn applied_to() const { return applier_.applied_to(); }
  Lsn persisted_to() const { return applier_.persisted_to(); }
  /// Has `take` told the progress: behind each step of the applier, and in each round of its thread. `take`
  /// outlives this, and is called by one thread at a time. Any thread.
  void WatchProgress(std::function<void(const LogProgress&)> take) {
    applier_.WatchProgress(std::move(take));
  }
  /// Returns the total time for which Write has slept (C10).
  std::chrono::nanoseconds slowed() const { return pace_.slept(); }

 private:
  TierLog(const TierLogOptions& options, Lsn applied_to)
      : options_(options),
        file_size_(LogFileSizeFor(options.max_bytes)),
        applier_(options, applied_to, pace_) {}

  /// Appends a group. If the log is full, it first makes space. Errors are those of CommitLog::Append, and
  /// of PersistAll.
  absl::StatusOr<Lsn> Append(std::span<const LogEntry> entries);
  /// Writes the group as T1 says.
  absl::Status WriteUnlogged();
  /// Notes the keys that the group deletes (C6). `lsn`: the end of the group.
  void NoteDeletes(Lsn lsn);
  /// Returns whether a caller of IsReadyForView waits for the applier. The writer.
  bool IsViewAwaited();
  /// Makes the writer sleep, as C10 says, after it has appended `bytes`.
  void SlowDown(std::uint64_t bytes);

  const TierLogOptions options_;
  const std::uint64_t file_size_;
  std::unique_ptr<CommitLog> log_;

  // Only the writer changes these.
  GroupBuilder group_;
  GroupNumbers numbers_;
  UnappliedDeletes deletes_;
  WriterPace pace_;
  Lsn woken_at_;
  std::atomic<bool> may_show_failed_ = false;

  std::atomic<bool> view_is_awaited_ = false;
  TierApplier applier_;  // last: its threads use the log
};

}  // namespace remora
