// Reads the groups of the commit log in their order, from files that a crash, a disk or a hand may
// have changed.
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

/// OutOfRange: for who asks for groups that were recycled.
absl::Status NotInLog(Lsn lsn, const std::string& dir);

/// What is known of the LSN at which a reader begins.
enum class LogPlace : std::uint8_t {
  kGroupEnd = 1,  // a group ends there
  kInGroup = 2,   // or it is in a group: then the reader begins with that
};

/// A cursor over the log in a directory. Reads copies: a writer may append meanwhile.
///
/// Thread Safety: none.
class CommitLogReader {
 public:
  /// Begins behind `from`: an LSN that Append has returned, or CommitLog::first(). REQUIRES: the
  /// caller keeps the file that holds `from` (CommitLogOptions::retain). OutOfRange: the log does
  /// not hold it, or no group ends there. NotFound, PermissionDenied, Unavailable: the directory or
  /// a file cannot be read.
  static absl::StatusOr<std::unique_ptr<CommitLogReader>> Open(const std::string& dir, Lsn from,
                                                               LogPlace place = LogPlace::kGroupEnd);
  ~CommitLogReader();
  CommitLogReader(const CommitLogReader&) = delete;
  CommitLogReader& operator=(const CommitLogReader&) = delete;

  /// Moves to the next group. False: the log ends here, or `until` does. `until`: nothing (kMaxLsn)
  /// to find the end of a log that has no writer; else CommitLog::appended(). Then a group before
  /// it that does not verify is an error. OutOfRange: its file was recycled, or it is damaged.
  /// Unavailable.
  absl::StatusOr<bool> Next(Lsn until = kMaxLsn);

  /// The group that Next moved to, valid until the next call of Next.
  const LogGroup& group() const { return group_; }

  /// Behind the last group that verified; before the first one, where it is expected.
  Lsn end() const { return file_first_ + at_; }
  /// Checksum of that group: what the next one names as its previous.
  std::uint64_t checksum() const { return checksum_; }
  /// First LSN of the file in which it stands.
  Lsn file_first() const { return file_first_; }
  /// Whether that file has a header of its own: else nothing was written to it since it was made or
  /// recycled.
  bool file_is_begun() const { return at_ != 0; }

 private:
  CommitLogReader(std::string dir, Lsn from) : dir_(std::move(dir)), from_(from) {}

  /// Places the reader before the first group of the file. False: the file is not begun. Unavailable.
  absl::StatusOr<bool> Begin(Lsn first, Lsn until);
  /// Places the reader behind `from_`. False: that is no such place in the file. Unavailable.
  absl::StatusOr<bool> FindIn(Lsn first, LogPlace place);
  /// Shows the file's bytes from `offset` on: `size` of them, or fewer at the file's end.
  /// Unavailable.
  absl::StatusOr<std::string_view> Bytes(std::uint64_t offset, std::uint64_t size, Lsn until);
  /// The group at this offset of the file, if it verifies and follows. Unavailable.
  absl::StatusOr<std::optional<LogGroup>> GroupAt(std::uint64_t offset, Lsn until);
  /// Opens the file, and reads its header. False: there is no such file, or it is not begun.
  /// Unavailable.
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

/// What stands behind the end of the log.
struct LogRemains {
  std::uint64_t groups = 0;  // that verify, whether or not they follow
  Lsn synced_to;             // the highest mark of these
};

/// Looks at the bytes from `end` on, in the file that holds it and in all later ones. Takes time
/// for each 8 bytes. NotFound, PermissionDenied, Unavailable.
absl::StatusOr<LogRemains> FindLogRemains(const std::string& dir, Lsn end);

}  // namespace remora
