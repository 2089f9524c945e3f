#include "store/durable/incoming_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "store/base/absl_view.h"
#include "store/base/random_id.h"
#include "store/base/shortage.h"
#include "store/base/status_macros.h"
#include "store/durable/commit_log/log_file.h"
#include "store/durable/data_dir.h"
#include "store/durable/synced_file.h"
#include "store/durable/tier.h"
#include "store/durable/tier_log/shipped_group.h"
#include "store/format/wire/replication_messages.h"

namespace remora {
namespace {

constexpr std::string_view kCopyFolder = "REMORA-COPY";
constexpr std::string_view kCopyGroups = "REMORA-COPY-GROUPS";
constexpr std::string_view kCopyState = "REMORA-COPY-STATE";
constexpr std::string_view kAccepted = "accepted\n";
constexpr std::string_view kReplaces = "replaces\n";

// The disk takes so many bytes before the writer goes on, so a sync at the end of a file is short.
constexpr std::uint64_t kSyncBytes = std::uint64_t{16} << 20;
constexpr std::uint64_t kMaxSentGroup = std::uint64_t{1} << 30;
constexpr std::size_t kMaxCopyName = 64;
// Beside the copy: the log of its store, and what it writes when it is opened.
constexpr std::uint64_t kSpaceBeside = std::uint64_t{16} << 20;

struct GroupHead {
  std::uint64_t number = 0;
  std::uint64_t size = 0;
};

std::string In(const std::string& data_dir, std::string_view name) {
  return absl::StrCat(data_dir, "/", AbslView(name));
}

absl::Status CopyFault(std::string_view operation, const std::string& path, int error) {
  const std::string text =
      absl::StrCat("copy: cannot ", AbslView(operation), " ", path, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(text);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(text);
  return MarkedByErrno(error, absl::UnavailableError(text));
}

absl::Status BrokenProtocol(std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("copy: ", AbslView(what), "; use one release on both servers"));
}

/// Returns whether this may be the name of a file of a copy: one that RocksDB gives.
bool IsCopyName(std::string_view name) {
  if (name.empty() || name.size() > kMaxCopyName) return false;
  const auto is_good = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_';
  };
  if (!std::ranges::all_of(name, is_good)) return false;
  return name == "CURRENT" || name.starts_with("MANIFEST-") || name.starts_with("OPTIONS-") ||
         (name.front() != '.' && name.ends_with(".sst"));
}

/// Returns whether a file or folder of this name belongs to the data of a store, and leaves with them. The
/// member's life has left before, and the identity of the shard stays.
bool IsOfStore(std::string_view name) {
  constexpr std::array<std::string_view, 8> kNames = {
      "CURRENT", "IDENTITY", "LOCK", "LOG", "archive", "commit-log", kBootFile, "REMORA-REPLICATION"};
  constexpr std::array<std::string_view, 3> kBegins = {"MANIFEST-", "OPTIONS-", "LOG.old"};
  constexpr std::array<std::string_view, 4> kEnds = {".sst", ".log", ".dbtmp", ".blob"};
  return std::ranges::find(kNames, name) != kNames.end() ||
         std::ranges::any_of(kBegins, [&](std::string_view one) { return name.starts_with(one); }) ||
         std::ranges::any_of(kEnds, [&](std::string_view one) { return name.ends_with(one); });
}

/// Returns whether this is the name of a table, whose bytes a store never changes.
bool IsTable(std::string_view name) { return IsCopyName(name) && name.ends_with(".sst"); }

absl::Status RemoveAll(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return error ? CopyFault("remove", path, error.value()) : absl::OkStatus();
}

bool HasPath(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

absl::Status CopyFaultOf(const std::optional<WriteFault>& fault) {
  return fault ? CopyFault(fault->step, fault->path, fault->error) : absl::OkStatus();
}

absl::Status WriteState(const std::string& data_dir, std::string_view text) {
  REMORA_RETURN_IF_ERROR(CopyFaultOf(ReplaceSynced(In(data_dir, kCopyState), text)));
  return SyncDirectory(data_dir);
}

absl::StatusOr<std::string> ReadWhole(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  // ENOTDIR: the data directory is none; opening the store says so.
  if (file < 0 && (errno == ENOENT || errno == ENOTDIR)) return std::string();
  if (file < 0) return CopyFault("open", path, errno);
  std::string text;
  std::array<char, 4096> buffer;
  ssize_t size = 0;
  while ((size = ::read(file, buffer.data(), buffer.size())) > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(size));
  }
  absl::Status failed = size < 0 ? CopyFault("read", path, errno) : absl::OkStatus();
  ::close(file);
  if (!failed.ok()) return failed;
  return text;
}

/// Reads `size` bytes. Returns false at the end of the file.
absl::StatusOr<bool> ReadBytes(int file, const std::string& path, char* out, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = ::read(file, out + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return CopyFault("read", path, errno);
    if (count == 0 && done == 0) return false;
    if (count == 0) return absl::DataLossError(absl::StrCat("copy: ", path, " ends in half a group"));
    done += static_cast<std::size_t>(count);
  }
  return true;
}

absl::Status ApplyOne(DurableTier& tier, const GroupHead& head, std::string_view bytes) {
  if (head.number <= tier.group_number()) return absl::OkStatus();  // the files have it
  if (head.number != tier.group_number() + 1) {
    return absl::DataLossError(
        absl::StrCat("copy: behind group ", tier.group_number(), " comes ", head.number));
  }
  REMORA_ASSIGN_OR_RETURN(const ShippedGroup group, ReadShippedGroup(head.number, bytes));
  return tier.WriteFollowed(group);
}

/// Applies the groups that were written while the files came.
absl::Status ApplyGroups(DurableTier& tier, const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return CopyFault("open", path, errno);
  absl::Status status;
  std::vector<std::uint64_t> buffer;  // aligned to 8
  while (status.ok()) {
    GroupHead head;
    absl::StatusOr<bool> is_there = ReadBytes(file, path, reinterpret_cast<char*>(&head), sizeof(head));
    if (!is_there.ok() || !*is_there) {
      status = is_there.status();
      break;
    }
    if (head.size > kMaxSentGroup) {
      status = absl::DataLossError(absl::StrCat("copy: ", path, " has a group of ", head.size, " bytes"));
      break;
    }
    buffer.resize((head.size + 7) / 8);
    char* const bytes = reinterpret_cast<char*>(buffer.data());
    is_there = ReadBytes(file, path, bytes, head.size);
    status = is_there.status();
    if (status.ok()) status = ApplyOne(tier, head, {bytes, head.size});
  }
  ::close(file);
  return status;
}

/// Opens the store of the copy, which tests it, and brings it to its last group (V5, V6).
absl::Status Prepare(const std::string& data_dir, std::uint64_t commit_log_bytes) {
  const std::string folder = In(data_dir, kCopyFolder);
  if (!HasPath(In(folder, kStoreDir.marker))) REMORA_RETURN_IF_ERROR(DataDir::Claim(folder));
  {
    REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<DurableTier> tier,
                            DurableTier::Open(folder, {.commit_log_bytes = commit_log_bytes,
                                                       .keeps_group_number = true,
                                                       .applies_in_steps = true}));
    REMORA_RETURN_IF_ERROR(tier->Begin(RandomId()));
    REMORA_RETURN_IF_ERROR(ApplyGroups(*tier, In(data_dir, kCopyGroups)));
    REMORA_RETURN_IF_ERROR(tier->Sync());
  }
  const int opened = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return CopyFault("open", folder, errno);
  absl::Status synced = ::syncfs(opened) == 0 ? absl::OkStatus() : CopyFault("sync", folder, errno);
  ::close(opened);
  return synced;
}

/// Moves the files of the copy to their places (V4). Each step may have been done already.
absl::Status Replace(const std::string& data_dir, const std::vector<std::string>& copied,
                     const std::function<absl::Status()>& between) {
  const std::string folder = In(data_dir, kCopyFolder);
  // The life ends first, then the database: a program that does not know copies opens no mixture.
  for (const std::string_view first : {"REMORA-MEMBER", "CURRENT"}) {
    const bool is_moved = std::ranges::find(copied, first) != copied.end() && !HasPath(In(folder, first));
    if (!is_moved) REMORA_RETURN_IF_ERROR(RemoveAll(In(data_dir, first)));
    REMORA_RETURN_IF_ERROR(SyncDirectory(data_dir));
    REMORA_RETURN_IF_ERROR(between());
  }
  REMORA_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(data_dir));
  for (const std::string& name : names) {
    const bool is_new = std::ranges::find(copied, name) != copied.end() && !HasPath(In(folder, name));
    if (!IsOfStore(name) || is_new) continue;
    REMORA_RETURN_IF_ERROR(RemoveAll(In(data_dir, name)));
    REMORA_RETURN_IF_ERROR(between());
  }
  // The marker comes last, and before it the file that names the database's state.
  for (const int turn : {0, 1, 2}) {
    for (const std::string& name : copied) {
      const int due = name == kStoreDir.marker ? 2 : name == "CURRENT" ? 1 : 0;
      const std::string from = In(folder, name), to = In(data_dir, name);
      if (due != turn || !HasPath(from)) continue;
      if (::rename(from.c_str(), to.c_str()) != 0) return CopyFault("move to", to, errno);
      REMORA_RETURN_IF_ERROR(between());
    }
    REMORA_RETURN_IF_ERROR(SyncDirectory(data_dir));
  }
  REMORA_RETURN_IF_ERROR(RemoveAll(folder));
  REMORA_RETURN_IF_ERROR(RemoveAll(In(data_dir, kCopyGroups)));
  REMORA_RETURN_IF_ERROR(SyncDirectory(data_dir));
  REMORA_RETURN_IF_ERROR(between());
  REMORA_RETURN_IF_ERROR(RemoveAll(In(data_dir, kCopyState)));
  return SyncDirectory(data_dir);
}

}  // namespace

// --- A copy comes ---------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<IncomingCopy>> IncomingCopy::Begin(std::string data_dir, std::uint64_t bytes) {
  const std::string folder = In(data_dir, kCopyFolder), groups = In(data_dir, kCopyGroups);
  std::unique_ptr<IncomingCopy> copy(new IncomingCopy(std::move(data_dir)));
  REMORA_RETURN_IF_ERROR(copy->TakeUp());
  REMORA_RETURN_IF_ERROR(copy->CheckSpace(bytes));
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return CopyFault("make", folder, errno);
  copy->groups_ = ::open(groups.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (copy->groups_ < 0) return CopyFault("make", groups, errno);
  return copy;
}

absl::Status IncomingCopy::TakeUp() {
  REMORA_RETURN_IF_ERROR(RemoveAll(In(data_dir_, kCopyGroups)));
  const std::string folder = In(data_dir_, kCopyFolder);
  if (!HasPath(folder)) return absl::OkStatus();
  REMORA_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(folder));
  for (const std::string& name : names) {
    if (IsTable(name)) {
      earlier_.insert(name);
    } else {
      REMORA_RETURN_IF_ERROR(RemoveAll(PathOf(name)));
    }
  }
  return absl::OkStatus();
}

absl::Status IncomingCopy::CheckSpace(std::uint64_t bytes) {
  std::uint64_t there = 0;
  for (const std::string& name : earlier_) {
    struct stat about {};
    if (::stat(PathOf(name).c_str(), &about) == 0) there += static_cast<std::uint64_t>(about.st_size);
  }
  if (CheckDiskSpace(data_dir_, bytes - std::min(there, bytes) + kSpaceBeside).ok()) return absl::OkStatus();
  RemoveIncomingCopy(data_dir_);
  earlier_.clear();
  const absl::Status space = CheckDiskSpace(data_dir_, bytes + kSpaceBeside);
  if (space.ok()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("copy: ", data_dir_, " has no space for a copy of ", bytes,
                   " bytes beside the data that are there; make some: ", space.message()));
}

IncomingCopy::~IncomingCopy() {
  if (file_ >= 0) ::close(file_);
  if (groups_ >= 0) ::close(groups_);
}

std::string IncomingCopy::PathOf(std::string_view name) const { return In(In(data_dir_, kCopyFolder), name); }

absl::Status IncomingCopy::WriteTo(int file, std::span<const std::byte> bytes, const std::string& path) {
  unsynced_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return CopyFault("write", path, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  if (unsynced_ < kSyncBytes) return absl::OkStatus();
  unsynced_ = 0;
  return ::fdatasync(file) == 0 ? absl::OkStatus() : CopyFault("sync", path, errno);
}

namespace {

/// Returns the checksum of a file of this size. Nothing: it has another size, or cannot be read.
std::optional<std::uint64_t> ChecksumOf(int file, std::uint64_t size) {
  struct stat about {};
  if (::fstat(file, &about) != 0 || static_cast<std::uint64_t>(about.st_size) != size) return std::nullopt;
  std::vector<std::byte> part(kCopyPart);
  std::uint64_t checksum = 0;
  for (std::uint64_t at = 0; at < size; at += part.size()) {
    part.resize(std::min<std::uint64_t>(kCopyPart, size - at));
    std::size_t done = 0;
    while (done < part.size()) {
      const ssize_t count = ::read(file, part.data() + done, part.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return std::nullopt;
      done += static_cast<std::size_t>(count);
    }
    checksum = NextCopyChecksum(checksum, part);
  }
  return checksum;
}

}  // namespace

absl::StatusOr<bool> IncomingCopy::Keep(std::string_view name, std::uint64_t size, std::uint64_t checksum) {
  if (file_ >= 0) return BrokenProtocol("a file is to be kept before the one before it ends");
  if (!IsTable(name)) return BrokenProtocol("a file is to be kept that is no table");
  const auto found = earlier_.find(name);
  if (found == earlier_.end()) return false;
  const std::string path = PathOf(name);
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const std::optional<std::uint64_t> there = ChecksumOf(file, size);
  const bool is_same = there && *there == checksum;
  // It may have been written by a process that ended before its sync (V5).
  const int failed = is_same && ::fsync(file) != 0 ? errno : 0;
  ::close(file);
  if (failed != 0) return CopyFault("sync", path, failed);
  if (!is_same) return false;  // it is sent anew
  earlier_.erase(found);
  ++files_;
  return true;
}

absl::Status IncomingCopy::BeginFile(std::string_view name, std::uint64_t size) {
  if (file_ >= 0) return BrokenProtocol("a file begins before the one before it ends");
  if (!IsCopyName(name)) return BrokenProtocol("a file has a name that no store gives");
  const std::string path = PathOf(name);
  if (const auto found = earlier_.find(name); found != earlier_.end()) {
    REMORA_RETURN_IF_ERROR(RemoveAll(path));
    earlier_.erase(found);
  }
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file_ < 0) return CopyFault("make", path, errno);
  name_ = name;
  left_ = size;
  checksum_ = 0;
  return absl::OkStatus();
}

absl::Status IncomingCopy::Write(std::span<const std::byte> bytes) {
  if (file_ < 0 || bytes.empty() || bytes.size() > left_) {
    return BrokenProtocol("bytes came that belong to no file");
  }
  left_ -= bytes.size();
  checksum_ = NextCopyChecksum(checksum_, bytes);
  return WriteTo(file_, bytes, PathOf(name_));
}

absl::Status IncomingCopy::EndFile(std::uint64_t checksum) {
  if (file_ < 0 || left_ != 0) return BrokenProtocol("a file ends before all of its bytes came");
  if (checksum != checksum_) {
    return absl::DataLossError(absl::StrCat("copy: ", name_, " was damaged as it came; it is sent anew"));
  }
  const int file = std::exchange(file_, -1);
  const int failed = ::fsync(file) == 0 ? 0 : errno;
  ::close(file);
  if (failed != 0) return CopyFault("sync", PathOf(name_), failed);
  ++files_;
  return absl::OkStatus();
}

absl::Status IncomingCopy::AddGroup(std::uint64_t number, std::uint64_t size, std::uint64_t offset,
                                    std::span<const std::byte> bytes) {
  const std::string path = In(data_dir_, kCopyGroups);
  if (offset == 0 && group_left_ == 0) {
    if (number == 0 || (number_ != 0 && number != number_ + 1) || size == 0 || size > kMaxSentGroup) {
      return BrokenProtocol("a group came that is not the next one");
    }
    number_ = number;
    group_left_ = size;
    const GroupHead head{.number = number, .size = size};
    REMORA_RETURN_IF_ERROR(WriteTo(groups_, std::as_bytes(std::span(&head, 1)), path));
  }
  if (number != number_ || bytes.empty() || bytes.size() > group_left_ || offset != size - group_left_) {
    return BrokenProtocol("a part of a group came that does not follow the one before");
  }
  group_left_ -= bytes.size();
  return WriteTo(groups_, bytes, path);
}

absl::Status IncomingCopy::End(std::uint64_t files, std::string_view name, std::string_view text) {
  if (file_ >= 0 || group_left_ != 0 || files != files_ || !HasPath(PathOf("CURRENT"))) {
    return BrokenProtocol("the copy ends before all of it came");
  }
  for (const std::string& other : earlier_) REMORA_RETURN_IF_ERROR(RemoveAll(PathOf(other)));
  earlier_.clear();
  if (::fsync(groups_) != 0) return CopyFault("sync", In(data_dir_, kCopyGroups), errno);
  REMORA_RETURN_IF_ERROR(CopyFaultOf(WriteSynced(PathOf(name), text)));
  REMORA_RETURN_IF_ERROR(SyncDirectory(In(data_dir_, kCopyFolder)));
  return SyncDirectory(data_dir_);
}

void RemoveIncomingCopy(const std::string& data_dir) {
  // A file that cannot be removed is in nobody's way, and is removed later.
  RemoveAll(In(data_dir, kCopyFolder)).IgnoreError();
  RemoveAll(In(data_dir, kCopyGroups)).IgnoreError();
}

// --- A copy takes the place of the data -----------------------------------------------------------------

absl::Status AcceptCopy(const std::string& data_dir) { return WriteState(data_dir, kAccepted); }

absl::StatusOr<InstalledCopy> InstallCopy(const std::string& data_dir, std::uint64_t commit_log_bytes,
                                          const std::function<absl::Status()>& between) {
  REMORA_ASSIGN_OR_RETURN(std::string state, ReadWhole(In(data_dir, kCopyState)));
  if (state.empty() && !HasPath(In(data_dir, kCopyFolder))) return InstalledCopy::kNone;
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<DataDir> lock, DataDir::Open(data_dir));
  if (state.empty()) {
    return InstalledCopy::kPart;
  }
  if (state == kAccepted && commit_log_bytes == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "copy: ", data_dir,
        " has a copy of a primary's data, which needs a commit log; leave out --commit_log=off"));
  }
  if (state == kAccepted) {
    const absl::Status prepared = Prepare(data_dir, commit_log_bytes);
    if (!prepared.ok()) {
      REMORA_RETURN_IF_ERROR(RemoveAll(In(data_dir, kCopyState)));
      RemoveIncomingCopy(data_dir);
      return absl::AbortedError(absl::StrCat(
          "copy: it cannot be opened, and was removed; the data are as they were: ", prepared.message()));
    }
    REMORA_RETURN_IF_ERROR(between());
    REMORA_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(In(data_dir, kCopyFolder)));
    state = absl::StrCat(AbslView(kReplaces), absl::StrJoin(names, "\n"));
    REMORA_RETURN_IF_ERROR(WriteState(data_dir, state));
    REMORA_RETURN_IF_ERROR(between());
  }
  const std::vector<std::string> lines = absl::StrSplit(state, '\n');
  if (lines.front() + "\n" != kReplaces || lines.size() < 2) {
    return absl::DataLossError(
        absl::StrCat("copy: ", In(data_dir, kCopyState), " is damaged; begin with an empty --data_dir"));
  }
  REMORA_RETURN_IF_ERROR(Replace(data_dir, {lines.begin() + 1, lines.end()}, between));
  return InstalledCopy::kReplaced;
}

}  // namespace remora
