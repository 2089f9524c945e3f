#include "store/durable/new_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/shortage.h"
#include "store/base/status_macros.h"
#include "store/durable/data_dir.h"

namespace remora {
namespace {

absl::Status Errno(const std::string& what) {
  const int error = errno;
  if (error == ENOENT || error == EACCES) return absl::ErrnoToStatus(error, what);
  return MarkedByErrno(error, absl::UnavailableError(absl::ErrnoToStatus(error, what).message()));
}

// The name of a directory that is filled begins so.
constexpr std::string_view kFilled = ".restore-";

absl::Status IsNotEmpty(const std::string& path, const std::vector<std::string>& names) {
  const auto filled =
      std::ranges::find_if(names, [](std::string_view name) { return name.starts_with(kFilled); });
  if (filled != names.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("restore: ", path, " has ", *filled,
                     ", of a restore that runs, or was interrupted; wait until it ends, or remove that"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "restore: ", path, " is not empty; name a new or an empty directory. Nothing in it was touched"));
}

/// Returns true if the directory exists and is empty, false if it does not exist. FailedPrecondition: it is
/// not empty, or no directory.
absl::StatusOr<bool> IsThere(const std::string& path) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return false;
    return Errno(absl::StrCat("cannot look at ", path));
  }
  if (stat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("restore: ", path, " is not a directory; name a new or an empty directory"));
  }
  REMORA_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(path));
  if (!names.empty()) return IsNotEmpty(path, names);
  return true;
}

/// Makes the directory to fill, and sets *made to its path, also if it fails after it has made it.
absl::Status MakeApart(const std::string& path, bool is_there, std::string* made) {
  // If `path` exists, work within it: it may be on another file system than its parent, or the parent may
  // not be writable.
  std::string name = absl::StrCat(path, is_there ? "/" : "", AbslView(kFilled), "XXXXXX");
  if (mkdtemp(name.data()) == nullptr) return Errno(absl::StrCat("cannot make ", name));
  *made = name;
  if (!is_there) return absl::OkStatus();
  REMORA_ASSIGN_OR_RETURN(std::vector<std::string> names, NamesIn(path));
  std::erase(names, name.substr(path.size() + 1));
  // Another process may have put something there meanwhile.
  return names.empty() ? absl::OkStatus() : IsNotEmpty(path, names);
}

/// Returns the directory that contains `path`.
std::string ParentOf(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

/// Renames `made` to `path`. If another process has made something at `path` meanwhile, replaces it only if
/// it is an empty directory.
absl::Status MoveTo(const std::string& path, const std::string& made) {
  if (std::rename(made.c_str(), path.c_str()) != 0) {
    if (errno == ENOTEMPTY || errno == EEXIST) return IsNotEmpty(path, {});
    return Errno(absl::StrCat("cannot rename ", made, " to ", path));
  }
  return SyncDirectory(ParentOf(path));
}

/// Moves the files in `made` to `path`, that with the name `last` behind all others.
absl::Status MoveNamesInto(const std::string& path, const std::string& made, std::string_view last,
                           std::vector<std::string> names) {
  std::partition(names.begin(), names.end(), [&](const std::string& name) { return name != last; });
  for (const std::string& name : names) {
    if (name == last) REMORA_RETURN_IF_ERROR(SyncDirectory(path));
    const std::string to = absl::StrCat(path, "/", name);
    if (std::rename(absl::StrCat(made, "/", name).c_str(), to.c_str()) != 0) {
      return Errno(absl::StrCat("cannot rename to ", to));
    }
  }
  rmdir(made.c_str());
  return SyncDirectory(path);
}

absl::Status MoveInto(const std::string& path, const std::string& made, std::string_view last) {
  // Other users of the machine may not read the data. If another user owns the directory, chmod fails, and
  // the owner's mode stays.
  [[maybe_unused]] const int changed = chmod(path.c_str(), 0700);
  REMORA_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(made));
  absl::Status moved = MoveNamesInto(path, made, last, names);
  if (moved.ok()) return moved;
  std::error_code ignored;
  for (const std::string& name : names) std::filesystem::remove_all(absl::StrCat(path, "/", name), ignored);
  return moved;
}

absl::Status MakeAndMove(const std::string& path, std::string_view last,
                         absl::FunctionRef<absl::Status(const std::string& made)> fill, std::string* made) {
  REMORA_ASSIGN_OR_RETURN(const bool is_there, IsThere(path));
  REMORA_RETURN_IF_ERROR(MakeApart(path, is_there, made));
  REMORA_RETURN_IF_ERROR(fill(*made));
  return is_there ? MoveInto(path, *made, last) : MoveTo(path, *made);
}

}  // namespace

absl::Status FillNewDirectory(const std::string& path, std::string_view last,
                              absl::FunctionRef<absl::Status(const std::string& made)> fill) {
  std::string target = path;
  while (target.size() > 1 && target.ends_with('/')) target.pop_back();
  std::string made;
  absl::Status filled = MakeAndMove(target, last, fill, &made);
  std::error_code ignored;
  if (!filled.ok() && !made.empty()) std::filesystem::remove_all(made, ignored);
  return filled;
}

}  // namespace remora
