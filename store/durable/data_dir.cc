#include "store/durable/data_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/shortage.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

/// Translates the errno of a failed system call on a file. REQUIRES: errno is that of the failed call.
absl::Status FileError(const std::string& what) {
  const int error = errno;
  const absl::Status status = absl::ErrnoToStatus(error, what);
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
      return status;
    default:
      if (IsShortage(error)) {
        return MarkedAsShortage(absl::UnavailableError(absl::StrCat(status.message(), "; ", kShortageText)));
      }
      return MarkedAsDiskFailure(absl::UnavailableError(status.message()));
  }
}

absl::Status NotOurs(const DirKind& kind, const std::string& path) {
  return absl::FailedPreconditionError(
      absl::StrCat(AbslView(kind.name), " ", path, " holds something that is not ",
                   kind.marker == kStoreDir.marker ? "a store's" : "a backup's",
                   "; name an empty or a new directory. Nothing in it was touched"));
}

/// Returns OK if the directory is empty, or has a marker only.
absl::Status CheckUnused(const DirKind& kind, const std::string& path) {
  REMORA_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(path));
  const bool is_unused = std::ranges::all_of(names, [&](const auto& name) { return name == kind.marker; });
  return is_unused ? absl::OkStatus() : NotOurs(kind, path);
}

/// Translates the errno of a mkdir that failed, or would.
absl::Status CannotMake(const DirKind& kind, const std::string& path) {
  const absl::Status status = FileError(absl::StrCat("cannot make ", AbslView(kind.name), " ", path));
  const bool is_denied = absl::IsPermissionDenied(status);
  if (!is_denied && !absl::IsNotFound(status)) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), is_denied ? "; make it, and give it to the server's user"
                                                               : "; make the directory above it"));
}

absl::Status CheckIsDirectory(const DirKind& kind, const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return FileError(absl::StrCat("cannot look at ", path));
  if (!S_ISDIR(status.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("open: ", AbslView(kind.name), " ", path, " is not a directory; name one"));
  }
  return absl::OkStatus();
}

absl::Status MakeDirectory(const DirKind& kind, const std::string& path) {
  // Other users of the machine may not read the data.
  if (mkdir(path.c_str(), 0700) == 0) return absl::OkStatus();
  return errno == EEXIST ? CheckIsDirectory(kind, path) : CannotMake(kind, path);
}

/// Returns the failure that MakeDirectory would have where there is nothing.
absl::Status CheckParent(const DirKind& kind, const std::string& path) {
  const std::size_t end = path.rfind('/', path.find_last_not_of('/'));
  const std::string parent = end == std::string::npos ? "." : path.substr(0, end + 1);
  return access(parent.c_str(), W_OK | X_OK) == 0 ? absl::OkStatus() : CannotMake(kind, path);
}

/// Returns the first 64 bytes of a file, or nullopt if it cannot be read.
std::optional<std::string> ReadSmall(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  std::array<char, 64> buffer;
  const ssize_t size = read(file, buffer.data(), buffer.size());
  close(file);
  if (size < 0) return std::nullopt;
  return std::string(buffer.data(), static_cast<std::size_t>(size));
}

/// Returns the boot_id, which is unique to this start of the machine. Returns nullopt if the system does
/// not tell it.
std::optional<std::string> ThisBoot() {
  std::optional<std::string> boot = ReadSmall("/proc/sys/kernel/random/boot_id");
  if (boot && boot->empty()) boot.reset();
  return boot;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& path) {
  DIR* directory = opendir(path.c_str());
  if (directory == nullptr) return FileError(absl::StrCat("cannot list ", path));
  std::vector<std::string> names;
  while (const dirent* entry = readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && name != "lost+found") names.emplace_back(name);
  }
  closedir(directory);
  return names;
}

absl::Status SyncDirectory(const std::string& path) {
  const int directory = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return FileError(absl::StrCat("cannot open ", path));
  absl::Status status;
  if (fsync(directory) != 0) status = FileError(absl::StrCat("cannot sync ", path));
  close(directory);
  return status;
}

absl::StatusOr<std::unique_ptr<DataDir>> DataDir::Open(const std::string& path, const DirKind& kind) {
  REMORA_RETURN_IF_ERROR(MakeDirectory(kind, path));
  const std::string marker_path = absl::StrCat(path, "/", AbslView(kind.marker));
  int marker = open(marker_path.c_str(), O_RDWR | O_CLOEXEC);
  if (marker < 0 && errno == ENOENT) {
    REMORA_RETURN_IF_ERROR(CheckUnused(kind, path));
    marker = open(marker_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  }
  if (marker < 0) return FileError(absl::StrCat("cannot open ", marker_path));
  std::unique_ptr<DataDir> dir(new DataDir(kind, path, marker));
  REMORA_RETURN_IF_ERROR(dir->LockAndReadMarker(LOCK_EX));
  return dir;
}

absl::StatusOr<std::unique_ptr<DataDir>> DataDir::OpenToRead(const std::string& path, const DirKind& kind) {
  const std::string marker_path = absl::StrCat(path, "/", AbslView(kind.marker));
  const int marker = open(marker_path.c_str(), O_RDONLY | O_CLOEXEC);
  if (marker < 0 && errno == ENOENT && access(path.c_str(), F_OK) == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is no ", AbslView(kind.name), ": it has no file ", AbslView(kind.marker)));
  }
  if (marker < 0) return FileError(absl::StrCat("cannot open ", marker_path));
  std::unique_ptr<DataDir> dir(new DataDir(kind, path, marker));
  REMORA_RETURN_IF_ERROR(dir->LockAndReadMarker(LOCK_SH));
  if (dir->fresh()) {
    return absl::FailedPreconditionError(
        absl::StrCat("open: ", AbslView(kind.name), " ", path,
                     " was begun, and holds nothing yet; open it for writing first"));
  }
  return dir;
}

absl::StatusOr<std::unique_ptr<DataDir>> DataDir::Examine(const std::string& path, const DirKind& kind,
                                                          const ShardIdentity& shard) {
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) {
    REMORA_RETURN_IF_ERROR(CheckParent(kind, path));
    return nullptr;
  }
  REMORA_RETURN_IF_ERROR(CheckIsDirectory(kind, path));
  if (access(path.c_str(), W_OK | X_OK) != 0) return FileError(absl::StrCat("cannot write to ", path));
  const std::string marker_path = absl::StrCat(path, "/", AbslView(kind.marker));
  const int marker = open(marker_path.c_str(), O_RDWR | O_CLOEXEC);
  if (marker < 0 && errno == ENOENT) {
    REMORA_RETURN_IF_ERROR(CheckUnused(kind, path));
    return nullptr;
  }
  if (marker < 0) return FileError(absl::StrCat("cannot open ", marker_path));
  std::unique_ptr<DataDir> dir(new DataDir(kind, path, marker));
  REMORA_RETURN_IF_ERROR(dir->ReadMarker());
  REMORA_RETURN_IF_ERROR(dir->CheckShard(shard));
  return dir;
}

absl::Status DataDir::Claim(const std::string& path) {
  const std::string marker_path = absl::StrCat(path, "/", AbslView(kStoreDir.marker));
  const int marker = open(marker_path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (marker < 0) return FileError(absl::StrCat("cannot make ", marker_path));
  return DataDir(kStoreDir, path, marker).MarkComplete();
}

std::string DataDir::boot_file() const { return absl::StrCat(path_, "/", AbslView(kBootFile)); }

bool DataDir::is_of_this_boot() const {
  const std::optional<std::string> boot = ThisBoot();
  return boot && ReadSmall(boot_file()) == boot;
}

// The file is neither synced nor renamed into place. Until the machine is restarted, a reader gets the
// bytes in the page cache. After a restart, any bytes on the disk are right: they are not the new boot_id.
absl::Status DataDir::NoteBoot() {
  const std::optional<std::string> boot = ThisBoot();
  if (!boot || is_of_this_boot()) return absl::OkStatus();
  const int file = open(boot_file().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return FileError(absl::StrCat("cannot open ", boot_file()));
  absl::Status status;
  if (write(file, boot->data(), boot->size()) != static_cast<ssize_t>(boot->size())) {
    status = FileError(absl::StrCat("cannot write ", boot_file()));
  }
  close(file);
  return status;
}

absl::StatusOr<std::optional<std::string>> DataDir::ReadShard() const {
  const std::string path = absl::StrCat(path_, "/", AbslView(kShardFile));
  std::optional<std::string> text = ReadSmall(path);
  if (text || access(path.c_str(), F_OK) != 0) return text;
  return FileError(absl::StrCat("cannot read ", path));
}

absl::Status DataDir::CheckShard(const ShardIdentity& shard) const {
  if (shard.is_none()) return absl::OkStatus();
  REMORA_ASSIGN_OR_RETURN(const std::optional<std::string> text, ReadShard());
  if (!text) return absl::OkStatus();
  const std::size_t end = std::min(text->find('\n'), text->size());
  const std::optional<ShardIdentity> kept = IdentityIn(std::string_view(*text).substr(0, end));
  if (!kept || end + 1 != text->size()) {
    return absl::FailedPreconditionError(
        absl::StrCat(AbslView(kind_.name), " ", path_, ": its file ", AbslView(kShardFile),
                     " is damaged; write into it which shard has these data, as CLUSTER/NAME and a newline"));
  }
  if (*kept == shard) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "open: ", AbslView(kind_.name), " ", path_, " has the data of shard ", IdentityText(*kept),
      ", and this server is to be shard ", IdentityText(shard), "; name the directory of that shard"));
}

// A complete file is renamed into place: after a power cut, the directory has the whole identity or none.
absl::Status DataDir::NoteShard(const ShardIdentity& shard) {
  if (shard.is_none()) return absl::OkStatus();
  REMORA_ASSIGN_OR_RETURN(const std::optional<std::string> kept, ReadShard());
  if (kept) return absl::OkStatus();
  const std::string path = absl::StrCat(path_, "/", AbslView(kShardFile));
  const std::string whole = path + ".new";
  const int file = open(whole.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return FileError(absl::StrCat("cannot make ", whole));
  const std::string text = IdentityText(shard) + "\n";
  absl::Status status;
  if (write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size()) || fsync(file) != 0) {
    status = FileError(absl::StrCat("cannot write ", whole));
  }
  close(file);
  REMORA_RETURN_IF_ERROR(status);
  if (rename(whole.c_str(), path.c_str()) != 0) {
    return FileError(absl::StrCat("cannot rename ", whole, " to ", path));
  }
  return SyncDirectory(path_);
}

DataDir::DataDir(const DirKind& kind, std::string path, int marker)
    : kind_(kind), path_(std::move(path)), marker_(marker), format_(kind.format) {}

DataDir::~DataDir() { close(marker_); }

absl::Status DataDir::InUse() const {
  return absl::AlreadyExistsError(absl::StrCat(
      AbslView(kind_.name), " ", path_, " is in use by another ",
      kind_.marker == kStoreDir.marker ? "store; stop that one first" : "backup; wait until that is done"));
}

absl::Status DataDir::LockAndReadMarker(int lock) {
  // flock instead of fcntl, since it also excludes a second store in the same process.
  if (flock(marker_, lock | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK)
      return FileError(absl::StrCat("cannot lock ", AbslView(kind_.name), " ", path_));
    return InUse();
  }
  // A link count of 0 says that another store replaced this marker by a new one (MarkComplete) between
  // the open and the lock.
  struct stat file;
  if (fstat(marker_, &file) != 0) return FileError(absl::StrCat("cannot look at the marker of ", path_));
  if (file.st_nlink == 0) return InUse();
  return ReadMarker();
}

absl::Status DataDir::ReadMarker() {
  std::array<char, 64> buffer;
  const ssize_t size = pread(marker_, buffer.data(), buffer.size(), 0);
  if (size < 0) return FileError(absl::StrCat("cannot read the marker of ", path_));
  std::string_view text(buffer.data(), static_cast<std::size_t>(size));
  fresh_ = text.empty();
  if (fresh_) return absl::OkStatus();

  if (!text.starts_with(kind_.text) || !text.ends_with('\n')) return NotOurs(kind_, path_);
  int format = 0;
  if (!absl::SimpleAtoi(AbslView(text.substr(kind_.text.size())), &format)) return NotOurs(kind_, path_);
  if (format == kind_.logged_format && format != 0) {
    format_ = format;
    return absl::OkStatus();
  }
  if (format != kind_.format) {
    return absl::FailedPreconditionError(
        absl::StrCat("open: ", AbslView(kind_.name), " ", path_, " holds data of format ", format,
                     "; this program knows format ", std::max(kind_.format, kind_.logged_format),
                     ". Use the version of the program that wrote it, or a newer one"));
  }
  return absl::OkStatus();
}

absl::Status DataDir::WriteMarker(int file) const {
  const std::string text = absl::StrCat(AbslView(kind_.text), format_, "\n");
  if (pwrite(file, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return FileError(absl::StrCat("cannot write the marker of ", path_));
  }
  if (fsync(file) != 0) return FileError(absl::StrCat("cannot sync the marker of ", path_));
  // Lock the file before the rename, so that no other process can open it unlocked.
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    return FileError(absl::StrCat("cannot lock the marker of ", path_));
  }
  return absl::OkStatus();
}

absl::Status DataDir::MarkLogged() {
  const int before = std::exchange(format_, kind_.logged_format);
  absl::Status status = MarkComplete();
  if (!status.ok()) format_ = before;
  return status;
}

absl::Status DataDir::MarkComplete() {
  // A complete file is renamed to the marker: after a power cut, the marker is the old or the new one.
  const std::string marker = absl::StrCat(path_, "/", AbslView(kind_.marker));
  const std::string whole = marker + ".new";
  const int file = open(whole.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return FileError(absl::StrCat("cannot make ", whole));
  absl::Status status = WriteMarker(file);
  if (status.ok() && rename(whole.c_str(), marker.c_str()) != 0) {
    status = FileError(absl::StrCat("cannot rename ", whole, " to ", marker));
  }
  // From here on, the lock is that of the new file.
  if (status.ok() && dup3(file, marker_, O_CLOEXEC) < 0) {
    status = FileError(absl::StrCat("cannot lock ", AbslView(kind_.name), " ", path_));
  }
  close(file);
  REMORA_RETURN_IF_ERROR(status);
  REMORA_RETURN_IF_ERROR(SyncDirectory(path_));
  // Sync the directory's own name, too. If this process may not read the parent, it syncs the whole file
  // system instead.
  const absl::Status named = SyncDirectory(path_ + "/..");
  if (absl::IsPermissionDenied(named) && syncfs(marker_) != 0) {
    return FileError(absl::StrCat("cannot sync the file system of ", path_));
  }
  if (!named.ok() && !absl::IsPermissionDenied(named)) return named;
  fresh_ = false;
  return absl::OkStatus();
}

}  // namespace remora
