// A file of the commit log: its name, its blocks, and the ways to write to it.
//
//   C9a  All blocks of a file are allocated, and have been written once, before the log uses the
//        file. So a store into its mapping always finds a block, and fdatasync never has to change
//        the file's map of blocks.
//   C9b  The writer maps a file only where the file system keeps the promise of C9a: an overwrite
//        goes to the existing block. On other file systems (copy on write, network, overlay) the
//        writer uses pwrite.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/durable/commit_log/format.h"

namespace remora {

/// The way in which the writer writes to the files.
enum class LogWriterKind : std::uint8_t {
  kChoose = 0,  // ChooseLogWriter decides by the file system
  kMapped = 1,  // by stores into a shared mapping
  kWrite = 2,   // by pwrite
};

/// Returns whether file systems of this type keep the promise of C9a. `file_system`: f_type of statfs(2).
/// ext2 and ext3 have the type of ext4, and cannot allocate blocks ahead; ChooseLogWriter tells them apart.
bool OverwritesInPlace(std::uint64_t file_system);

/// Returns kMapped if the writer may map files in `dir` (C9b), else kWrite. Unavailable: a system
/// call on `dir` failed.
absl::StatusOr<LogWriterKind> ChooseLogWriter(const std::string& dir);

/// Returns the name, without directory, of the file whose first byte has this LSN.
std::string LogFileName(Lsn first);

struct LogFileInfo {
  Lsn first;
  std::uint64_t size = 0;
};
/// Returns the log's files in `dir` in their order, and ignores all other files.
///
/// - NotFound, PermissionDenied, Unavailable: `dir` or a file in it cannot be read.
absl::StatusOr<std::vector<LogFileInfo>> ListLogFiles(const std::string& dir);

/// Translates an errno of the commit log into Unavailable, marked by its cause (MarkedByErrno). The text says
/// the operation, the path, the reason and the action.
absl::Status LogErrnoStatus(std::string_view operation, std::string_view path, int error);

/// Returns whether the error passes by itself: the disk or the user's quota is full, or the system is short
/// of something (store/base/shortage.h). A later call may then succeed.
bool WillPass(int error);

/// An open file. Owns the descriptor and the mapping, but does not remove the file.
///
/// Thread safety: any thread may call const members, at any time. The mapping and Write are for one
/// writer at a time.
class CommitLogFile {
 public:
  /// Makes the file as C9a says, and discards the content of an existing file of that name. Returns
  /// when the disk has the file and its name. Unavailable: a system call failed; no file is left.
  static absl::StatusOr<std::unique_ptr<CommitLogFile>> Make(const std::string& dir, Lsn first,
                                                             std::uint64_t size, LogWriterKind kind);
  /// Opens an existing file. REQUIRES: it was made with this size. Unavailable: a system call failed.
  static absl::StatusOr<std::unique_ptr<CommitLogFile>> Open(const std::string& dir, Lsn first,
                                                             std::uint64_t size, LogWriterKind kind);
  ~CommitLogFile();
  CommitLogFile(const CommitLogFile&) = delete;
  CommitLogFile& operator=(const CommitLogFile&) = delete;

  Lsn first() const { return first_; }
  Lsn end() const { return first_ + size_; }
  std::uint64_t size() const { return size_; }
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  /// Returns the mapping of the whole file. Null: the writer uses Write.
  char* data() const { return data_; }

  /// Prepares pages of the mapping, so that later stores cause no page faults. The pages become
  /// dirty: the next sync writes them.
  void Prepare(std::uint64_t offset, std::uint64_t size) const;
  /// Writes `bytes` by pwrite. Returns 0, or the errno of a failure, after which the file may have a
  /// part of them. REQUIRES: the bytes fit in the file.
  int Write(std::uint64_t offset, std::string_view bytes) const;
  /// Fills the file from `offset` to its end with zeros. Returns 0 or an errno.
  int Clear(std::uint64_t offset) const;

 private:
  CommitLogFile(std::string path, Lsn first, std::uint64_t size, int fd);

  absl::Status Allocate(LogWriterKind kind) const;
  absl::Status Map();

  const std::string path_;
  const Lsn first_;
  const std::uint64_t size_;
  const int fd_;
  char* data_ = nullptr;
};

/// Syncs all files of the log in `dir`.
///
/// - NotFound, PermissionDenied, Unavailable: `dir` or a file cannot be read or synced.
absl::Status SyncLogFiles(const std::string& dir);

/// Returns OK if a new file of this size has space on the disk of `dir`, or if the file system cannot say it.
///
/// - Unavailable: the disk or the quota is full, or the limit on file sizes is lower.
absl::Status CheckDiskSpace(const std::string& dir, std::uint64_t bytes);

}  // namespace remora
