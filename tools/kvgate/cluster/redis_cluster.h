// The Redis Cluster that a gate tells its clients of: gates, each with a part of the slots. Any gate serves
// any key. So the division spreads the load, and a key that goes to another node than its own is served.
//
// A client of a Redis Cluster asks each node for what is about all keys, and puts the answers together: it
// scans, counts and watches node by node. So there, a gate tells of the keys of its slots alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cluster/topology.h"
#include "tools/kvgate/network/listen.h"

namespace remora::kvgate {

/// One gate.
struct ClusterNode {
  std::string id;    // 40 hexadecimal digits, by the address: each gate knows the node by the same
  std::string host;  // a name in lower case, or an IP address without brackets
  std::uint16_t port = 0;
  bool has_name = false;  // `host` is a name
  SlotRange slots{};      // of redis_slot.h
};

/// The nodes of a cluster, and which of them this gate is.
///
/// Thread safety: const functions may be called by any thread.
class RedisCluster {
 public:
  /// Bound of the nodes: Redis recommends no larger cluster.
  static constexpr std::size_t kMaxNodes = 1000;

  /// Makes a cluster with an even division of the slots. `nodes`: the addresses of all gates as clients reach
  /// them, with commas between, in any order. `announced`: the one of this gate; empty: the one of `listen`.
  /// InvalidArgument: an address has another form, is that of no host, or comes twice; some have TLS and
  /// others not; or none, or several, are this gate's. The error names the flag.
  static absl::StatusOr<RedisCluster> Create(std::string_view nodes, std::string_view announced,
                                             std::span<const ListenAddress> listen);

  /// Returns the nodes in the order of their slots.
  std::span<const ClusterNode> nodes() const { return nodes_; }
  /// Returns the index of the node that is this gate.
  std::size_t own() const { return own_; }
  /// Returns the node of a slot. REQUIRES: slot < kRedisSlots.
  const ClusterNode& NodeOf(std::uint32_t slot) const;
  /// Returns whether the key's slot is one of this gate.
  bool IsOwn(std::string_view key) const;
  /// Returns this gate's part of a count of all keys. The parts of all nodes make the count, without a look
  /// at the keys.
  std::uint64_t OwnPartOf(std::uint64_t count) const;
  /// Returns whether clients use TLS with all nodes. Otherwise they use it with none.
  bool has_tls() const { return has_tls_; }

 private:
  RedisCluster(std::vector<ClusterNode> nodes, std::size_t own, bool has_tls)
      : nodes_(std::move(nodes)), own_(own), has_tls_(has_tls) {}

  std::vector<ClusterNode> nodes_;
  std::size_t own_;
  bool has_tls_;
};

}  // namespace remora::kvgate
