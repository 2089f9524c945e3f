// A reader that returns the groups of the commit log in order. A crash, a disk or a person may have
// changed the files, so it verifies each group.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/durable/commit_log/format.h"
#include "store/durable/commit_log/group_codec.h"

namespace remora {

/// Returns the OutOfRange error for a caller that asks for a recycled group.
absl::Status NotInLog(Lsn lsn, const std::string& dir);

/// Where the LSN lies at which a reader begins.
enum class LogPlace : std::uint8_t {
  kGroupEnd = 1,  // at the end of a group
  kInGroup = 2,   // at the end of a group or within one; in the latter case the reader begins with it
};

/// A place behind a group, with what a reader needs in order to continue there.
struct LogPosition {
  Lsn file_first;              // of the file that holds the group
  std::uint64_t offset = 0;    // in the file; 0: the file is not begun
  std::uint64_t checksum = 0;  // of the group

  Lsn lsn() const { return file_first + offset; }
};

/// A cursor over the log in a directory. It copies the bytes, so a writer may append meanwhile.
///
/// Thread safety: none.
class CommitLogReader {
 public:
  /// Opens a reader that begins behind `from`: an LSN that Append has returned, or
  /// CommitLog::first(). REQUIRES: the caller keeps the log from recycling the file that holds `from`
  /// (CommitLogOptions::retain).
  ///
  /// - OutOfRange: the log does not hold `from`, or no group ends there (see LogPlace).
  /// - NotFound, PermissionDenied, Unavailable: the directory or a file cannot be read.
  static absl::StatusOr<std::unique_ptr<CommitLogReader>> Open(const std::string& dir, Lsn from,
                                                               LogPlace place = LogPlace::kGroupEnd);
  /// Opens a reader that begins behind the position of another reader of this log. Cost: an open of
  /// one file; it does not look for the place, as Open does.
  ///
  /// - OutOfRange: the file was recycled, or nothing was written to it.
  /// - Unavailable: the file cannot be read.
  static absl::StatusOr<std::unique_ptr<CommitLogReader>> Resume(const std::string& dir,
                                                                 const LogPosition& position);
  ~CommitLogReader();
  CommitLogReader(const CommitLogReader&) = delete;
  CommitLogReader& operator=(const CommitLogReader&) = delete;

  /// Moves to the next group. Returns false at the end of the log, or at `until`.
  ///
  /// kMaxLsn finds the end of a log that has no writer. Otherwise `until` is CommitLog::appended(),
  /// and a group before it that does not verify is an error.
  ///
  /// - OutOfRange: the file of the group was recycled, or the group is damaged.
  /// - Unavailable: a file cannot be read.
  absl::StatusOr<bool> Next(Lsn until = kMaxLsn);

  /// Returns the group that Next moved to. It is valid until the next call of Next.
  const LogGroup& group() const { return group_; }

  /// Returns the LSN behind the last group that verified. Before the first Next, returns the LSN at
  /// which the reader expects a group.
  Lsn end() const { return file_first_ + at_; }
  /// Returns the place of end(), for Resume.
  LogPosition position() const { return {file_first_, at_, checksum_}; }
  /// Returns the checksum of the group before end(), which the next group names as its previous.
  std::uint64_t checksum() const { return checksum_; }
  /// Returns the first LSN of the file that the reader is in.
  Lsn file_first() const { return file_first_; }
  /// Returns whether the file that the reader is in has its header. If not, no writer has written to
  /// the file since it was made or recycled.
  bool file_is_begun() const { return at_ != 0; }

 private:
  CommitLogReader(std::string dir, Lsn from) : dir_(std::move(dir)), from_(from) {}

  // Each of these returns Unavailable if a file cannot be read.

  /// Moves the reader before the first group of the file. Returns false if the file is not begun.
  absl::StatusOr<bool> Begin(Lsn first, Lsn until);
  /// Moves the reader behind `from_`. Returns false if the file has no such place.
  absl::StatusOr<bool> FindIn(Lsn first, LogPlace place);
  /// Returns `size` bytes of the file from `offset` on, or fewer at the file's end.
  absl::StatusOr<std::string_view> Bytes(std::uint64_t offset, std::uint64_t size, Lsn until);
  /// Returns the group at this offset of the file, if it verifies and follows.
  absl::StatusOr<std::optional<LogGroup>> GroupAt(std::uint64_t offset, Lsn until);
  /// Opens the file, and reads its header. Returns false if the file does not exist or is not begun.
  absl::StatusOr<bool> OpenFile(Lsn first, Lsn until, LogFileHeader* header);
  absl::StatusOr<bool> MoveToNextFile(Lsn until);
  void CloseFile();

  const std::string dir_;
  const Lsn from_;
  int fd_ = -1;
  Lsn file_first_;
  std::uint64_t file_size_ = 0;
  std::uint64_t at_ = 0;  // offset in the file; 0: it is not begun
  std::uint64_t checksum_ = 0;
  LogGroup group_{};
  std::string window_;  // bytes of the file from window_offset_ on
  std::uint64_t window_offset_ = 0;
};

/// The groups found behind the end of the log.
struct LogRemains {
  std::uint64_t groups = 0;  // number of groups that verify, whether or not they follow
  Lsn synced_to;             // the highest synced_to of their headers
};

/// Searches the bytes from `end` on, in the file that holds `end` and in all later ones, for groups.
/// Cost: a test at every 8 bytes.
///
/// - NotFound, PermissionDenied, Unavailable: the directory or a file cannot be read.
absl::StatusOr<LogRemains> FindLogRemains(const std::string& dir, Lsn end);

}  // namespace remora
