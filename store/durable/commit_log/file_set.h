// The files of the commit log: those that hold the log, and the spares that are made ahead.
//
//   retained         held, up to the one that is written   spares
//   ┌────────────┐   ┌────────────┐     ┌────────────┐     ┌────────────┐
//   │ ...0000000 │   │ ...4000000 │ ... │ ..10000000 │     │ ..14000000 │   each named by its first LSN
//   └────────────┘   └────────────┘     └────────────┘     └────────────┘
//
// The store no longer needs the retained files; they are kept for slow readers (LogKeep).
//
//   C4a  A file leaves the log only by Release, and only if the whole file lies before the LSN that
//        the caller of Release passes.
//   C4b  A released file that takes the name of a spare holds no group that verifies under its new
//        name (L1 of format.h).
//   C9c  NextFile returns a completely made file, or an error, before the writer writes to the file.
//   C8a  A file is retained if the files after it hold fewer bytes of groups than LogKeep says. It is
//        also retained if the writer left it within the time of LogKeep. The file's modification time
//        is the time at which the writer left it.
//   C9d  All files together, without the retained ones, have at most `max_bytes`.
//
// A separate thread makes the spares, since to allocate, fill and map a file takes too long for a
// write. The thread keeps one spare ready, and recycles a released file rather than make a new one.
// If the disk is full, it stops, and each NextFile that finds no spare makes it try again. The same
// thread prepares pages a little ahead of the writer (PreparePages).
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/base/mutex.h"
#include "store/durable/commit_log/log_file.h"

namespace remora {

struct LogFileSetOptions {
  std::string dir;
  std::uint64_t file_size = 0;
  std::uint64_t max_bytes = 0;
  LogWriterKind kind = LogWriterKind::kWrite;
};

/// Tells Release which files to retain: the latest `bytes` of groups, and the files that the writer
/// left after `since`.
struct LogKeep {
  std::uint64_t bytes = 0;
  Lsn end;  // end of the log
  std::chrono::system_clock::time_point since = std::chrono::system_clock::time_point::max();
};

/// Owns the files of a log. It shares each file with its users, for example with a sync in progress.
///
/// The class has more than 15 fields, because a file is held, spare or retained, and one thread makes what
/// the others take.
///
/// Thread safety: any thread may call any member, at any time.
class CommitLogFiles {
 public:
  using FilePtr = std::shared_ptr<CommitLogFile>;

  /// Takes over the files `held`, then `spares`, and starts the thread. Both lists may be empty.
  /// REQUIRES: each file begins where the one before it ends.
  ///
  /// - ResourceExhausted: the system does not start a thread.
  static absl::StatusOr<std::unique_ptr<CommitLogFiles>> Start(LogFileSetOptions options,
                                                               std::deque<FilePtr> held,
                                                               std::deque<FilePtr> spares);
  ~CommitLogFiles();
  CommitLogFiles(const CommitLogFiles&) = delete;
  CommitLogFiles& operator=(const CommitLogFiles&) = delete;

  /// Returns the next file, completely made. It stays a spare until BeginNextFile. Waits while the
  /// thread makes it.
  ///
  /// - Unavailable: the last try to make the file failed, for example on a full disk. The thread
  ///   tries again.
  /// - ResourceExhausted: the files have max_bytes, and none was released. The thread tries again.
  absl::StatusOr<FilePtr> NextFile();
  /// Makes the file that NextFile returned a part of the log. `end` is the end of the groups in the
  /// file before it, if there is one.
  void BeginNextFile(Lsn end);

  /// Releases the files that end at or before `below`, except the file that the writer uses. Those
  /// that `keep` selects stay as retained files; the thread recycles or removes the others.
  void Release(Lsn below, const LogKeep& keep = {});

  /// Makes the thread prepare pages of the file's mapping for stores. Does not wait for it.
  void PreparePages(FilePtr file, std::uint64_t offset, std::uint64_t size);

  /// Returns the held files that have bytes of [from, to).
  std::vector<FilePtr> Between(Lsn from, Lsn to) const;
  /// Returns the first LSN of the oldest file that is held or retained.
  Lsn first() const;
  /// Returns the bytes of all files, including the retained ones.
  std::uint64_t bytes() const;

 private:
  explicit CommitLogFiles(LogFileSetOptions options) : options_(std::move(options)) {}

  void MakeSpares();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Returns the bytes of all files except the retained ones.
  std::uint64_t CountBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Returns the bytes of groups in the file, or half of its size if they are unknown.
  std::uint64_t BytesIn(const LogFileInfo& file) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsSince(const LogFileInfo& file, std::chrono::system_clock::time_point since) const;
  /// Returns how many of the retained files, counted from the oldest, `keep` does not select.
  std::size_t CountNotKept(const LogKeep& keep) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Lsn SpareFirst() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string PathOf(Lsn first) const;
  absl::StatusOr<FilePtr> MakeSpare(const std::optional<LogFileInfo>& recycled, Lsn first) const;

  const LogFileSetOptions options_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::deque<FilePtr> held_ ABSL_GUARDED_BY(mutex_);
  std::deque<FilePtr> spares_ ABSL_GUARDED_BY(mutex_);
  std::deque<LogFileInfo> retained_ ABSL_GUARDED_BY(mutex_);
  std::map<Lsn, std::uint64_t> filled_ ABSL_GUARDED_BY(mutex_);  // used bytes by first LSN, where known
  std::deque<LogFileInfo> released_ ABSL_GUARDED_BY(mutex_);
  absl::Status made_ ABSL_GUARDED_BY(mutex_);       // outcome of the last try to make a spare
  bool try_again_ ABSL_GUARDED_BY(mutex_) = false;  // try to make a spare although the last try failed
  FilePtr wanted_ ABSL_GUARDED_BY(mutex_);          // the file whose pages to prepare; null: none
  std::uint64_t wanted_offset_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t wanted_size_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread maker_;
};

}  // namespace remora
