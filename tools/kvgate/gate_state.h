// State of a gate that its threads share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "client/cluster/topology.h"
#include "client/cluster/topology_reader.h"
#include "client/options.h"
#include "rdma/tls.h"
#include "store/base/clock.h"
#include "tools/kvgate/cluster/redis_cluster.h"
#include "tools/kvgate/keys/scan_cursors.h"
#include "tools/kvgate/network/client_registry.h"
#include "tools/kvgate/pubsub/change_watchers.h"
#include "tools/kvgate/pubsub/event_flags.h"
#include "tools/kvgate/pubsub/message_hub.h"
#include "tools/kvgate/tracking/tracking_table.h"
#include "tools/kvgate/users.h"

namespace remora::kvgate {

/// Settings of the command line.
struct GateOptions {
  std::vector<std::string> listen{};
  std::string server{};                   // its addresses, or where the topology comes from
  std::optional<Topology> topology{};     // of the one server, or of a cluster, at the start
  std::optional<RedisCluster> cluster{};  // that clients are told of; nothing: the gate is one Redis
  ClientOptions client{};
  int threads = 1;
  std::size_t max_clients = 10'000;
  std::string version{};  // of the program
  std::string tokens_file{};
  Users users{};         // of that file
  rdma::TlsFiles tls{};  // for addresses with TLS
  EventFlags notify{};   // of keyspace notifications, at the start

  /// Returns whether this gate tells of the key where it tells of all keys.
  bool TellsOf(std::string_view key) const { return !cluster || cluster->IsOwn(key); }
  /// Returns how many of `count` keys this gate tells of.
  std::uint64_t PartOf(std::uint64_t count) const { return cluster ? cluster->OwnPartOf(count) : count; }
  /// Returns the mode, as Redis calls it.
  std::string_view mode() const { return cluster ? "cluster" : "standalone"; }
};

/// Options, counters and registries that all threads of a gate use.
///
/// Thread safety: all members may be used from any thread.
struct GateState {
  /// `clock` lives longer. REQUIRES: the options have a topology.
  GateState(GateOptions gate_options, const Clock& clock)
      : options(std::move(gate_options)),
        max_clients(options.max_clients),
        topologies(*options.topology, options.client, clock),
        hub(clock),
        tracking(clock) {}

  const GateOptions options;
  std::atomic<std::size_t> max_clients;
  TopologyReader topologies;                  // the servers of the options, as they are now
  std::atomic<std::uint64_t> connections{0};  // accepted, over all time
  std::atomic<std::uint64_t> rejected{0};     // for max_clients
  std::atomic<std::uint64_t> commands{0};     // processed
  std::int64_t started_ms = 0;                // Clock::UnixMillis
  const std::uint64_t run = std::random_device()() | std::uint64_t{std::random_device()()} << 32;
  ClientRegistry clients;
  ScanCursors cursors;
  MessageHub hub;
  TrackingTable tracking;
  std::unique_ptr<ChangeWatchers> watchers;  // set before the first client
  std::atomic<std::size_t> queued_bytes{0};  // of all transactions that are not executed yet
};

}  // namespace remora::kvgate
