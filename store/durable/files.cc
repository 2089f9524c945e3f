#include "store/durable/files.h"

#include <fcntl.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/io_status.h>
#include <rocksdb/status.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "store/base/mutex.h"
#include "store/durable/status.h"

namespace remora {
namespace {

using rocksdb::FileOptions;
using rocksdb::FSWritableFile;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

// The spare file, in the directory of the logs.
constexpr char kSpareName[] = "/spare-log";
// A group of small writes takes less.
constexpr std::size_t kMinSpace = std::size_t{64} << 10;
constexpr std::size_t kAnySpace = std::numeric_limits<std::size_t>::max();

/// Returns a bound for the bytes that a batch takes in a log. RocksDB puts 7 bytes before each part, and a
/// part ends with a block of 32 KiB.
std::size_t RecordBytes(std::size_t batch) { return batch + batch / 2048 + 64; }

/// Fails if a file must not have as many bytes.
IOStatus CheckFileLimit(std::size_t bytes) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes <= limit.rlim_cur) return IOStatus::OK();
  return IOStatus::IOError("a record of a log", std::strerror(EFBIG));
}

bool IsPassing(const IOStatus& status) { return WillPass(status) || IsDiskFull(status); }

/// Changes an error to a full disk, as F1 says.
IOStatus Marked(IOStatus status) {
  if (status.IsNoSpace() || (!WillPass(status) && !IsDiskFull(status))) return status;
  return IOStatus::NoSpace(status.getState());
}

constinit thread_local bool reads_only_cached = false;
constexpr std::size_t kMostCachedRead = std::size_t{64} << 10;

/// A table. It has a second descriptor once a read asked for F5, since RocksDB's file does not show its own.
class MarkedReads final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  MarkedReads(std::unique_ptr<rocksdb::FSRandomAccessFile> file, std::string name)
      : FSRandomAccessFileOwnerWrapper(std::move(file)), name_(std::move(name)) {}
  ~MarkedReads() override {
    if (fd_ >= 0) ::close(fd_);
  }

  IOStatus Read(std::uint64_t offset, std::size_t size, const IOOptions& options, rocksdb::Slice* result,
                char* scratch, IODebugContext* debug) const override {
    if (reads_only_cached) return ReadCached(offset, size, result, scratch);
    return Marked(FSRandomAccessFileOwnerWrapper::Read(offset, size, options, result, scratch, debug));
  }

 private:
  IOStatus ReadCached(std::uint64_t offset, std::size_t size, rocksdb::Slice* result, char* scratch) const {
    *result = rocksdb::Slice();
    if (size > kMostCachedRead) return IOStatus::TimedOut("a read of many bytes");
    std::call_once(is_open_, [this] { fd_ = ::open(name_.c_str(), O_RDONLY | O_CLOEXEC); });
    std::size_t got = 0;
    while (got < size) {
      const iovec into = {scratch + got, size - got};
      const ssize_t some = ::preadv2(fd_, &into, 1, static_cast<off_t>(offset + got), RWF_NOWAIT);
      // If this is a fault of the disk, RocksDB meets it where it may wait.
      if (some < 0) return IOStatus::TimedOut("the page cache does not have it");
      if (some == 0) break;  // the end of the file
      got += static_cast<std::size_t>(some);
    }
    *result = rocksdb::Slice(scratch, got);
    return IOStatus::OK();
  }

  const std::string name_;
  mutable std::once_flag is_open_;
  mutable int fd_ = -1;
};

class MarkedWrites final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  using FSWritableFileOwnerWrapper::FSWritableFileOwnerWrapper;
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options, IODebugContext* debug) override {
    return Marked(FSWritableFileOwnerWrapper::Append(data, options, debug));
  }
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& verification, IODebugContext* debug) override {
    return Marked(FSWritableFileOwnerWrapper::Append(data, options, verification, debug));
  }
};

}  // namespace

OnlyCachedReads::OnlyCachedReads() { reads_only_cached = true; }
OnlyCachedReads::~OnlyCachedReads() { reads_only_cached = false; }

class DurableFiles::System final : public rocksdb::FileSystemWrapper {
 public:
  System() : FileSystemWrapper(Default()) {}
  ~System() override {
    if (spare_.file == nullptr) return;
    spare_.file.reset();
    target()->DeleteFile(spare_name_, IOOptions(), nullptr).PermitUncheckedError();
  }

  IOStatus SyncLogs();
  IOStatus PrepareWrite(std::size_t bytes) {
    const std::size_t record = RecordBytes(bytes);
    return record <= space_.load(std::memory_order_relaxed) ? IOStatus::OK() : ReserveSpace(record);
  }
  void NoteWritten() { written_ = appended_to_.load(std::memory_order_relaxed); }
  bool has_dead_log() const {
    const std::uint64_t newest = logs_made_.load(std::memory_order_relaxed);
    return failed_.load(std::memory_order_relaxed) == newest && written_ != newest;
  }

  const char* Name() const override { return "remora"; }
  IOStatus NewSequentialFile(const std::string& name, const FileOptions& options,
                             std::unique_ptr<rocksdb::FSSequentialFile>* result,
                             IODebugContext* debug) override {
    return Marked(FileSystemWrapper::NewSequentialFile(name, options, result, debug));
  }
  IOStatus NewRandomAccessFile(const std::string& name, const FileOptions& options,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                               IODebugContext* debug) override {
    IOStatus status = Marked(FileSystemWrapper::NewRandomAccessFile(name, options, result, debug));
    if (status.ok()) *result = std::make_unique<MarkedReads>(std::move(*result), name);
    return status;
  }
  IOStatus NewWritableFile(const std::string& name, const FileOptions& options,
                           std::unique_ptr<FSWritableFile>* result, IODebugContext* debug) override;
  IOStatus NewDirectory(const std::string& name, const IOOptions& options,
                        std::unique_ptr<rocksdb::FSDirectory>* result, IODebugContext* debug) override {
    return Marked(FileSystemWrapper::NewDirectory(name, options, result, debug));
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* debug) override {
    return Marked(FileSystemWrapper::RenameFile(from, to, options, debug));
  }

 private:
  class Log;
  class NamedLog;

  /// A file, and how many bytes at its start have space.
  struct ReservedFile {
    std::unique_ptr<FSWritableFile> file;
    std::size_t space = 0;

    /// Reserves space for `bytes`, or some more.
    IOStatus Reserve(std::size_t bytes) {
      if (space >= bytes) return IOStatus::OK();
      const std::size_t wanted = std::max(kMinSpace, std::bit_ceil(bytes));
      IOStatus status = Marked(file->Allocate(0, wanted, IOOptions(), nullptr));
      if (status.ok()) space = wanted;
      return status;
    }
  };

  /// Does the work of PrepareWrite.
  IOStatus ReserveSpace(std::size_t record);
  /// Makes space in the newest log, if it has no record, and in the spare file.
  IOStatus ReserveSpaceLocked(std::size_t record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Gives the spare file the name of a log, or makes a file if there is no spare.
  IOStatus MakeLogFile(const std::string& name, ReservedFile* file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Relaxed: numbers of a log that begins meanwhile, in another thread, are as good as those before it. That
  // log has the space of the spare file.
  std::atomic<std::size_t> space_{0};  // for a record, in the newest log and in the spare file
  std::atomic<std::uint64_t> logs_made_{0};
  // Numbers of logs, as logs_made_ was then.
  std::atomic<std::uint64_t> appended_to_{0};  // by the last write that succeeded
  std::atomic<std::uint64_t> failed_{0};       // by the last write that failed
  std::uint64_t written_ = 0;                  // the last one with a whole record; for the writing thread

  Mutex mutex_;
  std::list<std::shared_ptr<Log>> logs_ ABSL_GUARDED_BY(mutex_);              // the last one is the newest
  std::unique_ptr<rocksdb::FSDirectory> log_folder_ ABSL_GUARDED_BY(mutex_);  // null: no log was made yet
  bool names_are_synced_ ABSL_GUARDED_BY(mutex_) = true;
  std::string spare_name_ ABSL_GUARDED_BY(mutex_);
  FileOptions log_options_ ABSL_GUARDED_BY(mutex_);
  ReservedFile spare_ ABSL_GUARDED_BY(mutex_);  // its file is null: there is no spare
};

/// The file of a log (F3).
class DurableFiles::System::Log {
 public:
  Log(std::string name, std::uint64_t number) : name_(std::move(name)), number_(number) {}

  const std::string& name() const { return name_; }
  std::uint64_t number() const { return number_; }
  /// Returns the error of the last Make.
  const IOStatus& status() const { return status_; }
  /// Returns null if the file is not made.
  FSWritableFile* file() { return file_.file.get(); }

  /// Makes the file if it is missing.
  IOStatus Make(System& files) ABSL_EXCLUSIVE_LOCKS_REQUIRED(files.mutex_) {
    const MutexLock lock(mutex_);
    if (file_.file != nullptr || is_closed_) return IOStatus::OK();
    status_ = files.MakeLogFile(name_, &file_);
    return status_;
  }
  IOStatus Reserve(std::size_t bytes) { return file() == nullptr ? IOStatus::OK() : file_.Reserve(bytes); }
  IOStatus Sync() {
    const MutexLock lock(mutex_);
    return is_closed_ || file() == nullptr ? IOStatus::OK() : file()->Sync(IOOptions(), nullptr);
  }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) {
    const MutexLock lock(mutex_);
    if (std::exchange(is_closed_, true) || file() == nullptr) return IOStatus::OK();
    return file()->Close(options, debug);
  }

 private:
  const std::string name_;
  const std::uint64_t number_;
  ReservedFile file_;  // the writing thread uses it without the lock; RocksDB closes it in any thread
  IOStatus status_;
  Mutex mutex_;  // Make, Sync and Close exclude each other
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
};

/// The file object that RocksDB holds for a log.
class DurableFiles::System::NamedLog final : public FSWritableFile {
 public:
  NamedLog(System& files, std::shared_ptr<Log> log, const FileOptions& options)
      : FSWritableFile(options), files_(files), log_(std::move(log)) {}
  ~NamedLog() override {
    log_->Close(IOOptions(), nullptr).PermitUncheckedError();
    const MutexLock lock(files_.mutex_);
    files_.logs_.remove(log_);
  }

  using FSWritableFile::Append;
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options, IODebugContext* debug) override {
    FSWritableFile* const file = log_->file();
    IOStatus status = file == nullptr ? log_->status() : Marked(file->Append(data, options, debug));
    (status.ok() ? files_.appended_to_ : files_.failed_).store(log_->number(), std::memory_order_relaxed);
    return status;
  }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    return log_->Close(options, debug);
  }
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }  // Append flushes
  IOStatus Sync(const IOOptions&, IODebugContext*) override { return log_->Sync(); }
  bool IsSyncThreadSafe() const override { return true; }
  std::uint64_t GetFileSize(const IOOptions& options, IODebugContext* debug) override {
    FSWritableFile* const file = log_->file();
    return file == nullptr ? 0 : file->GetFileSize(options, debug);
  }
  IOStatus Allocate(std::uint64_t offset, std::uint64_t size, const IOOptions& options,
                    IODebugContext* debug) override {
    FSWritableFile* const file = log_->file();
    return file == nullptr ? IOStatus::OK() : file->Allocate(offset, size, options, debug);
  }

 private:
  System& files_;
  const std::shared_ptr<Log> log_;
};

IOStatus DurableFiles::System::SyncLogs() {
  std::vector<std::shared_ptr<Log>> logs;
  {
    const MutexLock lock(mutex_);
    logs.assign(logs_.begin(), logs_.end());
    if (!names_are_synced_) {
      IOStatus status = log_folder_->Fsync(IOOptions(), nullptr);
      if (!status.ok()) return status;
      names_are_synced_ = true;
    }
  }
  for (const std::shared_ptr<Log>& log : logs) {
    IOStatus status = log->Sync();
    if (!status.ok()) return status;
  }
  return IOStatus::OK();
}

IOStatus DurableFiles::System::NewWritableFile(const std::string& name, const FileOptions& options,
                                               std::unique_ptr<FSWritableFile>* result,
                                               IODebugContext* debug) {
  if (!std::string_view(name).ends_with(".log")) {
    IOStatus status = Marked(FileSystemWrapper::NewWritableFile(name, options, result, debug));
    if (status.ok()) *result = std::make_unique<MarkedWrites>(std::move(*result));
    return status;
  }
  const MutexLock lock(mutex_);
  if (log_folder_ == nullptr) {
    // It stays open, since a later sync may find no free descriptor.
    const std::string folder = name.substr(0, name.rfind('/'));
    IOStatus status = Marked(target()->NewDirectory(folder, IOOptions(), &log_folder_, debug));
    if (!status.ok()) return status;
    spare_name_ = folder + kSpareName;
    // A killed process may have left one.
    target()->DeleteFile(spare_name_, IOOptions(), debug).PermitUncheckedError();
  }
  log_options_ = options;
  const std::uint64_t number = logs_made_.load(std::memory_order_relaxed) + 1;
  auto log = std::make_shared<Log>(name, number);
  log->Make(*this).PermitUncheckedError();  // F3
  *result = std::make_unique<NamedLog>(*this, log, options);
  logs_.push_back(std::move(log));
  logs_made_.store(number, std::memory_order_relaxed);
  space_.store(0, std::memory_order_relaxed);
  return IOStatus::OK();
}

IOStatus DurableFiles::System::MakeLogFile(const std::string& name, ReservedFile* file) {
  if (spare_.file == nullptr) {
    IOStatus status = Marked(target()->NewWritableFile(name, log_options_, &file->file, nullptr));
    if (!status.ok()) return status;
  } else {
    IOStatus status = Marked(target()->RenameFile(spare_name_, name, IOOptions(), nullptr));
    if (!status.ok()) return status;
    *file = std::exchange(spare_, ReservedFile());
  }
  names_are_synced_ = false;
  return IOStatus::OK();
}

IOStatus DurableFiles::System::ReserveSpace(std::size_t record) {
  const MutexLock lock(mutex_);
  if (logs_.empty()) return IOStatus::OK();  // RocksDB begins one when it is opened
  IOStatus status = ReserveSpaceLocked(record);
  if (!status.ok() && IsPassing(status)) return status;
  // After any other error there is no other way than to let RocksDB try.
  space_.store(status.ok() ? spare_.space : kAnySpace, std::memory_order_relaxed);
  return IOStatus::OK();
}

IOStatus DurableFiles::System::ReserveSpaceLocked(std::size_t record) {
  IOStatus status = CheckFileLimit(record);
  Log& newest = *logs_.back();
  const bool is_empty = newest.number() != written_;
  if (status.ok() && is_empty) status = newest.Make(*this);
  // The log has the space of the spare file at least, whatever record is the first.
  const std::size_t space = std::max(record, spare_.space);
  if (status.ok() && is_empty) status = newest.Reserve(space);
  if (status.ok() && spare_.file == nullptr) {
    status = Marked(target()->NewWritableFile(spare_name_, log_options_, &spare_.file, nullptr));
  }
  return status.ok() ? spare_.Reserve(space) : status;
}

DurableFiles::DurableFiles() : system_(std::make_shared<System>()), env_(rocksdb::NewCompositeEnv(system_)) {}
DurableFiles::~DurableFiles() = default;

rocksdb::Status DurableFiles::SyncLogs() { return system_->SyncLogs(); }
rocksdb::Status DurableFiles::PrepareWrite(std::size_t bytes) { return system_->PrepareWrite(bytes); }
void DurableFiles::NoteWritten() { system_->NoteWritten(); }
bool DurableFiles::has_dead_log() const { return system_->has_dead_log(); }

}  // namespace remora
