// Options of a client, and the way to its connections.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "rdma/transport.h"
#include "store/base/clock.h"

namespace remora {

struct ClientOptions {
  /// For Connect, all of it.
  std::chrono::milliseconds connect_timeout{5000};
  /// For each later call; for one with a large value, for each piece of it.
  std::chrono::milliseconds timeout{5000};
  /// For remembering where keys were found or put, allocated at once: 16 bytes for each key. (Beside it, 5
  /// bytes for each MiB of the server's memory.) A GET of a key whose place is known, and still right, is one
  /// READ. 0: none; each GET is a cold one. Unset: none through mapped memory, else
  /// kDefaultLocationCacheBytes.
  std::optional<std::size_t> location_cache_bytes{};
  /// For pages of scans, two halves of up to 256 KiB each. Not touched, nor pinned over verbs, before the
  /// first scan. 0: no scans; else 8 KiB to 8 MiB.
  std::size_t scan_window_bytes = std::size_t{512} << 10;
  /// Whether a call that finds the connection broken makes another to the same address, inside its own
  /// timeout: at once, then again and again (attempts of 1, 4, 16 s, ..., pauses of 4 ms to 1 s), and
  /// goes on there (see Client). The server then keeps what became of this client's last writes.
  bool reconnect = true;
  /// For a server that serves only who has a token (kvserver --tokens): the line that `kvctl token` made, or
  /// the secret out of it. It never goes over the wire: both sides prove that they have it, at each
  /// connection. So a client with a token is served by no server without. Empty: none. With a token for
  /// reading alone, each call that would change something ends with PermissionDenied, and does nothing.
  std::string token{};
};

/// Of a value in registered memory: from so many bytes on, it is sent from there without a copy. (Measured, a
/// PUT of 64 to 512 bytes takes as long either way; of 1 KiB 0.97 as long through a mapping, and 0.99 on
/// soft-RoCE; of 64 KiB 0.97 on both.)
inline constexpr std::size_t kLeastGathered = 1024;

inline constexpr std::size_t kDefaultLocationCacheBytes = std::size_t{8} << 20;

/// Makes a connection that is dialled, and not yet connected, until the deadline. A client calls it for its
/// first connection, and again each time that the one before broke. A status other than Unavailable and
/// DeadlineExceeded ends the attempts.
using Dialer = std::function<absl::StatusOr<std::unique_ptr<rdma::ClientConnection>>(TimePoint deadline)>;

}  // namespace remora
