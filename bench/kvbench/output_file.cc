#include "bench/kvbench/output_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"

namespace remora::bench {
namespace {

absl::Status CannotWrite(const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
}

bool WriteAll(int descriptor, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t size = ::write(descriptor, text.data() + done, text.size() - done);
    if (size < 0 && errno != EINTR) return false;
    if (size > 0) done += static_cast<std::size_t>(size);
  }
  return true;
}

}  // namespace

OutputFile::OutputFile(std::string path, std::string beside, int descriptor)
    : path_(std::move(path)), beside_(std::move(beside)), descriptor_(descriptor) {}

OutputFile::~OutputFile() {
  if (!beside_.empty()) ::unlink(beside_.c_str());
  if (descriptor_ >= 0) ::close(descriptor_);
}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Open(const std::string& path) {
  struct stat there;
  const bool is_new = ::lstat(path.c_str(), &there) != 0;
  std::string beside;
  int descriptor = -1;
  if (is_new || S_ISREG(there.st_mode)) {
    beside = path + ".XXXXXX";
    descriptor = ::mkostemp(beside.data(), O_CLOEXEC);
    if (descriptor < 0 && is_new) return CannotWrite(path);
  }
  if (descriptor < 0) {
    beside.clear();
    descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) return CannotWrite(path);
  } else {
    // mkostemp's is for its owner alone.
    const mode_t mask = ::umask(0);
    ::umask(mask);
    ::fchmod(descriptor, is_new ? 0666 & ~mask : there.st_mode & 07777);
  }
  return std::unique_ptr<OutputFile>(new OutputFile(path, std::move(beside), descriptor));
}

absl::Status OutputFile::Commit(const std::string& text) {
  struct stat status;
  if (beside_.empty() && ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode) &&
      ::ftruncate(descriptor_, 0) != 0) {
    return CannotWrite(path_);
  }
  // Some file systems say only when it is closed that there was no room.
  if (!WriteAll(descriptor_, text) || ::close(std::exchange(descriptor_, -1)) != 0) return CannotWrite(path_);
  if (beside_.empty()) return absl::OkStatus();
  if (std::rename(beside_.c_str(), path_.c_str()) != 0) return CannotWrite(path_);
  beside_.clear();
  return absl::OkStatus();
}

}  // namespace remora::bench
