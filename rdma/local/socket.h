// The Unix sockets of the local transport, and what goes over them.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/local/wire.h"
#include "rdma/local_access.h"
#include "rdma/unique_fd.h"
#include "store/base/clock.h"

namespace remora::rdma {

/// Holds PATH.lock, so that one server at a time owns PATH; dies with its process. AlreadyExists: another
/// holds it. NotFound, PermissionDenied: of the directory.
absl::StatusOr<UniqueFd> LockSocketPath(const std::string& path);

/// Returns the failure that LockSocketPath and ListenAt would have because of the folder of `path`, or of a
/// file there that is no socket. Changes nothing.
absl::Status CheckSocketFolder(const std::string& path);

/// Returns OK if LockSocketPath and ListenAt would find `path` free; else their failure. Changes nothing but
/// PATH.lock, which it makes.
absl::Status CheckSocketPath(const std::string& path);

/// Identity of the file at a path. No other existing file has the same one, even under another
/// name.
struct FileName {
  dev_t device = 0;
  ino_t inode = 0;  // 0: nothing
  gid_t group = 0;  // that it belongs to
  bool operator==(const FileName& other) const { return device == other.device && inode == other.inode; }
};
FileName FileAt(const std::string& path);

/// Returns a listening, non-blocking socket at `path`, with the mode and the group of `access`. It
/// replaces a socket without a listener. *file, unless null, becomes the socket's file.
///
/// REQUIRES: LockSocketPath.
/// - AlreadyExists: anything else is there; it is left alone.
/// - InvalidArgument: the umask keeps those out whom `access` admits.
/// - PermissionDenied: of the directory, or of the group.
absl::StatusOr<UniqueFd> ListenAt(const std::string& path, const LocalAccess& access = {},
                                  FileName* file = nullptr);

/// Returns the folder above `path` in which every user may put files. Empty: there is none, so the owners of
/// these folders decide which servers are there.
std::string FolderForEverybody(const std::string& path);

/// Unlinks `path` if it is still that file, and not what somebody has put in its place.
void RemoveSocket(const std::string& path, const FileName& file);

/// A socket connected to `path`. Unavailable: nobody listens there, or another program, or it is no socket.
/// PermissionDenied. DeadlineExceeded: the server did not accept for `patience`.
absl::StatusOr<UniqueFd> ConnectTo(const std::string& path, Duration patience);

/// Returns the credentials of the process that made the other end.
ucred PeerOf(int socket);

/// Returns whether that process has the group, at the time at which it connected.
bool IsInGroup(int socket, const ucred& peer, gid_t group);

/// Sends without waiting. `offered`: none or one. Unavailable: the peer is gone.
absl::Status SendHello(int socket, const LocalHello& hello, std::span<const int> offered);

struct ReceivedHello {
  /// Size of the packet, which may be longer than a hello. Negative: none has come, see errno. 0:
  /// the peer hung up, or said nothing.
  ssize_t size = 0;
  LocalHello hello;
  std::vector<UniqueFd> descriptors;
  bool cut = false;  // there were more than may be
};
/// Takes what has come, as it is.
ReceivedHello ReceiveHello(int socket);

/// Sends without waiting. Unavailable: the peer is gone.
absl::Status SendReply(int socket, const LocalReply& reply, std::span<const int> descriptors);

struct ReceivedReply {
  LocalReply reply;
  std::vector<UniqueFd> descriptors;
};
/// Takes the reply that has arrived, checked for its size, magic and version. Unavailable: the server hung
/// up, is of another version, or no Remora server. Internal: it talks nonsense.
absl::StatusOr<ReceivedReply> ReceiveReply(int socket);

/// Sends the byte that wakes a sleeping peer. False: it may not have one. If the socket is full, it has; if
/// the peer is gone, others notice it.
inline bool WakePeer(int socket) {
  const std::byte any{0};
  return send(socket, &any, sizeof(any), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(any) || errno == EAGAIN;
}

/// Takes such bytes, as many as `at_most`; a peer could send them for ever. Returns false if the peer hung
/// up.
bool DrainWakeUps(int socket, int at_most = 64);

}  // namespace remora::rdma
