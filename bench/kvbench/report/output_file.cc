#include "bench/kvbench/report/output_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <system_error>
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

/// A file of another name in the same folder, which any name fits.
struct Beside {
  std::string name;
  int descriptor;
};

Beside MakeBeside(const std::string& place) {
  Beside beside{std::filesystem::path(place).replace_filename(".kvbench-XXXXXX"), -1};
  beside.descriptor = ::mkostemp(beside.name.data(), O_CLOEXEC);
  return beside;
}

/// Where links lead that end at nothing; else the path.
std::string EndOfLinks(const std::string& path) {
  constexpr int kMaxLinks = 40;  // as of the system
  std::filesystem::path place = path;
  std::error_code error;
  for (int i = 0; i < kMaxLinks && std::filesystem::is_symlink(place, error); ++i) {
    if (std::filesystem::exists(place, error)) return path;
    place = place.parent_path() / std::filesystem::read_symlink(place, error);
  }
  return place;
}

}  // namespace

OutputFile::OutputFile(std::string path, std::string place, int descriptor, std::optional<mode_t> mode)
    : path_(std::move(path)), place_(std::move(place)), descriptor_(descriptor), mode_(mode) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Open(const std::string& path) {
  const std::string place = EndOfLinks(path);
  struct stat there;
  const bool is_there = ::lstat(place.c_str(), &there) == 0;
  if (!is_there && errno != ENOENT) return CannotWrite(path);
  if (!is_there || S_ISREG(there.st_mode)) {
    const Beside trial = MakeBeside(place);
    if (trial.descriptor >= 0) {
      ::close(trial.descriptor);
      ::unlink(trial.name.c_str());
      const std::optional<mode_t> mode = is_there ? std::optional(there.st_mode & 07777) : std::nullopt;
      return std::unique_ptr<OutputFile>(new OutputFile(path, place, -1, mode));
    }
    if (!is_there) return CannotWrite(path);
  }
  // Not to wait for the reader of a pipe.
  const int descriptor = ::open(place.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0 && errno == ENXIO) {
    return absl::UnavailableError(
        absl::StrCat("cannot write ", path, ": nobody reads it; start its reader first"));
  }
  if (descriptor < 0) return CannotWrite(path);
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
  return std::unique_ptr<OutputFile>(new OutputFile(path, place, descriptor, std::nullopt));
}

absl::Status OutputFile::Commit(const std::string& text) {
  struct stat there;
  if (descriptor_ >= 0 && ::fstat(descriptor_, &there) == 0 && S_ISREG(there.st_mode) &&
      ::ftruncate(descriptor_, 0) != 0) {
    return CannotWrite(path_);
  }
  std::string beside;
  if (descriptor_ < 0) {
    const Beside made = MakeBeside(place_);
    if (made.descriptor < 0) return CannotWrite(path_);
    beside = made.name;
    descriptor_ = made.descriptor;
    // mkostemp's is for its owner alone.
    const mode_t mask = ::umask(0);
    ::umask(mask);
    ::fchmod(descriptor_, mode_.value_or(0666 & ~mask));
  }
  // Some file systems say only when it is closed that there was no space.
  absl::Status status;
  if (!WriteAll(descriptor_, text) || ::close(std::exchange(descriptor_, -1)) != 0)
    status = CannotWrite(path_);
  if (beside.empty()) return status;
  if (status.ok() && std::rename(beside.c_str(), place_.c_str()) != 0) status = CannotWrite(path_);
  if (!status.ok()) ::unlink(beside.c_str());
  return status;
}

}  // namespace remora::bench
