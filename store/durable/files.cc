#include "store/durable/files.h"

#include <fcntl.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/io_status.h>
#include <rocksdb/status.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/durable/status.h"

namespace remora {
namespace {

using rocksdb::FileOptions;
using rocksdb::FSWritableFile;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

/// Changes an error to a full disk, as F1 says.
IOStatus Marked(IOStatus status) {
  if (status.IsNoSpace() || (!WillPass(status) && !IsDiskFull(status))) return status;
  return IOStatus::NoSpace(status.getState());
}

class MarkedReads final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  using FSRandomAccessFileOwnerWrapper::FSRandomAccessFileOwnerWrapper;
  IOStatus Read(std::uint64_t offset, std::size_t size, const IOOptions& options, rocksdb::Slice* result,
                char* scratch, IODebugContext* debug) const override {
    return Marked(FSRandomAccessFileOwnerWrapper::Read(offset, size, options, result, scratch, debug));
  }
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

class DurableFiles::System final : public rocksdb::FileSystemWrapper {
 public:
  System() : FileSystemWrapper(Default()) { SetAside(); }
  ~System() override {
    while (TakeSpare()) continue;
  }

  IOStatus SyncLogs();
  bool has_dead_log() const { return has_dead_log_.load(std::memory_order_relaxed); }

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
    if (status.ok()) *result = std::make_unique<MarkedReads>(std::move(*result));
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

  /// Makes a log file, with a reserved descriptor if there is no other (F2).
  IOStatus MakeLog(const std::string& name, const FileOptions& options,
                   std::unique_ptr<FSWritableFile>* file);
  /// Reserves descriptors again, as far as there are free ones.
  void SetAside();
  /// Closes a reserved descriptor. Returns false if there is none.
  bool TakeSpare();

  // Relaxed: only the writing thread reads it.
  std::atomic<bool> has_dead_log_{false};
  std::mutex mutex_;
  // Guarded by mutex_.
  std::list<std::shared_ptr<Log>> logs_;
  std::unique_ptr<rocksdb::FSDirectory> log_folder_;  // null: no log was made yet
  bool names_are_synced_ = true;
  std::vector<int> spares_;
};

/// The file of a log (F3).
class DurableFiles::System::Log {
 public:
  Log(System& files, const std::string& name, const FileOptions& options)
      : status_(files.MakeLog(name, options, &file_)) {}

  /// Returns OK, or the reason why the file could not be made. In the latter case file() is null.
  const IOStatus& status() const { return status_; }
  FSWritableFile* file() { return file_.get(); }

  IOStatus Sync() {
    const std::lock_guard lock(mutex_);
    return is_closed_ || file_ == nullptr ? IOStatus::OK() : file_->Sync(IOOptions(), nullptr);
  }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_closed_, true) || file_ == nullptr) return IOStatus::OK();
    return file_->Close(options, debug);
  }

 private:
  std::unique_ptr<FSWritableFile> file_;
  const IOStatus status_;
  std::mutex mutex_;  // Sync and Close exclude each other
  bool is_closed_ = false;
};

/// The file object that RocksDB holds for a log.
class DurableFiles::System::NamedLog final : public FSWritableFile {
 public:
  NamedLog(System& files, std::shared_ptr<Log> log, const FileOptions& options)
      : FSWritableFile(options), files_(files), log_(std::move(log)) {}
  ~NamedLog() override {
    log_->Close(IOOptions(), nullptr).PermitUncheckedError();
    const std::lock_guard lock(files_.mutex_);
    files_.logs_.remove(log_);
    files_.SetAside();
  }

  using FSWritableFile::Append;
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options, IODebugContext* debug) override {
    IOStatus status = log_->status();
    if (status.ok()) status = Marked(log_->file()->Append(data, options, debug));
    if (status.ok()) is_new_ = false;
    if (is_new_) files_.has_dead_log_.store(true, std::memory_order_relaxed);
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
  bool is_new_ = true;  // no write has succeeded yet
};

IOStatus DurableFiles::System::SyncLogs() {
  std::vector<std::shared_ptr<Log>> logs;
  {
    const std::lock_guard lock(mutex_);
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
  const std::lock_guard lock(mutex_);
  if (log_folder_ == nullptr) {
    // It stays open, since a later sync may find no free descriptor.
    IOStatus status =
        Marked(target()->NewDirectory(name.substr(0, name.rfind('/')), IOOptions(), &log_folder_, debug));
    if (!status.ok()) return status;
  }
  auto log = std::make_shared<Log>(*this, name, options);
  *result = std::make_unique<NamedLog>(*this, log, options);
  logs_.push_back(std::move(log));
  names_are_synced_ = false;
  has_dead_log_.store(false, std::memory_order_relaxed);
  return IOStatus::OK();
}

IOStatus DurableFiles::System::MakeLog(const std::string& name, const FileOptions& options,
                                       std::unique_ptr<FSWritableFile>* file) {
  IOStatus status;
  do {
    status = Marked(target()->NewWritableFile(name, options, file, nullptr));
  } while (WillPass(status) && TakeSpare());
  if (status.ok()) SetAside();
  return status;
}

void DurableFiles::System::SetAside() {
  // Enough for a shortage: writes stop when a table cannot be made. Until then RocksDB begins one or two
  // logs, and one more at each try to recover that has a memtable to flush.
  constexpr std::size_t kSpares = 3;
  while (spares_.size() < kSpares) {
    const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    spares_.push_back(fd);
  }
}

bool DurableFiles::System::TakeSpare() {
  if (spares_.empty()) return false;
  ::close(spares_.back());
  spares_.pop_back();
  return true;
}

DurableFiles::DurableFiles() : system_(std::make_shared<System>()), env_(rocksdb::NewCompositeEnv(system_)) {}
DurableFiles::~DurableFiles() = default;

rocksdb::Status DurableFiles::SyncLogs() { return system_->SyncLogs(); }

bool DurableFiles::has_dead_log() const { return system_->has_dead_log(); }

}  // namespace remora
