#include "store/durable/commit_log/log_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/base/status_macros.h"
#include "store/durable/commit_log/log_file.h"

namespace remora {
namespace {

constexpr std::uint64_t kWindowSize = std::uint64_t{256} << 10;

/// Reads `size` bytes into `bytes`, or fewer at the file's end. Unavailable: the read failed.
absl::Status ReadAt(int fd, std::uint64_t offset, std::uint64_t size, const std::string& path,
                    std::string* bytes) {
  bytes->resize(size);
  std::size_t read = 0;
  while (read < size) {
    const ssize_t got = pread(fd, bytes->data() + read, size - read, static_cast<off_t>(offset + read));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return LogErrnoStatus("read", path, errno);
    if (got == 0) break;
    read += static_cast<std::size_t>(got);
  }
  bytes->resize(read);
  return absl::OkStatus();
}

/// Returns whether the magic of a group is at `at`. It is a cheap test that rejects most places.
bool MayBeGroup(std::string_view bytes, std::uint64_t at) {
  std::uint32_t magic = 0;
  if (bytes.size() - at < sizeof(LogGroupHeader)) return false;
  std::memcpy(&magic, bytes.data() + at + offsetof(LogGroupHeader, magic), sizeof(magic));
  return magic == kLogGroupMagic;
}

}  // namespace

absl::Status NotInLog(Lsn lsn, const std::string& dir) {
  return absl::OutOfRangeError(absl::StrCat("commit log: LSN ", lsn.value, " is not in the log in ", dir,
                                            " any more, or its group is damaged; begin with a scan"));
}

absl::StatusOr<std::unique_ptr<CommitLogReader>> CommitLogReader::Open(const std::string& dir, Lsn from,
                                                                       LogPlace place) {
  REMORA_ASSIGN_OR_RETURN(const std::vector<LogFileInfo> files, ListLogFiles(dir));
  std::unique_ptr<CommitLogReader> reader(new CommitLogReader(dir, from));
  // `from` may be both the end of a file and the start of the next. The former comes first, since the
  // reader then knows the checksum of the group before `from`.
  for (const LogFileInfo& file : files) {
    if (file.first >= from || from > file.first + file.size) continue;
    REMORA_ASSIGN_OR_RETURN(const bool found, reader->FindIn(file.first, place));
    if (found) return reader;
  }
  // Otherwise `from` may be the first LSN of the oldest file. The file before it may still be listed,
  // if it is about to be recycled.
  for (const LogFileInfo& file : files) {
    if (file.first != from) continue;
    REMORA_RETURN_IF_ERROR(reader->Begin(file.first, kMaxLsn).status());
    return reader;
  }
  return NotInLog(from, dir);
}

absl::StatusOr<std::unique_ptr<CommitLogReader>> CommitLogReader::Resume(const std::string& dir,
                                                                         const LogPosition& position) {
  std::unique_ptr<CommitLogReader> reader(new CommitLogReader(dir, position.lsn()));
  REMORA_ASSIGN_OR_RETURN(const bool is_begun,
                          reader->Begin(position.file_first, position.file_first + sizeof(LogFileHeader)));
  if (!is_begun || position.offset < sizeof(LogFileHeader)) return NotInLog(position.lsn(), dir);
  reader->at_ = position.offset;
  reader->checksum_ = position.checksum;
  return reader;
}

absl::StatusOr<bool> CommitLogReader::Begin(Lsn first, Lsn until) {
  LogFileHeader header;
  REMORA_ASSIGN_OR_RETURN(const bool is_begun, OpenFile(first, until, &header));
  if (!is_begun) return false;
  at_ = sizeof(header);
  checksum_ = header.previous;
  window_.clear();  // the writer may write to bytes that were read ahead
  return true;
}

absl::StatusOr<bool> CommitLogReader::FindIn(Lsn first, LogPlace place) {
  REMORA_ASSIGN_OR_RETURN(const bool is_begun, Begin(first, kMaxLsn));
  if (!is_begun) return false;
  while (end() < from_) {
    REMORA_ASSIGN_OR_RETURN(const std::optional<LogGroup> group, GroupAt(at_, kMaxLsn));
    if (!group) return false;
    if (group->end() > from_) {
      window_.clear();  // for the same reason as in Begin
      return place == LogPlace::kInGroup;
    }
    at_ += group->header.size;
    checksum_ = group->header.checksum;
  }
  window_.clear();  // for the same reason as in Begin
  return true;
}

CommitLogReader::~CommitLogReader() { CloseFile(); }

void CommitLogReader::CloseFile() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
  window_.clear();
}

absl::StatusOr<std::string_view> CommitLogReader::Bytes(std::uint64_t offset, std::uint64_t size, Lsn until) {
  const bool is_there = offset >= window_offset_ && offset - window_offset_ <= window_.size() &&
                        window_.size() - (offset - window_offset_) >= size;
  if (!is_there) {
    // Read no bytes behind `until`: the writer changes them.
    const std::uint64_t end = std::min(file_size_, until.value - std::min(until, file_first_).value);
    const std::uint64_t most = end - std::min(end, offset);
    window_offset_ = offset;
    REMORA_RETURN_IF_ERROR(ReadAt(fd_, offset, std::min(std::max(size, kWindowSize), most),
                                  absl::StrCat(dir_, "/", LogFileName(file_first_)), &window_));
  }
  return std::string_view(window_).substr(offset - window_offset_, size);
}

absl::StatusOr<std::optional<LogGroup>> CommitLogReader::GroupAt(std::uint64_t offset, Lsn until) {
  const Lsn lsn = file_first_ + offset;
  REMORA_ASSIGN_OR_RETURN(std::string_view bytes, Bytes(offset, sizeof(LogGroupHeader), until));
  if (bytes.size() < sizeof(LogGroupHeader)) return std::nullopt;
  const std::uint64_t size = StatedLogGroupSize(bytes, lsn, file_size_ - offset);
  if (size == 0) return std::nullopt;
  REMORA_ASSIGN_OR_RETURN(bytes, Bytes(offset, size, until));
  std::optional<LogGroup> group = VerifyLogGroup(bytes, lsn);
  if (group && group->header.previous != checksum_) group.reset();
  return group;
}

absl::StatusOr<bool> CommitLogReader::OpenFile(Lsn first, Lsn until, LogFileHeader* header) {
  const std::string path = absl::StrCat(dir_, "/", LogFileName(first));
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT) return false;
    return LogErrnoStatus("open", path, errno);
  }
  CloseFile();
  fd_ = fd;
  file_first_ = first;
  at_ = 0;
  struct stat status;
  if (fstat(fd, &status) != 0) return LogErrnoStatus("look at", path, errno);
  file_size_ = std::min(static_cast<std::uint64_t>(status.st_size), kMaxLogFileSize);
  REMORA_ASSIGN_OR_RETURN(const std::string_view bytes, Bytes(0, sizeof(LogFileHeader), until));
  const std::optional<LogFileHeader> found = VerifyLogFileHeader(bytes, first, file_size_);
  if (found) *header = *found;
  return found.has_value();
}

absl::StatusOr<bool> CommitLogReader::MoveToNextFile(Lsn until) {
  if (file_size_ == 0) return false;
  CommitLogReader next(dir_, from_);
  LogFileHeader header;
  REMORA_ASSIGN_OR_RETURN(const bool is_begun, next.OpenFile(file_first_ + file_size_, until, &header));
  if (!is_begun || header.previous != checksum_) return false;
  next.checksum_ = checksum_;
  // The reader does not move to a file without a group. A writer that continues this log may have
  // space left in the previous file (L3 of format.h).
  REMORA_ASSIGN_OR_RETURN(const std::optional<LogGroup> group, next.GroupAt(sizeof(header), until));
  if (!group) return false;
  std::swap(fd_, next.fd_);
  file_first_ = next.file_first_;
  file_size_ = next.file_size_;
  at_ = sizeof(header);
  window_.clear();
  return true;
}

absl::StatusOr<bool> CommitLogReader::Next(Lsn until) {
  if (end() >= until) return false;
  if (!file_is_begun() && until != kMaxLsn) {
    REMORA_ASSIGN_OR_RETURN(const bool is_begun, Begin(file_first_, until));
    if (!is_begun) return NotInLog(end(), dir_);
  }
  for (int files = 0; file_is_begun() && files < 2; ++files) {
    REMORA_ASSIGN_OR_RETURN(const std::optional<LogGroup> group, GroupAt(at_, until));
    if (group) {
      group_ = *group;
      at_ += group->header.size;
      checksum_ = group->header.checksum;
      return true;
    }
    REMORA_ASSIGN_OR_RETURN(const bool is_next, MoveToNextFile(until));
    if (!is_next) break;
  }
  if (until != kMaxLsn) return NotInLog(end(), dir_);
  return false;
}

absl::StatusOr<LogRemains> FindLogRemains(const std::string& dir, Lsn end) {
  REMORA_ASSIGN_OR_RETURN(const std::vector<LogFileInfo> files, ListLogFiles(dir));
  LogRemains remains;
  for (const LogFileInfo& file : files) {
    const std::uint64_t size = std::min(file.size, kMaxLogFileSize);
    if (file.first + size <= end) continue;
    const std::string path = absl::StrCat(dir, "/", LogFileName(file.first));
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return LogErrnoStatus("open", path, errno);
    std::string bytes;
    const absl::Status read = ReadAt(fd, 0, size, path, &bytes);
    close(fd);
    REMORA_RETURN_IF_ERROR(read);
    std::uint64_t at = end > file.first ? end - file.first : 0;
    at = (at + kLogAlignment - 1) & ~(kLogAlignment - 1);
    while (at < bytes.size()) {
      const std::optional<LogGroup> group =
          MayBeGroup(bytes, at) ? VerifyLogGroup(std::string_view(bytes).substr(at), file.first + at)
                                : std::nullopt;
      if (group) {
        ++remains.groups;
        remains.synced_to = std::max(remains.synced_to, Lsn{group->header.synced_to});
      }
      at += group ? group->header.size : kLogAlignment;
    }
  }
  return remains;
}

}  // namespace remora
