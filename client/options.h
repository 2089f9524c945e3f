// Options of a client, and the function type that makes its connections.
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
#include "store/format/cluster/shard_identity.h"

namespace remora {

/// Options of Client and AsyncClient.
struct ClientOptions {
  /// Time limit of Connect as a whole. Several addresses share it: each has its part of the time that is
  /// left.
  std::chrono::milliseconds connect_timeout{5000};
  /// Time limit of each later call; with a large value, of each piece of it.
  std::chrono::milliseconds timeout{5000};
  /// Size of the location cache in bytes, allocated at once. The cache remembers where this client found or
  /// put keys: 16 bytes for each key, and 5 more for each MiB of the server's memory. A GET whose location is
  /// cached and still right is one READ. 0: no cache. Unset: no cache through mapped memory, else
  /// kDefaultLocationCacheBytes. At most kMaxLocationCacheBytes (InvalidArgument), and as much as there is
  /// memory for (ResourceExhausted).
  std::optional<std::size_t> location_cache_bytes{};
  /// Size in bytes of a copy of the server's index (client/mirror/index_mirror.h). It is for a client that
  /// reads keys all over the store: a GET of any key is one READ, also the first one. Connect READs the index
  /// in bulk: 64 READs and 17 MB for 1,000,000 keys. The copy takes 8 to 16 bytes for each key. Later upkeep
  /// takes at most 1 % of the bytes that GETs READ, or 10 % after the index has grown. If the size is too
  /// small for the index, GETs of the other keys take two READs. Clients of a process, on any threads,
  /// share a copy if they name the same address, size and clock. The first one READs the index, and the copy
  /// ends with the last one. With a mirror, the default of location_cache_bytes is 0. 0: no mirror. At most
  /// kMaxIndexMirrorBytes (InvalidArgument), and as much as there is memory for (ResourceExhausted).
  std::size_t index_mirror_bytes = 0;
  /// Size of the window for pages of scans and watches, in bytes: two halves of up to 256 KiB each. Before
  /// the first scan the client does not touch that memory, nor pin it over verbs. 0: no scans and watches.
  /// Other values: 8 KiB to 8 MiB.
  std::size_t scan_window_bytes = std::size_t{512} << 10;
  /// If true, a call that finds the connection broken reconnects within its own timeout, and continues there
  /// (see Client). It tries the same address first, and after a failure the next one of the list. The client
  /// tries at once, then again and again: attempts of 1, 4, 16 s and so on, with pauses of 4 ms to 1 s. For
  /// this the server keeps the outcomes of the client's last writes.
  bool reconnect = true;
  /// Auth token, for a server that requires one (kvserver --tokens): the line that `kvctl create_token`
  /// printed, or the secret in it. The secret never crosses the wire: at each connection both sides prove
  /// that they have it. So a client with a token rejects a server that does not know it. Empty: no token.
  /// With a token that only grants reading, each call that would change something ends with PermissionDenied
  /// and does nothing.
  std::string token{};
  /// If true, the client records the times of its calls, the paths of its GETs, and the bytes of values
  /// (client/client_metrics.h). Each call then reads the clock twice, and does some plain loads and stores;
  /// no locked instruction. If false, the default, each call has one branch for it, which always goes the
  /// same way.
  bool metrics = false;
  /// Files in PEM format for a tls:// address, where all bytes are encrypted (TLS 1.3). `ca` has the
  /// certificates of the authorities that may have signed the server's certificate. That one must be valid
  /// for the host of the address. `cert` and `key` are the client's own, for a server that asks for one.
  /// Without `ca`, both sides derive the keys from the auth token. Each connection reads the files anew.
  rdma::TlsFiles tls{};
  /// Shard that the server must be (store/format/cluster/shard_identity.h). At each connection the client
  /// compares it with the server's greeting, and rejects another server (FailedPrecondition, and the message
  /// names both). ClusterClient sets it, from the topology. All zeros: the client takes any server.
  ShardIdentity expected_shard{};
  /// Makes connections for administration, which a server that serves no clients takes, too: a follower, or a
  /// primary that waits for its followers. They give no rights: those are the auth token's. For Stats, Ping,
  /// Settings and Promote alone: a GET may show a write that is not acknowledged, or miss one that is.
  bool admin_connection = false;
};

/// Returns the machine's monotonic clock, for clients that were given none. It lives as long as the process:
/// a client may be destroyed after `main` has returned.
inline const Clock& DefaultClock() {
  static const SteadyClock* const clock = new SteadyClock;
  return *clock;
}

/// Smallest size, in bytes, of a value in registered memory that a PUT sends from there without a copy.
/// (Measured, without and with a copy a PUT of 64 to 512 bytes takes equally long. Of 1 KiB it takes 0.97 of
/// the time through a mapping, and 0.99 on soft-RoCE. Of 64 KiB it takes 0.97 on both.)
inline constexpr std::size_t kMinZeroCopyBytes = 1024;

/// Default of ClientOptions::location_cache_bytes over verbs and TCP, in bytes.
inline constexpr std::size_t kDefaultLocationCacheBytes = std::size_t{8} << 20;

/// A cache of this size knows the locations of 2^32 keys.
inline constexpr std::size_t kMaxLocationCacheBytes = std::size_t{64} << 30;

inline constexpr std::size_t kMaxIndexMirrorBytes = std::size_t{64} << 30;

/// Returns a connection that is dialled, and not yet connected, before the deadline. A client calls it for
/// its first connection, and again each time that the previous one broke. A status other than Unavailable and
/// DeadlineExceeded ends the attempts. The client owns the connection.
using Dialer = std::function<absl::StatusOr<std::unique_ptr<rdma::ClientConnection>>(TimePoint deadline)>;

}  // namespace remora
