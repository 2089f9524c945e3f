// One file of the commit log: its name, its blocks, and how bytes come into it.
//
//   C9a  All blocks of a file are allocated, and have been written once, before the file is used.
//        So a store into its mapping finds a block, and no fdatasync has to change the file's map
//        of blocks.
//   C9b  A file is mapped to be written only where the file system keeps the promise of C9a: where
//        an overwrite goes to the block that is there. Elsewhere (copy on write, network, overlay)
//        the writer uses pwrite.
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

/// How a writer's bytes come into the files.
enum class LogWriterKind : std::uint8_t {
  kChoose = 0,  // by the file system
  kMapped = 1,  // by stores into a shared mapping
  kWrite = 2,   // by pwrite
};

/// Whether files in `dir` may be mapped to be written (C9b): kMapped or kWrite. Unavailable.
absl::StatusOr<LogWriterKind> ChooseLogWriter(const std::string& dir);

/// Name of the file that begins with this byte, within the log's directory.
std::string LogFileName(Lsn first);

struct LogFileInfo {
  Lsn first;
  std::uint64_t size = 0;
};
/// The log's files in `dir`, in their order. Others are left out. NotFound, PermissionDenied,
/// Unavailable.
absl::StatusOr<std::vector<LogFileInfo>> ListLogFiles(const std::string& dir);

/// The one translator of errno: operation, path, reason, and what to do. Unavailable.
absl::Status LogErrnoStatus(std::string_view operation, std::string_view path, int error);

/// Whether the call failed because the disk is full, or the user's part of it: room may come.
bool IsNoSpace(int error);

/// An open file. Owns descriptor and mapping; the file itself stays.
///
/// Thread Safety: const members may be called from many threads. A mapping, and Write, are for one
/// writer at a time.
class CommitLogFile {
 public:
  /// Makes the file by C9a; what a file of that name held before is gone. Returns when the disk has
  /// the file and its name. Unavailable: nothing is left behind.
  static absl::StatusOr<std::unique_ptr<CommitLogFile>> Make(const std::string& dir, Lsn first,
                                                             std::uint64_t size, LogWriterKind kind);
  /// Opens the file that is there. REQUIRES: it was made with this size. Unavailable.
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
  /// The mapping, of all of the file; null: the file is written by Write.
  char* data() const { return data_; }

  /// Makes the mapping's pages there ready for stores, so that these do not wait for page faults.
  /// Their bytes count as changed: the next sync writes them.
  void Prepare(std::uint64_t offset, std::uint64_t size) const;
  /// Writes by pwrite, all of it or as much as the disk took. 0, or an errno. REQUIRES: within the
  /// file.
  int Write(std::uint64_t offset, std::string_view bytes) const;
  /// Fills the file's bytes from `offset` on with zeros. 0, or an errno.
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

}  // namespace remora
