#include "store/durable/commit_log/log_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/shortage.h"
#include "store/base/status_macros.h"
#include "store/durable/data_dir.h"

namespace remora {
namespace {

constexpr std::string_view kLogFileEnding = ".log";
constexpr std::size_t kLogFileDigits = 16;
constexpr std::size_t kZerosAtOnce = std::size_t{1} << 20;

std::optional<Lsn> FirstOf(std::string_view name) {
  if (name.size() != kLogFileDigits + kLogFileEnding.size() || !name.ends_with(kLogFileEnding))
    return std::nullopt;
  Lsn first;
  for (const char c : name.substr(0, kLogFileDigits)) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return std::nullopt;
    first.value = first.value << 4 | static_cast<std::uint64_t>(digit);
  }
  return first;
}

bool IsNoSpace(int error) { return error == ENOSPC || error == EDQUOT; }

int PwriteAll(int fd, std::uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : EIO;
    bytes.remove_prefix(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return 0;
}

// Errors of a file system that has no nameless files, or reserves no space.
bool IsNotSupported(int error) {
  return error == EOPNOTSUPP || error == EISDIR || error == ENOENT || error == EINVAL;
}

}  // namespace

bool WillPass(int error) { return IsNoSpace(error) || IsShortage(error) || error == EINTR; }

absl::Status LogErrnoStatus(std::string_view operation, std::string_view path, int error) {
  std::string advice = "see the system's log for errors of the disk, and open the store again";
  if (IsNoSpace(error)) {
    advice = "no space left on the disk; free some, and writes go on by themselves";
  } else if (WillPass(error)) {
    advice = absl::StrCat(kShortageText, "; raise the limit, and writes go on by themselves");
  }
  return MarkedByErrno(
      error, absl::UnavailableError(absl::StrCat("commit log: ", AbslView(operation), " ", AbslView(path),
                                                 ": ", std::strerror(error), "; ", advice)));
}

// A file system that is not listed here may copy on write, be on another machine, or be a layer above such a
// file system.
bool OverwritesInPlace(std::uint64_t file_system) {
  constexpr std::uint64_t kXfsMagic = 0x58465342;  // not in linux/magic.h before 6.0
  switch (file_system) {
    case EXT4_SUPER_MAGIC:
    case kXfsMagic:
    case TMPFS_MAGIC:
      return true;
    default:
      return false;
  }
}

absl::StatusOr<LogWriterKind> ChooseLogWriter(const std::string& dir) {
  struct statfs system;
  if (statfs(dir.c_str(), &system) != 0) return LogErrnoStatus("ask for the file system of", dir, errno);
  if (!OverwritesInPlace(static_cast<std::uint64_t>(system.f_type))) return LogWriterKind::kWrite;
  // ext2 and ext3 have no fallocate.
  const std::string path = absl::StrCat(dir, "/probe");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return LogErrnoStatus("make", path, errno);
  const bool allocates = fallocate(fd, 0, 0, 4096) == 0 || errno != EOPNOTSUPP;
  close(fd);
  unlink(path.c_str());
  return allocates ? LogWriterKind::kMapped : LogWriterKind::kWrite;
}

std::string LogFileName(Lsn first) {
  return absl::StrCat(absl::Hex(first.value, absl::kZeroPad16), AbslView(kLogFileEnding));
}

absl::StatusOr<std::vector<LogFileInfo>> ListLogFiles(const std::string& dir) {
  REMORA_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(dir));
  std::vector<LogFileInfo> files;
  for (const std::string& name : names) {
    const std::optional<Lsn> first = FirstOf(name);
    if (!first) continue;
    const std::string path = absl::StrCat(dir, "/", name);
    struct stat status;
    if (stat(path.c_str(), &status) != 0) {
      if (errno == ENOENT) continue;  // recycled meanwhile
      return LogErrnoStatus("look at", path, errno);
    }
    files.push_back({*first, static_cast<std::uint64_t>(status.st_size)});
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return files;
}

CommitLogFile::CommitLogFile(std::string path, Lsn first, std::uint64_t size, int fd)
    : path_(std::move(path)), first_(first), size_(size), fd_(fd) {}

CommitLogFile::~CommitLogFile() {
  if (data_ != nullptr) munmap(data_, size_);
  close(fd_);
}

absl::StatusOr<std::unique_ptr<CommitLogFile>> CommitLogFile::Make(const std::string& dir, Lsn first,
                                                                   std::uint64_t size, LogWriterKind kind) {
  const std::string path = absl::StrCat(dir, "/", LogFileName(first));
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return LogErrnoStatus("make", path, errno);
  std::unique_ptr<CommitLogFile> file(new CommitLogFile(path, first, size, fd));
  absl::Status made = file->Allocate(kind);
  if (made.ok()) made = SyncDirectory(dir);
  if (made.ok() && kind == LogWriterKind::kMapped) made = file->Map();
  if (made.ok()) return file;
  unlink(path.c_str());
  return made;
}

absl::StatusOr<std::unique_ptr<CommitLogFile>> CommitLogFile::Open(const std::string& dir, Lsn first,
                                                                   std::uint64_t size, LogWriterKind kind) {
  const std::string path = absl::StrCat(dir, "/", LogFileName(first));
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return LogErrnoStatus("open", path, errno);
  std::unique_ptr<CommitLogFile> file(new CommitLogFile(path, first, size, fd));
  if (kind != LogWriterKind::kMapped) return file;
  // If someone copied the directory, the copy may have holes in place of zeros.
  if (fallocate(fd, 0, 0, static_cast<off_t>(size)) != 0) return LogErrnoStatus("allocate", path, errno);
  REMORA_RETURN_IF_ERROR(file->Map());
  return file;
}

absl::Status CommitLogFile::Allocate(LogWriterKind kind) const {
  const bool allocated = fallocate(fd_, 0, 0, static_cast<off_t>(size_)) == 0;
  // For pwrite, the file system makes no promise about blocks, so writing zeros has to suffice.
  if (!allocated && (kind == LogWriterKind::kMapped || errno != EOPNOTSUPP)) {
    return LogErrnoStatus("allocate", path_, errno);
  }
  if (const int error = Clear(0); error != 0) return LogErrnoStatus("fill", path_, error);
  if (fdatasync(fd_) != 0) return LogErrnoStatus("sync", path_, errno);
  return absl::OkStatus();
}

absl::Status CommitLogFile::Map() {
  void* const data = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (data == MAP_FAILED) return LogErrnoStatus("map", path_, errno);
  data_ = static_cast<char*>(data);
  // Populates the pages, so that the writer does not wait for the disk. EINVAL: the kernel is older
  // than 5.14, and the writer does wait.
  if (madvise(data_, size_, MADV_POPULATE_READ) != 0 && errno != EINVAL) {
    return LogErrnoStatus("populate the mapping of", path_, errno);
  }
  return absl::OkStatus();
}

void CommitLogFile::Prepare(std::uint64_t offset, std::uint64_t size) const {
  const std::uint64_t begin = offset / kLogFileUnit * kLogFileUnit;
  const std::uint64_t end = std::min(size_, offset + size);
  madvise(data_ + begin, end - begin, MADV_POPULATE_WRITE);  // if it fails, a store takes the page fault
}

int CommitLogFile::Write(std::uint64_t offset, std::string_view bytes) const {
  return PwriteAll(fd_, offset, bytes);
}

int CommitLogFile::Clear(std::uint64_t offset) const {
  const std::string zeros(std::min<std::uint64_t>(kZerosAtOnce, size_ - offset), '\0');
  while (offset < size_) {
    const std::string_view part = std::string_view(zeros).substr(0, size_ - offset);
    if (const int error = PwriteAll(fd_, offset, part); error != 0) return error;
    offset += part.size();
  }
  return 0;
}

absl::Status SyncLogFiles(const std::string& dir) {
  REMORA_ASSIGN_OR_RETURN(const std::vector<LogFileInfo> files, ListLogFiles(dir));
  for (const LogFileInfo& file : files) {
    const std::string path = absl::StrCat(dir, "/", LogFileName(file.first));
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return LogErrnoStatus("open", path, errno);
    const int error = fdatasync(fd) == 0 ? 0 : errno;
    close(fd);
    if (error != 0) return LogErrnoStatus("sync", path, error);
  }
  return absl::OkStatus();
}

absl::Status CheckDiskSpace(const std::string& dir, std::uint64_t bytes) {
  const int fd = open(dir.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) return IsNotSupported(errno) ? absl::OkStatus() : LogErrnoStatus("make a file in", dir, errno);
  const int error = fallocate(fd, 0, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  close(fd);
  if (error == 0 || IsNotSupported(error)) return absl::OkStatus();
  return LogErrnoStatus("reserve space for a large group in", dir, error);
}

}  // namespace remora
