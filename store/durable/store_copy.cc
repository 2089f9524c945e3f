#include "store/durable/store_copy.h"

#include <fcntl.h>
#include <rocksdb/db.h>
#include <rocksdb/metadata.h>
#include <rocksdb/options.h>
#include <rocksdb/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "store/base/shortage.h"
#include "store/base/status_macros.h"
#include "store/durable/status.h"

namespace remora {
namespace {

absl::Status CopyReadError(const std::string& path) {
  const int error = errno;
  return MarkedByErrno(
      error, absl::UnavailableError(absl::StrCat("copy: cannot read ", path, ": ", std::strerror(error))));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoreCopy>> StoreCopy::Begin(rocksdb::DB& db, std::string dir,
                                                            std::shared_ptr<CopyPins> pins) {
  std::unique_ptr<StoreCopy> copy(new StoreCopy(db, std::move(dir), std::move(pins)));
  REMORA_RETURN_IF_ERROR(copy->Pin());
  rocksdb::LiveFilesStorageInfoOptions options;
  // RocksDB must not flush by itself (C4 of tier_log/tier_log.h).
  options.wal_size_for_flush = std::numeric_limits<std::uint64_t>::max();
  std::vector<rocksdb::LiveFileStorageInfo> files;
  REMORA_RETURN_IF_ERROR(
      ToStatus(db.GetLiveFilesStorageInfo(options, &files), absl::StrCat("a copy of ", copy->dir_)));
  for (rocksdb::LiveFileStorageInfo& file : files) {
    if (file.file_type == rocksdb::kWalFile) continue;  // tables have all that it has
    copy->files_.push_back({.name = std::move(file.relative_filename),
                            .size = file.size,
                            .contents = std::move(file.replacement_contents)});
  }
  return copy;
}

// Pins are counted here, because EnableFileDeletions of RocksDB 7.8 ends all of them.
absl::Status StoreCopy::Pin() {
  const MutexLock lock(pins_->mutex);
  if (pins_->count == 0) {
    REMORA_RETURN_IF_ERROR(ToStatus(db_.DisableFileDeletions(), absl::StrCat("a copy of ", dir_)));
  }
  ++pins_->count;
  is_pinned_ = true;
  return absl::OkStatus();
}

StoreCopy::~StoreCopy() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!is_pinned_) return;
  const MutexLock lock(pins_->mutex);
  if (--pins_->count == 0) db_.EnableFileDeletions().PermitUncheckedError();  // the next copy tries again
}

std::uint64_t StoreCopy::bytes() const {
  std::uint64_t bytes = 0;
  for (const File& file : files_) bytes += file.size;
  return bytes;
}

absl::Status StoreCopy::Open(const File& file) {
  if (descriptor_ >= 0 && opened_ == file.name) return absl::OkStatus();
  if (descriptor_ >= 0) ::close(descriptor_);
  const std::string path = absl::StrCat(dir_, "/", file.name);
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) return CopyReadError(path);
  opened_ = file.name;
  return absl::OkStatus();
}

absl::Status StoreCopy::Read(const File& file, std::uint64_t offset, std::span<char> out) {
  if (!file.contents.empty()) {
    std::copy_n(file.contents.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return absl::OkStatus();
  }
  REMORA_RETURN_IF_ERROR(Open(file));
  while (!out.empty()) {
    const ssize_t count = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return CopyReadError(absl::StrCat(dir_, "/", file.name));
    if (count == 0) {
      return absl::DataLossError(absl::StrCat("copy: ", dir_, "/", file.name, " ends at byte ", offset,
                                              ", and should have ", file.size,
                                              "; check the data (kvctl check)"));
    }
    out = out.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return absl::OkStatus();
}

}  // namespace remora
