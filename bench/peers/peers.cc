#include "bench/peers/peers.h"

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "tools/command_line/number_text.h"

namespace remora::bench {
namespace {

using Opener = absl::StatusOr<std::unique_ptr<Target>> (*)(const TargetOptions& options);

struct Peer {
  std::string_view name;
  bool is_server;
  Opener open;  // null: not in this build
  const char* package;
};

#ifdef REMORA_BENCH_REDIS
constexpr Opener kOpenRedis = &OpenRedis;
#else
constexpr Opener kOpenRedis = nullptr;
#endif
#ifdef REMORA_BENCH_MEMCACHED
constexpr Opener kOpenMemcached = &OpenMemcached;
#else
constexpr Opener kOpenMemcached = nullptr;
#endif
#ifdef REMORA_BENCH_LMDB
constexpr Opener kOpenLmdb = &OpenLmdb;
#else
constexpr Opener kOpenLmdb = nullptr;
#endif

constexpr Peer kPeers[] = {
    {"redis", true, kOpenRedis, "libhiredis-dev"},
    {"rediss", true, kOpenRedis, "libhiredis-dev"},
    {"memcached", true, kOpenMemcached, "libmemcached-dev"},
    {kRocksdbTarget, false, &OpenRocksdb, "librocksdb-dev"},
    {kLmdbTarget, false, kOpenLmdb, "liblmdb-dev"},
};

const Peer* PeerOf(std::string_view address) {
  for (const Peer& peer : kPeers) {
    const bool fits =
        peer.is_server ? address.starts_with(std::string(peer.name) + "://") : address == peer.name;
    if (fits) return &peer;
  }
  return nullptr;
}

}  // namespace

bool IsPeer(std::string_view address) { return PeerOf(address) != nullptr; }

absl::StatusOr<std::unique_ptr<Target>> OpenPeer(const TargetOptions& options) {
  const Peer& peer = *PeerOf(options.address);
  if (peer.open != nullptr) return peer.open(options);
  return absl::UnimplementedError(absl::StrCat("target: this kvbench was built without ", peer.package,
                                               ": tools/install-deps peers, then configure and build again"));
}

absl::StatusOr<PeerAddress> ParsePeerAddress(std::string_view address) {
  const std::string_view place = address.substr(address.find("://") + 3);
  if (place.starts_with('/') && place.size() > 1) return PeerAddress{.path = std::string(place)};
  const std::size_t colon = place.rfind(':');
  const bool has_host = colon != std::string_view::npos && colon > 0;
  const command_line::NumberRule ports{.least = 1, .most = 65535};
  const auto port = has_host ? ports.Read(place.substr(colon + 1)) : std::nullopt;
  if (!port) {
    return absl::InvalidArgumentError(
        absl::StrCat("address: '", AbslView(address), "' should end in ://HOST:PORT or :///PATH"));
  }
  return PeerAddress{.host = std::string(place.substr(0, colon)), .port = static_cast<int>(*port)};
}

}  // namespace remora::bench
