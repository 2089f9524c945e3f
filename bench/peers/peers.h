// Other stores, under the same load: each through the client library that its users take.
//
// Which of them a build has depends on the libraries that CMake found (tools/install-deps peers); RocksDB is
// always there.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "bench/kvbench/load/target.h"

namespace remora::bench {

/// Returns true if the address names another store.
bool IsPeer(std::string_view address);

/// Opens the store that the options name, as OpenTarget does. REQUIRES: IsPeer(options.address).
absl::StatusOr<std::unique_ptr<Target>> OpenPeer(const TargetOptions& options);

/// Where a server of another store listens.
struct PeerAddress {
  std::string path{};  // of a Unix socket; else
  std::string host{};
  int port = 0;
};

/// Parses `SCHEME:///PATH` or `SCHEME://HOST:PORT`. InvalidArgument.
absl::StatusOr<PeerAddress> ParsePeerAddress(std::string_view address);

// One file each (peer_*.cc). Operations with a depth, and durability:
//   redis      hiredis; commands are sent one behind the other, and sent on as replies come; with `batch`,
//              MGET and MSET. rediss:// is the same over TLS. Durability is what its server was told.
//   memcached  libmemcached; Gets of a batch in one memcached_mget, Puts one by one: it has no other way to
//              know of each whether it was done.
//   rocksdb    MultiGet and one WriteBatch. memory: without its log; logged: with it; synced: and synced.
//   lmdb       one transaction for all Gets, one for all Puts. memory and logged: its pages are left to the
//              system to write (MDB_NOSYNC: what a killed process has committed stays); synced: each commit.
absl::StatusOr<std::unique_ptr<Target>> OpenRedis(const TargetOptions& options);
absl::StatusOr<std::unique_ptr<Target>> OpenMemcached(const TargetOptions& options);
absl::StatusOr<std::unique_ptr<Target>> OpenRocksdb(const TargetOptions& options);
absl::StatusOr<std::unique_ptr<Target>> OpenLmdb(const TargetOptions& options);

}  // namespace remora::bench
