#include "store/data_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

constexpr std::string_view kMarkerName = "REMORA";
constexpr std::string_view kMarkerText = "remora-store ";  // then the format's number and a newline

/// The translator of this folder's system calls on files. REQUIRES: errno is that of the failed call.
absl::Status FileError(const std::string& what) {
  const int error = errno;
  absl::Status status = absl::ErrnoToStatus(error, what);
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
      return status;
    default:
      return absl::UnavailableError(status.message());
  }
}

absl::Status NotAStore(const std::string& path) {
  return absl::FailedPreconditionError(
      absl::StrCat("data directory ", path,
                   " holds something that is not a store's; name an empty or a new directory. Nothing in it "
                   "was touched"));
}

/// OK when the directory holds nothing but, at most, a marker.
absl::Status CheckUnused(const std::string& path) {
  DIR* directory = opendir(path.c_str());
  if (directory == nullptr) return FileError(absl::StrCat("cannot list data directory ", path));
  absl::Status status;
  while (const dirent* entry = readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && name != kMarkerName) status = NotAStore(path);
  }
  closedir(directory);
  return status;
}

absl::Status MakeDirectory(const std::string& path) {
  // What users store is theirs alone.
  if (mkdir(path.c_str(), 0700) == 0) return absl::OkStatus();
  if (errno != EEXIST) return FileError(absl::StrCat("cannot make data directory ", path));
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return FileError(absl::StrCat("cannot look at ", path));
  if (!S_ISDIR(status.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat("data directory ", path, " is not a directory"));
  }
  return absl::OkStatus();
}

/// Has the disk keep what the directory says of the names in it.
absl::Status SyncDirectory(const std::string& path) {
  const int directory = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return FileError(absl::StrCat("cannot open ", path));
  const absl::Status status =
      fsync(directory) == 0 ? absl::OkStatus() : FileError(absl::StrCat("cannot sync ", path));
  close(directory);
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataDir>> DataDir::Open(const std::string& path) {
  REMORA_RETURN_IF_ERROR(MakeDirectory(path));
  const std::string marker_path = absl::StrCat(path, "/", AbslView(kMarkerName));
  int marker = open(marker_path.c_str(), O_RDWR | O_CLOEXEC);
  if (marker < 0 && errno == ENOENT) {
    REMORA_RETURN_IF_ERROR(CheckUnused(path));
    marker = open(marker_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  }
  if (marker < 0) return FileError(absl::StrCat("cannot open ", marker_path));
  std::unique_ptr<DataDir> dir(new DataDir(path, marker));
  REMORA_RETURN_IF_ERROR(dir->LockAndReadMarker());
  return dir;
}

DataDir::DataDir(std::string path, int marker) : path_(std::move(path)), marker_(marker) {}

DataDir::~DataDir() { close(marker_); }

absl::Status DataDir::LockAndReadMarker() {
  // flock and not fcntl: it also keeps a second store of the same process out.
  if (flock(marker_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FileError(absl::StrCat("cannot lock data directory ", path_));
    return absl::AlreadyExistsError(
        absl::StrCat("data directory ", path_, " is in use by another store; stop that one first"));
  }
  std::array<char, 64> buffer;
  const ssize_t size = pread(marker_, buffer.data(), buffer.size(), 0);
  if (size < 0) return FileError(absl::StrCat("cannot read the marker of data directory ", path_));
  std::string_view text(buffer.data(), static_cast<std::size_t>(size));
  fresh_ = text.empty();
  if (fresh_) return absl::OkStatus();

  if (!text.starts_with(kMarkerText) || !text.ends_with('\n')) return NotAStore(path_);
  int format = 0;
  if (!absl::SimpleAtoi(AbslView(text.substr(kMarkerText.size())), &format)) return NotAStore(path_);
  if (format != kDataFormat) {
    return absl::FailedPreconditionError(absl::StrCat(
        "data directory ", path_, " holds data of format ", format, "; this program knows format ",
        kDataFormat, ". Use the version of the program that wrote it, or a newer one"));
  }
  return absl::OkStatus();
}

absl::Status DataDir::MarkComplete() {
  const std::string text = absl::StrCat(AbslView(kMarkerText), kDataFormat, "\n");
  if (pwrite(marker_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return FileError(absl::StrCat("cannot write the marker of data directory ", path_));
  }
  if (fsync(marker_) != 0) {
    return FileError(absl::StrCat("cannot sync the marker of data directory ", path_));
  }
  REMORA_RETURN_IF_ERROR(SyncDirectory(path_));
  // And its own name. Whoever may not look at the directory that it is in has all of the file system synced.
  const absl::Status named = SyncDirectory(path_ + "/..");
  if (absl::IsPermissionDenied(named) && syncfs(marker_) != 0) {
    return FileError(absl::StrCat("cannot sync the file system of data directory ", path_));
  }
  if (!named.ok() && !absl::IsPermissionDenied(named)) return named;
  fresh_ = false;
  return absl::OkStatus();
}

}  // namespace remora
