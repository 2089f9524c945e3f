#include "store/durable/commit_log/commit_log.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

/// Bytes ahead of the writer whose pages are prepared for stores, half of them at a time. A larger
/// value would make a sync write more pages than the groups fill.
constexpr std::uint64_t kReadyAhead = std::uint64_t{512} << 10;

constexpr std::uint64_t kMinFiles = 3;  // one being written, one being applied, one being made

absl::Status CheckOptions(const CommitLogOptions& options) {
  if (options.file_size < kMinLogFileSize || options.file_size > kMaxLogFileSize ||
      options.file_size % kLogFileUnit != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "commit log: a file size of ", options.file_size, " bytes is out of bounds; give a multiple of ",
        kLogFileUnit, " from ", kMinLogFileSize, " to ", kMaxLogFileSize));
  }
  if (options.max_bytes / kMinFiles < options.file_size) {
    return absl::InvalidArgumentError(absl::StrCat("commit log: a bound of ", options.max_bytes,
                                                   " bytes is too small; give at least that of three files, ",
                                                   kMinFiles * options.file_size));
  }
  if (options.incarnation == 0) {
    return absl::InvalidArgumentError("commit log: incarnation 0 is reserved; give each opening a new one");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CommitLog>> CommitLog::Open(CommitLogOptions options, LogReplay replay) {
  REMORA_RETURN_IF_ERROR(CheckOptions(options));
  if (options.writer == LogWriterKind::kChoose) {
    REMORA_ASSIGN_OR_RETURN(options.writer, ChooseLogWriter(options.dir));
  }
  if (!options.sync) options.sync = [](int fd) { return fdatasync(fd); };
  REMORA_ASSIGN_OR_RETURN(const RecoveredLog recovered,
                          RecoverCommitLog({.dir = options.dir,
                                            .replay_from = options.replay_from,
                                            .is_of_this_boot = options.is_of_this_boot},
                                           replay));
  std::unique_ptr<CommitLog> log(new CommitLog(std::move(options)));
  log->was_torn_ = recovered.was_torn;
  REMORA_RETURN_IF_ERROR(log->StartFiles(recovered));
  log->Recycle(log->options_.replay_from);
  return log;
}

CommitLog::~CommitLog() = default;

absl::Status CommitLog::StartFiles(const RecoveredLog& log) {
  std::deque<CommitLogFiles::FilePtr> held;
  std::deque<CommitLogFiles::FilePtr> spares;
  for (const LogFileInfo& info : log.held) {
    // The writer continues only the last file.
    const bool is_last = info.first == log.held.back().first;
    REMORA_ASSIGN_OR_RETURN(held.emplace_back(),
                            CommitLogFile::Open(options_.dir, info.first, info.size,
                                                is_last ? options_.writer : LogWriterKind::kWrite));
  }
  bool are_of_use = true;
  for (const LogFileInfo& info : log.spares) {
    // A file of another size stems from an opening with another file_size. It is removed, and with
    // it the later files: none of them begins where its replacement will end.
    are_of_use = are_of_use && info.size == options_.file_size;
    if (!are_of_use) {
      unlink(absl::StrCat(options_.dir, "/", LogFileName(info.first)).c_str());
      continue;
    }
    REMORA_ASSIGN_OR_RETURN(spares.emplace_back(),
                            CommitLogFile::Open(options_.dir, info.first, info.size, options_.writer));
  }
  current_ = held.empty() ? nullptr : held.back();
  REMORA_ASSIGN_OR_RETURN(files_, CommitLogFiles::Start({.dir = options_.dir,
                                                         .file_size = options_.file_size,
                                                         .max_bytes = options_.max_bytes,
                                                         .kind = options_.writer},
                                                        std::move(held), std::move(spares)));
  checksum_ = log.checksum;
  if (current_ == nullptr) {
    REMORA_RETURN_IF_ERROR(MoveToNextFile());
  } else if (!log.is_begun) {
    REMORA_RETURN_IF_ERROR(BeginFile(current_));
  } else {
    at_ = log.end - current_->first();
  }
  appended_ = (current_->first() + at_).value;
  // Groups that an earlier process appended may not be on the disk until the first Sync returns.
  durable_ = std::min(options_.replay_from, appended()).value;
  return absl::OkStatus();
}

absl::Status CommitLog::BeginFile(std::shared_ptr<CommitLogFile> file) {
  const LogFileHeader header =
      MakeLogFileHeader(file->first(), file->size(), options_.incarnation, checksum_);
  if (file->data() != nullptr) {
    std::memcpy(file->data(), &header, sizeof(header));
  } else if (const int error = file->Write(0, {reinterpret_cast<const char*>(&header), sizeof(header)});
             error != 0) {
    return WillPass(error) ? LogErrnoStatus("begin", file->path(), error) : Fail("begin", error);
  }
  current_ = std::move(file);
  at_ = sizeof(header);
  asked_to_ = 0;
  return absl::OkStatus();
}

void CommitLog::AskForPages() {
  const std::uint64_t from = std::max(at_, asked_to_);
  asked_to_ = std::min(current_->size(), at_ + kReadyAhead);
  files_->PreparePages(current_, from, asked_to_ - from);
}

absl::Status CommitLog::MoveToNextFile() {
  REMORA_ASSIGN_OR_RETURN(CommitLogFiles::FilePtr next, files_->NextFile());
  REMORA_RETURN_IF_ERROR(BeginFile(std::move(next)));
  files_->BeginNextFile(appended());
  return absl::OkStatus();
}

absl::Status CommitLog::Reject(std::uint64_t size) const {
  if (size == 0) {
    return absl::InvalidArgumentError(
        "commit log: the group has no entry, or one with a kind, key or value that is out of bounds; log "
        "valid entries");
  }
  return absl::InvalidArgumentError(absl::StrCat("commit log: the group has ", size, " bytes; log at most ",
                                                 max_group_bytes(),
                                                 " at once, or open the log with larger files"));
}

absl::StatusOr<Lsn> CommitLog::Append(std::span<const LogEntry> entries) {
  const std::uint64_t size = LogGroupSize(entries);
  if (size == 0 || size > max_group_bytes()) return Reject(size);
  if (failed_.load(std::memory_order_relaxed)) return failure();
  if (current_->size() - at_ < size) REMORA_RETURN_IF_ERROR(MoveToNextFile());
  const Lsn lsn = current_->first() + at_;
  const LogGroupPlace place = {.lsn = lsn,
                               .incarnation = options_.incarnation,
                               .previous = checksum_,
                               .synced_to = Lsn{durable_.load(std::memory_order_relaxed)}};
  std::uint64_t checksum = 0;
  if (char* const data = current_->data(); data != nullptr) {
    if (asked_to_ < std::min(at_ + kReadyAhead / 2, current_->size())) AskForPages();
    checksum = EncodeLogGroup(entries, size, place, data + at_);
  } else {
    if (encoded_.size() < size) encoded_.resize(size);
    checksum = EncodeLogGroup(entries, size, place, encoded_.data());
    const int error = current_->Write(at_, std::string_view(encoded_).substr(0, size));
    // The partial group in the file does not verify, and the next group overwrites it.
    if (WillPass(error)) return LogErrnoStatus("append to", current_->path(), error);
    if (error != 0) return Fail("append to", error);
  }
  at_ += size;
  checksum_ = checksum;
  // Release: a thread that reads this LSN with acquire also sees the group.
  appended_.store((lsn + size).value, std::memory_order_release);
  return lsn + size;
}

absl::Status CommitLog::CheckSpace() {
  if (failed_.load(std::memory_order_relaxed)) return failure();
  return files_->NextFile().status();
}

absl::StatusOr<Lsn> CommitLog::Sync() {
  const MutexLock lock(sync_mutex_);
  if (failed_.load(std::memory_order_relaxed)) return failure();
  const Lsn target = appended();
  const Lsn from = durable();
  if (target == from) return target;
  for (const CommitLogFiles::FilePtr& file : files_->Between(from, target)) {
    if (options_.sync(file->fd()) != 0) return Fail("sync", errno);
  }
  durable_.store(target.value, std::memory_order_release);
  return target;
}

void CommitLog::Recycle(Lsn applied_to) {
  const LogRetention& retention = options_.retention;
  LogKeep keep{.bytes = retention.bytes, .end = appended()};
  if (retention.time.count() > 0) keep.since = std::chrono::system_clock::now() - retention.time;
  files_->Release(options_.retain ? std::min(applied_to, options_.retain()) : applied_to, keep);
}

absl::StatusOr<std::unique_ptr<CommitLogReader>> CommitLog::Read(Lsn from, LogPlace place) const {
  // A released file may still exist under its old name until it is recycled.
  if (from < first()) return NotInLog(from, options_.dir);
  return CommitLogReader::Open(options_.dir, from, place);
}

std::string CommitLog::description() const {
  const bool mapped = options_.writer == LogWriterKind::kMapped;
  return absl::StrCat("commit log in ", options_.dir, ": groups are ",
                      mapped ? "stored into mapped files"
                             : "written by pwrite, as the file system cannot promise blocks to mapped files");
}

absl::Status CommitLog::Fail(std::string_view operation, int error) {
  const MutexLock lock(failure_mutex_);
  if (failure_.ok()) failure_ = LogErrnoStatus(operation, options_.dir, error);
  failed_.store(true, std::memory_order_relaxed);
  return failure_;
}

absl::Status CommitLog::failure() const {
  const MutexLock lock(failure_mutex_);
  return failure_;
}

}  // namespace remora
