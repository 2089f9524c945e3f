// Admission to a local address: the processes that may connect to its Unix socket.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace remora::rdma {

/// Choice of the processes that may connect to a local address, and of its socket's file.
struct LocalAccess {
  /// The server's own user and root may connect, and in addition:
  enum class Admits : std::uint8_t {
    kOwner,   // nobody
    kGroup,   // processes of the socket's group, also as a supplementary one
    kAnyone,  // all processes that reach the socket
  };
  Admits admits = Admits::kOwner;
  /// Mode of the socket's file (chmod(2)). Nothing: read and write for those that are admitted, less the
  /// umask(2).
  std::optional<mode_t> mode;
  /// Group of the socket's file. Nothing: as the system has it for a new file in that directory.
  std::optional<gid_t> group;
};

}  // namespace remora::rdma
