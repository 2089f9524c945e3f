// The commit log, which makes groups of writes durable before any other part of the store applies
// them.
//
//   C1  appended() passes a group only after the whole group, its checksum last, has been stored
//       into the mapped file, or pwrite has returned. From then on the page cache keeps the group,
//       in whatever way the process ends.
//   C2  durable() passes a group only when an fdatasync that began after that group has returned. A
//       failed sync is final, because the log cannot learn which of its bytes are on the disk.
//   C4  Only Recycle recycles a file, and only if CommitLogOptions::retain allows it (C4a, C4b of
//       file_set.h).
//   C5  Open finds the end of the log by C5a to C5d of recovery.h, and continues there.
//   C9  If a group needs the next file and the log cannot provide one, Append rejects the group
//       before it writes any byte of it. Append accepts groups again as soon as there is a next file
//       (C9a to C9d of log_file.h and file_set.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/base/mutex.h"
#include "store/durable/commit_log/file_set.h"
#include "store/durable/commit_log/format.h"
#include "store/durable/commit_log/log_reader.h"
#include "store/durable/commit_log/recovery.h"
#include "store/durable/tier_log/log_retention.h"

namespace remora {

struct CommitLogOptions {
  /// An existing directory that holds this log and nothing else. REQUIRES: only one process at a
  /// time has the log open (DataDir holds a lock).
  std::string dir;
  /// A multiple of kLogFileUnit from kMinLogFileSize to kMaxLogFileSize. Existing files of another
  /// size stay in use.
  std::uint64_t file_size = std::uint64_t{64} << 20;
  /// Bound on the bytes of all files together. At least the size of three files.
  std::uint64_t max_bytes = std::uint64_t{1} << 30;
  /// Says which files the log keeps although the store itself no longer needs them. They do not
  /// count for max_bytes (C8a of file_set.h).
  LogRetention retention{};
  /// Not 0, and never used for this log before.
  std::uint64_t incarnation = 0;
  /// LSN from which on Open replays groups. The caller has applied all earlier groups and persisted
  /// that. REQUIRES: Sync had returned this LSN before the caller persisted it, as RocksDB syncs its
  /// log before it installs a table.
  Lsn replay_from{};
  /// True if the machine has not been restarted since the last write to the log
  /// (DataDir::is_of_this_boot).
  bool is_of_this_boot = false;
  LogWriterKind writer = LogWriterKind::kChoose;
  /// Returns the lowest LSN that a watch, a backup or a replica still reads; kMaxLsn if there is
  /// none. Recycle calls it.
  std::function<Lsn()> retain{};
  /// Replaces fdatasync. Empty: fdatasync itself.
  std::function<int(int fd)> sync{};
};

/// An append-only log of groups, in the files of one directory.
///
/// Thread safety: only one thread at a time may call Append. Any thread may call Sync, Recycle and
/// the const members, also during an Append.
class CommitLog {
 public:
  /// Calls `replay` for each group of the log behind `replay_from`, in order, then continues the log
  /// there. Waits until the first file is made. If `replay` fails, returns its status.
  ///
  /// - InvalidArgument: an option is out of bounds.
  /// - DataLoss: the log is damaged (C5).
  /// - Unavailable: the disk is full or fails.
  /// - PermissionDenied, NotFound: the directory cannot be read.
  /// - ResourceExhausted: the system does not start a thread, or max_bytes leaves no space for a
  ///   file.
  static absl::StatusOr<std::unique_ptr<CommitLog>> Open(CommitLogOptions options, LogReplay replay);
  /// Closes the files without a sync.
  ~CommitLog();
  CommitLog(const CommitLog&) = delete;
  CommitLog& operator=(const CommitLog&) = delete;

  /// Appends the entries as one group, and returns the LSN behind it (C1). Copies the bytes. On an
  /// error it appends nothing.
  ///
  /// - InvalidArgument: there is no entry, an entry is out of bounds, or the group has more than
  ///   max_group_bytes().
  /// - Unavailable: the error passes by itself (WillPass), and a later Append may succeed; or the
  ///   disk failed, and no Append succeeds until the log is opened again.
  /// - ResourceExhausted: the files have max_bytes; Recycle makes space.
  ///
  /// Cost: a copy and a hash of the bytes. It waits if groups fill the files faster than the log can
  /// make new ones.
  absl::StatusOr<Lsn> Append(std::span<const LogEntry> entries);

  /// Returns OK if the next file of the log is made, so that groups of each size find space. Else begins
  /// another try to make it, and returns why the last one failed. Errors are those of Append. One thread at a
  /// time may call this or Append.
  absl::Status CheckSpace();

  /// Waits until the disk has every group that was appended before the call (C2). Returns the LSN up
  /// to which the disk has the log.
  ///
  /// - Unavailable: this sync or an earlier one failed. durable() no longer changes, and every later
  ///   call returns this error.
  absl::StatusOr<Lsn> Sync() ABSL_LOCKS_EXCLUDED(sync_mutex_);

  /// Allows the log to recycle the files that end at or before `applied_to` (C4). REQUIRES: the
  /// caller has persisted the entries before `applied_to` elsewhere.
  void Recycle(Lsn applied_to);

  /// Returns a reader of the groups behind `from`. Its Next(appended()) follows the log. Errors are
  /// those of CommitLogReader::Open.
  absl::StatusOr<std::unique_ptr<CommitLogReader>> Read(Lsn from, LogPlace place = LogPlace::kGroupEnd) const;

  /// Returns whether Open removed groups behind the end (C5d).
  bool was_torn() const { return was_torn_; }
  Lsn appended() const { return Lsn{appended_.load(std::memory_order_acquire)}; }
  Lsn durable() const { return Lsn{durable_.load(std::memory_order_acquire)}; }
  /// Returns the first LSN that the log still has.
  Lsn first() const { return files_->first(); }
  std::uint64_t bytes() const { return files_->bytes(); }
  std::uint64_t max_group_bytes() const { return options_.file_size - sizeof(LogFileHeader); }
  /// Returns kMapped or kWrite.
  LogWriterKind writer() const { return options_.writer; }
  /// Returns a line for the operator, logged once at the start: how groups are written, and why.
  std::string description() const;

 private:
  explicit CommitLog(CommitLogOptions options) : options_(std::move(options)) {}

  absl::Status StartFiles(const RecoveredLog& log);
  absl::Status BeginFile(std::shared_ptr<CommitLogFile> file);
  absl::Status MoveToNextFile();
  void AskForPages();
  absl::Status Reject(std::uint64_t size) const;
  absl::Status Fail(std::string_view operation, int error) ABSL_LOCKS_EXCLUDED(failure_mutex_);
  absl::Status failure() const ABSL_LOCKS_EXCLUDED(failure_mutex_);

  CommitLogOptions options_;
  std::unique_ptr<CommitLogFiles> files_;
  bool was_torn_ = false;

  // Only the appending thread uses these.
  std::shared_ptr<CommitLogFile> current_;
  std::uint64_t at_ = 0;        // offset in current_ of the next group
  std::uint64_t checksum_ = 0;  // of the last group
  std::uint64_t asked_to_ = 0;  // offset in current_ up to which page preparation was requested
  std::string encoded_;         // the group, for pwrite

  // The appending thread stores it, after the group.
  std::atomic<std::uint64_t> appended_ = 0;
  // Sync stores it, under sync_mutex_.
  std::atomic<std::uint64_t> durable_ = 0;
  Mutex sync_mutex_;

  std::atomic<bool> failed_ = false;
  mutable Mutex failure_mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(failure_mutex_);
};

}  // namespace remora
