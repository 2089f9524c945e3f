// The files of the commit log: those that hold it, and those that are made ahead.
//
//   retained         held, up to the one that is written   spares
//   ┌────────────┐   ┌────────────┐     ┌────────────┐     ┌────────────┐
//   │ ...0000000 │   │ ...4000000 │ ... │ ..10000000 │     │ ..14000000 │   each named by its first LSN
//   └────────────┘   └────────────┘     └────────────┘     └────────────┘
//
// Retained files are needed no more, but for readers that are behind (LogKeep).
//
//   C4a  A file leaves the log only by Release, when all of it stands before the LSN that is given
//        there.
//   C4b  A released file that takes the name of a spare holds no group of its new name (L1 of
//        format.h).
//   C9c  The writer gets a next file that is made completely, or none, before it writes anything to
//        it.
//   C8a  Files are retained whose successors hold fewer bytes of groups than LogKeep says, or that the writer
//        left within its time, which the file system knows as the file's own.
//   C9d  All files together have at most `max_bytes`, but for those that are retained.
//
// A thread of its own makes spares: to allocate, fill and map a file takes longer than a write may.
// It has one spare ready, and recycles a released file rather than make a new one. Where the disk is
// full it stops; each NextFile that gets none has it try again. The same thread makes pages ready a
// little ahead of the writer (PreparePages).
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
#include "store/durable/commit_log/log_file.h"
#include "store/durable/commit_log/mutex.h"

namespace remora {

struct LogFileSetOptions {
  std::string dir;
  std::uint64_t file_size = 0;
  std::uint64_t max_bytes = 0;
  LogWriterKind kind = LogWriterKind::kWrite;
};

/// What Release retains: the latest so many bytes of groups, and files that the writer left since then.
struct LogKeep {
  std::uint64_t bytes = 0;
  Lsn end;  // of the log
  std::chrono::system_clock::time_point since = std::chrono::system_clock::time_point::max();
};

/// Shares each file with who still uses it, as a sync does.
///
/// Thread Safety: all may be called from many threads.
class CommitLogFiles {
 public:
  using FilePtr = std::shared_ptr<CommitLogFile>;

  /// `held`, then `spares`, each file beginning where the one before it ends; both may be empty.
  /// ResourceExhausted: the system does not start a thread.
  static absl::StatusOr<std::unique_ptr<CommitLogFiles>> Start(LogFileSetOptions options,
                                                               std::deque<FilePtr> held,
                                                               std::deque<FilePtr> spares);
  ~CommitLogFiles();
  CommitLogFiles(const CommitLogFiles&) = delete;
  CommitLogFiles& operator=(const CommitLogFiles&) = delete;

  /// Returns the next file, made completely; it stays a spare until BeginNextFile. Waits while it
  /// is being made. Unavailable: the last try to make it failed, as on a full disk; another try
  /// begins. ResourceExhausted: the files have max_bytes, and none was released.
  absl::StatusOr<FilePtr> NextFile();
  /// The file that NextFile returned now belongs to the log. `end`: of the groups of the one before, if any.
  void BeginNextFile(Lsn end);

  /// Takes those files out of the log that end at or before `below`, but never the one that is
  /// written, nor one that is to be kept.
  void Release(Lsn below, const LogKeep& keep = {});

  /// Has the thread make pages of the file's mapping ready for stores. Returns at once.
  void PreparePages(FilePtr file, std::uint64_t offset, std::uint64_t size);

  /// The held files that have bytes of [from, to).
  std::vector<FilePtr> Between(Lsn from, Lsn to) const;
  /// First LSN of the oldest file that is held or retained.
  Lsn first() const;
  /// Of all files.
  std::uint64_t bytes() const;

 private:
  explicit CommitLogFiles(LogFileSetOptions options) : options_(std::move(options)) {}

  void MakeSpares();
  /// Does the work that PreparePages has left, if there is any.
  bool PrepareWanted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Of all files but the retained ones.
  std::uint64_t CountBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Bytes of groups, at least.
  std::uint64_t BytesIn(const LogFileInfo& file) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsSince(const LogFileInfo& file, std::chrono::system_clock::time_point since) const;
  /// How many of the retained files, from the oldest on, are not to be kept.
  std::size_t CountNotKept(const LogKeep& keep) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Lsn SpareFirst() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string PathOf(Lsn first) const;
  absl::StatusOr<FilePtr> MakeSpare(const std::optional<LogFileInfo>& recycled, Lsn first) const;

  const LogFileSetOptions options_;
  mutable LogMutex mutex_;
  std::condition_variable_any changed_;
  std::deque<FilePtr> held_ ABSL_GUARDED_BY(mutex_);
  std::deque<FilePtr> spares_ ABSL_GUARDED_BY(mutex_);
  std::deque<LogFileInfo> retained_ ABSL_GUARDED_BY(mutex_);
  std::map<Lsn, std::uint64_t> filled_ ABSL_GUARDED_BY(mutex_);  // by first LSN: bytes, where that is known
  std::deque<LogFileInfo> released_ ABSL_GUARDED_BY(mutex_);
  absl::Status made_ ABSL_GUARDED_BY(mutex_);       // how the last try to make a spare ended
  bool try_again_ ABSL_GUARDED_BY(mutex_) = false;  // although it failed
  FilePtr wanted_ ABSL_GUARDED_BY(mutex_);          // whose pages are to be made ready; null: none
  std::uint64_t wanted_offset_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t wanted_size_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread maker_;
};

}  // namespace remora
