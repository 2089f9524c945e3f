#include "store/durable/commit_log/file_set.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/check.h"
#include "store/base/start_thread.h"
#include "store/base/status_macros.h"
#include "store/durable/data_dir.h"

namespace remora {
namespace {

/// Bound on spares from released files. The thread makes a new file only if there is no spare at all.
constexpr std::size_t kMaxSpares = 2;

}  // namespace

absl::StatusOr<std::unique_ptr<CommitLogFiles>> CommitLogFiles::Start(LogFileSetOptions options,
                                                                      std::deque<FilePtr> held,
                                                                      std::deque<FilePtr> spares) {
  std::unique_ptr<CommitLogFiles> files(new CommitLogFiles(std::move(options)));
  {
    const MutexLock lock(files->mutex_);
    files->held_ = std::move(held);
    files->spares_ = std::move(spares);
  }
  REMORA_ASSIGN_OR_RETURN(
      files->maker_, StartThread([&] { return std::thread([set = files.get()] { set->MakeSpares(); }); }));
  return files;
}

CommitLogFiles::~CommitLogFiles() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (maker_.joinable()) maker_.join();
}

bool CommitLogFiles::HasWork() const {
  return wanted_ != nullptr || !released_.empty() || (spares_.empty() && (made_.ok() || try_again_));
}

std::uint64_t CommitLogFiles::CountBytes() const {
  std::uint64_t bytes = 0;
  for (const auto* files : {&held_, &spares_}) {
    for (const FilePtr& file : *files) bytes += file->size();
  }
  for (const LogFileInfo& file : released_) bytes += file.size;
  return bytes;
}

Lsn CommitLogFiles::SpareFirst() const {
  if (!spares_.empty()) return spares_.back()->end();
  return held_.empty() ? Lsn{} : held_.back()->end();
}

std::string CommitLogFiles::PathOf(Lsn first) const {
  return absl::StrCat(options_.dir, "/", LogFileName(first));
}

absl::StatusOr<CommitLogFiles::FilePtr> CommitLogFiles::MakeSpare(const std::optional<LogFileInfo>& recycled,
                                                                  Lsn first) const {
  if (recycled && recycled->size == options_.file_size) {
    const std::string path = PathOf(first);
    if (std::rename(PathOf(recycled->first).c_str(), path.c_str()) != 0) {
      return LogErrnoStatus("recycle a file as", path, errno);
    }
    REMORA_RETURN_IF_ERROR(SyncDirectory(options_.dir));
    return CommitLogFile::Open(options_.dir, first, options_.file_size, options_.kind);
  }
  return CommitLogFile::Make(options_.dir, first, options_.file_size, options_.kind);
}

void CommitLogFiles::MakeSpares() {
  MutexLock lock(mutex_);
  while (!stop_) {
    if (!HasWork()) {
      lock.Wait(changed_);
      continue;
    }
    if (wanted_ != nullptr) {
      const FilePtr file = std::exchange(wanted_, nullptr);
      const std::uint64_t offset = wanted_offset_;
      const std::uint64_t size = wanted_size_;
      lock.Unlock();
      file->Prepare(offset, size);
      lock.Lock();
      continue;
    }
    try_again_ = false;
    std::optional<LogFileInfo> recycled;
    if (!released_.empty()) {
      recycled = released_.front();
      released_.pop_front();
      if (spares_.size() >= kMaxSpares || recycled->size != options_.file_size) {
        lock.Unlock();
        unlink(PathOf(recycled->first).c_str());  // if it fails, the next opening may release it again
        lock.Lock();
        continue;
      }
    } else if (CountBytes() + options_.file_size > options_.max_bytes) {
      made_ = absl::ResourceExhaustedError(
          absl::StrCat("commit log: the files in ", options_.dir, " have ", CountBytes(), " of at most ",
                       options_.max_bytes, " bytes, and all are in use; write more slowly, or allow more"));
      changed_.notify_all();
      continue;
    }
    const Lsn first = SpareFirst();
    lock.Unlock();
    absl::StatusOr<FilePtr> spare = MakeSpare(recycled, first);
    lock.Lock();
    made_ = spare.status();
    if (spare.ok()) spares_.push_back(*std::move(spare));
    changed_.notify_all();
  }
}

void CommitLogFiles::PreparePages(FilePtr file, std::uint64_t offset, std::uint64_t size) {
  {
    const MutexLock lock(mutex_);
    // Replaces an earlier request that the thread, being busy, has not served. The writer has passed
    // those pages, or soon will.
    wanted_ = std::move(file);
    wanted_offset_ = offset;
    wanted_size_ = size;
  }
  changed_.notify_all();
}

absl::StatusOr<CommitLogFiles::FilePtr> CommitLogFiles::NextFile() {
  MutexLock lock(mutex_);
  while (spares_.empty()) {
    if (!made_.ok()) {
      absl::Status why = made_;
      try_again_ = true;
      changed_.notify_all();
      return why;
    }
    lock.Wait(changed_);
  }
  return spares_.front();
}

void CommitLogFiles::BeginNextFile(Lsn end) {
  const MutexLock lock(mutex_);
  REMORA_CHECK(!spares_.empty());
  if (!held_.empty()) {
    filled_[held_.back()->first()] = end - held_.back()->first();
    futimens(held_.back()->fd(), nullptr);  // C8a; if it fails, the file keeps an earlier time
  }
  held_.push_back(std::move(spares_.front()));
  spares_.pop_front();
  changed_.notify_all();
}

std::uint64_t CommitLogFiles::BytesIn(const LogFileInfo& file) const {
  const auto filled = filled_.find(file.first);
  // An earlier process filled it. The first group of a file did not fit into the file before, so two
  // adjacent files hold more bytes than one file can: half a file each, on average.
  return filled == filled_.end() ? file.size / 2 : filled->second;
}

bool CommitLogFiles::IsSince(const LogFileInfo& file, std::chrono::system_clock::time_point since) const {
  if (since == std::chrono::system_clock::time_point::max()) return false;
  struct stat status;
  if (stat(PathOf(file.first).c_str(), &status) != 0) return false;
  const auto left = std::chrono::seconds(status.st_mtim.tv_sec + 1);
  return std::chrono::system_clock::time_point(left) > since;
}

std::size_t CommitLogFiles::CountNotKept(const LogKeep& keep) const {
  std::uint64_t newer = 0;
  for (const FilePtr& file : held_) {
    const bool is_last = file == held_.back();
    newer += is_last ? keep.end.value - std::min(keep.end, file->first()).value
                     : BytesIn({file->first(), file->size()});
  }
  std::size_t count = retained_.size();
  for (; count > 0; --count) {
    const LogFileInfo& file = retained_[count - 1];
    if (newer >= keep.bytes && !IsSince(file, keep.since)) break;
    newer += BytesIn(file);
  }
  return count;
}

void CommitLogFiles::Release(Lsn below, const LogKeep& keep) {
  std::vector<FilePtr> closed;  // its destructor closes the files after the lock is released
  const MutexLock lock(mutex_);
  bool any = false;
  while (held_.size() > 1 && held_.front()->end() <= below) {
    retained_.push_back({held_.front()->first(), held_.front()->size()});
    closed.push_back(std::move(held_.front()));
    held_.pop_front();
    any = true;
  }
  for (std::size_t left = CountNotKept(keep); left > 0; --left) {
    filled_.erase(retained_.front().first);
    released_.push_back(retained_.front());
    retained_.pop_front();
    any = true;
  }
  if (!any) return;
  made_ = absl::OkStatus();  // so that NextFile waits until the thread has recycled the released files
  changed_.notify_all();
}

std::vector<CommitLogFiles::FilePtr> CommitLogFiles::Between(Lsn from, Lsn to) const {
  const MutexLock lock(mutex_);
  std::vector<FilePtr> files;
  for (const FilePtr& file : held_) {
    if (file->first() < to && file->end() > from) files.push_back(file);
  }
  return files;
}

Lsn CommitLogFiles::first() const {
  const MutexLock lock(mutex_);
  if (!retained_.empty()) return retained_.front().first;
  return held_.empty() ? Lsn{} : held_.front()->first();
}

std::uint64_t CommitLogFiles::bytes() const {
  const MutexLock lock(mutex_);
  std::uint64_t bytes = CountBytes();
  for (const LogFileInfo& file : retained_) bytes += file.size;
  return bytes;
}

}  // namespace remora
