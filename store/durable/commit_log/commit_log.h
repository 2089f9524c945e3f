// The commit log: makes groups of writes durable before anything else knows of them.
//
//   C1  appended() passes a group only when all of it, its checksum last, stands in the mapped
//       file, or pwrite has returned. From then on the page cache keeps it when the process dies,
//       however it dies.
//   C2  durable() passes a group only when an fdatasync that began behind that group has returned.
//       A sync that failed is final: nobody can tell what of it the disk has.
//   C4  A file is recycled only by Recycle and when CommitLogOptions::retain allows it (C4a, C4b of
//       file_set.h).
//   C5  Open finds the end of the log by C5a to C5d of recovery.h, and continues there.
//   C9  A group is refused before any byte of it is written, if the next file cannot be had; the
//       log takes groups again when it can (C9a to C9d of log_file.h and file_set.h).
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
#include "store/durable/commit_log/file_set.h"
#include "store/durable/commit_log/format.h"
#include "store/durable/commit_log/log_reader.h"
#include "store/durable/commit_log/mutex.h"
#include "store/durable/commit_log/recovery.h"
#include "store/durable/log_retention.h"

namespace remora {

struct CommitLogOptions {
  /// An existing directory of this log alone. REQUIRES: one process at a time opens it (DataDir
  /// holds a lock).
  std::string dir;
  /// A multiple of kLogFileUnit from kMinLogFileSize to kMaxLogFileSize. Files of another size that
  /// are there stay in use.
  std::uint64_t file_size = std::uint64_t{64} << 20;
  /// Of all files together; at least three.
  std::uint64_t max_bytes = std::uint64_t{1} << 30;
  /// Of files that are needed no more, beside max_bytes (C8a of file_set.h).
  LogRetention retention{};
  /// Not 0, and never used for this log before.
  std::uint64_t incarnation = 0;
  /// Open shows the groups from here on: up to here, all was applied, and that was persisted.
  /// REQUIRES: Sync had returned so much before that was persisted, as RocksDB syncs its log before
  /// it installs a table.
  Lsn replay_from{};
  /// The machine was not started since the log was written last (DataDir::is_of_this_boot).
  bool is_of_this_boot = false;
  LogWriterKind writer = LogWriterKind::kChoose;
  /// The lowest LSN that a watch, a backup or a replica still reads; none: kMaxLsn. Called by
  /// Recycle.
  std::function<Lsn()> retain{};
  /// fdatasync, or what stands for it.
  std::function<int(int fd)> sync{};
};

/// Thread Safety: Append is for one thread at a time. Sync, Recycle and the const members may be
/// called from any thread, also beside Append.
class CommitLog {
 public:
  /// Shows the groups that the log holds behind `replay_from` to `replay`, then continues the log.
  /// Waits until the first file is made. InvalidArgument: an option is out of bounds. DataLoss: the
  /// log is damaged (C5). Unavailable: the disk is full or fails. PermissionDenied, NotFound,
  /// ResourceExhausted. What `replay` returns, if not OK.
  static absl::StatusOr<std::unique_ptr<CommitLog>> Open(CommitLogOptions options, LogReplay replay);
  /// Syncs nothing.
  ~CommitLog();
  CommitLog(const CommitLog&) = delete;
  CommitLog& operator=(const CommitLog&) = delete;

  /// Appends the entries as one group, and returns the LSN behind it (C1). Copies the bytes. Cost:
  /// a copy and a hash of the bytes; waits when the files are written faster than they are made.
  /// Unless OK, nothing is appended: InvalidArgument: no entry, or one that is out of bounds, or
  /// more bytes than max_group_bytes(). Unavailable: the disk is full, and a later Append may
  /// succeed; or it failed, and none will until the log is opened again. ResourceExhausted: the
  /// files have max_bytes; Recycle makes room.
  absl::StatusOr<Lsn> Append(std::span<const LogEntry> entries);

  /// Returns when the disk has all that was appended when it was called (C2), and how far that is.
  /// Unavailable: the sync failed, now or earlier; durable() stays, and so does this error.
  absl::StatusOr<Lsn> Sync() ABSL_LOCKS_EXCLUDED(sync_mutex_);

  /// Allows the files to be recycled that end at or before `applied_to`, which the caller has
  /// persisted elsewhere (C4).
  void Recycle(Lsn applied_to);

  /// A reader of the groups behind `from`. Next(appended()) follows the log. Errors as
  /// CommitLogReader::Open.
  absl::StatusOr<std::unique_ptr<CommitLogReader>> Read(Lsn from, LogPlace place = LogPlace::kGroupEnd) const;

  /// Whether Open removed groups behind the end (C5d).
  bool was_torn() const { return was_torn_; }
  Lsn appended() const { return Lsn{appended_.load(std::memory_order_acquire)}; }
  Lsn durable() const { return Lsn{durable_.load(std::memory_order_acquire)}; }
  /// First LSN that is held.
  Lsn first() const { return files_->first(); }
  std::uint64_t bytes() const { return files_->bytes(); }
  std::uint64_t max_group_bytes() const { return options_.file_size - sizeof(LogFileHeader); }
  /// kMapped or kWrite.
  LogWriterKind writer() const { return options_.writer; }
  /// For people, once at the start: how groups are written, and why.
  std::string description() const;

 private:
  explicit CommitLog(CommitLogOptions options) : options_(std::move(options)) {}

  absl::Status StartFiles(const RecoveredLog& log);
  absl::Status BeginFile(std::shared_ptr<CommitLogFile> file);
  absl::Status MoveToNextFile();
  void AskForPages();
  absl::Status Refuse(std::uint64_t size) const;
  absl::Status Fail(std::string_view operation, int error) ABSL_LOCKS_EXCLUDED(failure_mutex_);
  absl::Status failure() const ABSL_LOCKS_EXCLUDED(failure_mutex_);

  CommitLogOptions options_;
  std::unique_ptr<CommitLogFiles> files_;
  bool was_torn_ = false;

  // Of the thread that appends.
  std::shared_ptr<CommitLogFile> current_;
  std::uint64_t at_ = 0;        // offset in current_ of the next group
  std::uint64_t checksum_ = 0;  // of the last group
  std::uint64_t asked_to_ = 0;  // offset in current_ up to which pages are made ready
  std::string encoded_;         // for pwrite

  // Stored by the thread that appends, behind the group.
  std::atomic<std::uint64_t> appended_ = 0;
  // Stored under sync_mutex_.
  std::atomic<std::uint64_t> durable_ = 0;
  LogMutex sync_mutex_;

  std::atomic<bool> failed_ = false;
  mutable LogMutex failure_mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(failure_mutex_);
};

}  // namespace remora
