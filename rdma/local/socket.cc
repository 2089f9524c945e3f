#include "rdma/local/socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
namespace {

constexpr int kBacklog = 128;

sockaddr_un SocketAddress(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  REMORA_CHECK(path.size() < sizeof(address.sun_path));  // checked when the address was made
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

int ConnectSocket(int fd, const std::string& path) {
  const sockaddr_un address = SocketAddress(path);
  return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
}

absl::StatusOr<UniqueFd> MakeSocket(int flags) {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
  if (!fd) return absl::ErrnoToStatus(errno, "cannot make a Unix socket");
  return fd;
}

/// Returns whether a socket without a listener is at `path`; false: nothing is there. Else why `path` is not
/// free.
absl::Status NoSocket(const std::string& path) {
  return absl::AlreadyExistsError(
      absl::StrCat("listen: ", path, " exists and is no socket; remove it, or listen elsewhere"));
}

absl::StatusOr<bool> HasStaleSocket(const std::string& path) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return false;
    return absl::ErrnoToStatus(errno, path);
  }
  if (!S_ISSOCK(status.st_mode)) return NoSocket(path);
  // A listener there is none of this program, because this process has the lock. It may be alive
  // all the same.
  REMORA_ASSIGN_OR_RETURN(const UniqueFd probe, MakeSocket(SOCK_NONBLOCK));
  if (ConnectSocket(probe.get(), path) == 0 || errno != ECONNREFUSED) {
    return absl::AlreadyExistsError(
        absl::StrCat("listen: ", path, " belongs to another program; listen elsewhere"));
  }
  return true;
}

// Leaves `path` free for bind, or says why it is not.
absl::Status ClearStaleSocket(const std::string& path) {
  REMORA_ASSIGN_OR_RETURN(const bool is_stale, HasStaleSocket(path));
  if (!is_stale || unlink(path.c_str()) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("stale socket ", path));
}

template <typename T>
std::span<const std::byte> AsBytes(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

absl::Status SendPacket(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors) {
  REMORA_CHECK(descriptors.size() <= kLocalMaxDescriptors);
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kLocalMaxDescriptors * sizeof(int))> control = {};
  iovec data = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  if (sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return absl::OkStatus();
  if (errno == EPIPE || errno == ECONNRESET) return absl::UnavailableError("handshake: the peer has hung up");
  return absl::ErrnoToStatus(errno, "a packet to a peer");
}

/// Returns the descriptors that came with `message`, each once: they are the caller's.
std::vector<UniqueFd> DescriptorsOf(msghdr& message) {
  std::vector<UniqueFd> descriptors;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; at + sizeof(int) <= header->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + at, sizeof(fd));
      descriptors.emplace_back(fd);
    }
  }
  return descriptors;
}

mode_t ModeFor(LocalAccess::Admits admits) {
  constexpr mode_t kOwner = S_IRUSR | S_IWUSR;
  constexpr mode_t kGroup = S_IRGRP | S_IWGRP;
  constexpr mode_t kOthers = S_IROTH | S_IWOTH;
  if (admits == LocalAccess::Admits::kOwner) return kOwner;
  return admits == LocalAccess::Admits::kGroup ? kOwner | kGroup : kOwner | kGroup | kOthers;
}

/// Gives the socket, which was just made, its group and its mode.
absl::Status SetAccess(const std::string& path, const LocalAccess& access) {
  // Follows no link that somebody may have put in its place.
  const UniqueFd file(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status;
  if (!file || fstat(file.get(), &status) != 0) return absl::ErrnoToStatus(errno, path);
  if (!S_ISSOCK(status.st_mode))
    return absl::AlreadyExistsError(
        absl::StrCat("listen: ", path, " was replaced meanwhile; start the server again"));
  if (access.group && fchownat(file.get(), "", static_cast<uid_t>(-1), *access.group, AT_EMPTY_PATH) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot give the socket ", path, " to group ",
                                                   *access.group, ", of which this user must be a member"));
  }
  if (access.mode) {
    // The umask does not count; it is the whole process's, and other threads make files.
    if (chmod(absl::StrCat("/proc/self/fd/", file.get()).c_str(), *access.mode) == 0) return absl::OkStatus();
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot set the mode of the socket ", path));
  }
  constexpr mode_t kWriters = S_IWGRP | S_IWOTH;
  const mode_t missing = ModeFor(access.admits) & kWriters & ~status.st_mode;
  if (missing == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the umask keeps ", (missing & S_IWGRP) != 0 ? "the group" : "other users", " from ", path,
      ", and --local_access admits them: set the mode of the socket (--socket_mode), or another umask"));
}

absl::Status LockFailure(int error, const std::string& lock_path) {
  const absl::Status status =
      absl::ErrnoToStatus(error, absl::StrCat("cannot make the lock file ", lock_path));
  if (error != ENOENT && error != EACCES) return status;
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(), error == ENOENT ? "; make its directory, or choose another path"
                                                     : "; choose a directory of the server's user"));
}

}  // namespace

absl::StatusOr<UniqueFd> LockSocketPath(const std::string& path) {
  const std::string lock_path = absl::StrCat(path, ".lock");
  UniqueFd fd(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (!fd) return LockFailure(errno, lock_path);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return absl::ErrnoToStatus(errno, absl::StrCat("flock ", lock_path));
    return absl::AlreadyExistsError(absl::StrCat("listen: a server listens at ", path, " already (it holds ",
                                                 lock_path, "); stop it, or choose another path"));
  }
  return fd;
}

absl::Status CheckSocketFolder(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  if (access(folder.c_str(), W_OK | X_OK) != 0) return LockFailure(errno, path + ".lock");
  struct stat status;
  if (lstat(path.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode)) return NoSocket(path);
  return absl::OkStatus();
}

absl::Status CheckSocketPath(const std::string& path) {
  REMORA_ASSIGN_OR_RETURN(const UniqueFd lock, LockSocketPath(path));
  return HasStaleSocket(path).status();
}

absl::StatusOr<UniqueFd> ListenAt(const std::string& path, const LocalAccess& access, FileName* file) {
  REMORA_RETURN_IF_ERROR(ClearStaleSocket(path));
  REMORA_ASSIGN_OR_RETURN(UniqueFd fd, MakeSocket(SOCK_NONBLOCK));
  // Linux gives the file the mode of the socket, less the umask: it is never open to others, not even for a
  // moment.
  const mode_t mode = access.mode.value_or(ModeFor(access.admits));
  if (fchmod(fd.get(), mode) != 0) return absl::ErrnoToStatus(errno, "fchmod of a socket");
  const sockaddr_un address = SocketAddress(path);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make the socket ", path));
  }
  const FileName made = FileAt(path);
  if (const absl::Status set = SetAccess(path, access); !set.ok()) {
    RemoveSocket(path, made);
    return set;
  }
  if (file != nullptr) *file = {.device = made.device, .inode = made.inode, .group = FileAt(path).group};
  if (listen(fd.get(), kBacklog) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("listen at ", path));
  return fd;
}

FileName FileAt(const std::string& path) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0) return {};
  return {.device = status.st_dev, .inode = status.st_ino, .group = status.st_gid};
}

void RemoveSocket(const std::string& path, const FileName& file) {
  if (file != FileName() && FileAt(path) == file) unlink(path.c_str());
}

absl::StatusOr<UniqueFd> ConnectTo(const std::string& path, Duration patience) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(patience).count();
  if (us <= 0)
    return absl::DeadlineExceededError(
        absl::StrCat("connect: no time left to connect to ", path, "; allow more time"));
  REMORA_ASSIGN_OR_RETURN(UniqueFd fd, MakeSocket(0));
  // With a full backlog connect waits, and nothing but this bounds it; poll does not help.
  const timeval timeout = {.tv_sec = us / 1'000'000, .tv_usec = us % 1'000'000};
  REMORA_CHECK(setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) == 0);
  int result;
  do {
    result = ConnectSocket(fd.get(), path);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return fd;
  struct stat status;
  switch (errno) {
    case ENOENT:
      return absl::UnavailableError(
          absl::StrCat("connect: no server listens at ", path, "; start it, or correct the address"));
    case ECONNREFUSED:
      if (stat(path.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode)) {
        return absl::UnavailableError(
            absl::StrCat("connect: ", path, " is no socket; give the address of a server"));
      }
      return absl::UnavailableError(
          absl::StrCat("connect: no server listens at ", path, "; start it, or correct the address"));
    case EPROTOTYPE:  // the socket has another type than ours
      return absl::UnavailableError(
          absl::StrCat("connect: ", path,
                       " is no Remora server, but the socket of another program; give the address of one"));
    case EAGAIN:
      return absl::DeadlineExceededError(absl::StrCat("connect: the server at ", path, " does not answer"));
    case EACCES:
      return absl::PermissionDeniedError(absl::StrCat(
          "connect: Permission denied: this user may not open ", path,
          "; become a member of the socket's group (ls -l shows it; adduser USER GROUP, and log in anew), or "
          "have the server let others in (kvserver --local_access)"));
    default:
      return absl::ErrnoToStatus(errno, absl::StrCat("connect to ", path));
  }
}

ucred PeerOf(int socket) {
  ucred credentials = {};
  socklen_t size = sizeof(credentials);
  REMORA_CHECK(getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0);
  return credentials;
}

bool IsInGroup(int socket, const ucred& peer, gid_t group) {
  if (peer.gid == group) return true;
  std::vector<gid_t> groups(64);
  for (;;) {
    auto size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) == 0) {
      groups.resize(size / sizeof(gid_t));
      return std::ranges::find(groups, group) != groups.end();
    }
    // For more groups, the system says how much they take.
    if (errno != ERANGE || size <= groups.size() * sizeof(gid_t)) return false;
    groups.resize(size / sizeof(gid_t));
  }
}

std::string FolderForEverybody(const std::string& path) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::canonical(std::filesystem::path(path).parent_path(), error);
  if (error) return path;
  for (;; folder = folder.parent_path()) {
    struct stat status;
    if (stat(folder.c_str(), &status) != 0 || (status.st_mode & S_IWOTH) != 0) return folder;
    if (folder == folder.root_path()) return "";
  }
}

absl::Status SendHello(int socket, const LocalHello& hello, std::span<const int> offered) {
  return SendPacket(socket, AsBytes(hello), offered);
}

absl::Status SendReply(int socket, const LocalReply& reply, std::span<const int> descriptors) {
  return SendPacket(socket, AsBytes(reply), descriptors);
}

ReceivedHello ReceiveHello(int socket) {
  ReceivedHello received;
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control;
  iovec data = {&received.hello, sizeof(received.hello)};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  // MSG_TRUNC: recvmsg returns the length of the packet, even if it is longer than a hello.
  received.size = recvmsg(socket, &message, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
  if (received.size < 0) return received;
  received.descriptors = DescriptorsOf(message);
  received.cut = (message.msg_flags & MSG_CTRUNC) != 0;
  return received;
}

absl::StatusOr<ReceivedReply> ReceiveReply(int socket) {
  ReceivedReply received;
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kLocalMaxDescriptors * sizeof(int))> control;
  iovec data = {&received.reply, sizeof(received.reply)};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  ssize_t size;
  do {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    size = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    // A server that rejects before it has read our hello leaves a reset, once, in front of its
    // message.
  } while (size < 0 && (errno == ECONNRESET || errno == EINTR));
  if (size <= 0)
    return absl::UnavailableError("connect: the server hung up during the handshake; see its log");

  received.descriptors = DescriptorsOf(message);
  const LocalReply& reply = received.reply;
  if (size < static_cast<ssize_t>(offsetof(LocalReply, answer)) || reply.magic != kLocalMagic) {
    return absl::UnavailableError(
        "connect: another program than a Remora server listens there; give the address of one");
  }
  if (reply.version != kLocalVersion) {
    return absl::UnavailableError(absl::StrCat("connect: the server speaks version ", reply.version,
                                               " of the local protocol, this client version ", kLocalVersion,
                                               "; update the older one"));
  }
  if (size != sizeof(reply) || (message.msg_flags & MSG_TRUNC) != 0) {
    return absl::InternalError("connect: the server's answer came incomplete");
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    return absl::ResourceExhaustedError(
        "connect: the server's answer came without all its descriptors, as where this process may open no "
        "more: raise its limit (ulimit -n)");
  }
  return received;
}

bool DrainWakeUps(int socket, int at_most) {
  for (int i = 0; i < at_most; ++i) {
    std::byte any;
    const ssize_t size = recv(socket, &any, sizeof(any), MSG_DONTWAIT);
    if (size > 0) continue;
    return size < 0 && (errno == EAGAIN || errno == EINTR);
  }
  return true;
}

}  // namespace remora::rdma
