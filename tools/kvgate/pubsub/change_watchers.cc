#include "tools/kvgate/pubsub/change_watchers.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "client/client.h"
#include "client/cluster/cluster_shard.h"
#include "store/base/clock.h"
#include "store/base/status_macros.h"

namespace remora::kvgate {

namespace {

/// Connects to a shard where it is now. If it cannot be reached, the next attempt knows its present members.
absl::StatusOr<std::unique_ptr<Client>> ConnectToShard(TopologyReader& topologies, std::size_t shard,
                                                       const ClientOptions& options, const Clock& clock) {
  const Topology topology = topologies.latest();
  auto client =
      Client::Connect(topology.shards()[shard].addresses, OptionsOfShard(topology, shard, options), clock);
  const bool is_gone = absl::IsUnavailable(client.status()) || absl::IsDeadlineExceeded(client.status());
  if (is_gone && topologies.is_of_servers() && !clock.IsInterrupted()) {
    topologies.Read().status().IgnoreError();
  }
  return client;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChangeWatchers>> ChangeWatchers::Start(TopologyReader& topologies,
                                                                      const ClientOptions& options,
                                                                      const RedisCluster* cluster,
                                                                      MessageHub& hub,
                                                                      TrackingTable& tracking) {
  Watchers watchers;
  const Topology topology = topologies.latest();
  for (std::size_t i = 0; i < topology.shards().size(); ++i) {
    const ShardPlace& place = topology.shards()[i];
    const std::string name = place.name.empty() ? "" : ShownAs(place) + ": ";
    const auto connect = [&topologies, i, &options](const Clock& clock) {
      return ConnectToShard(topologies, i, options, clock);
    };
    REMORA_ASSIGN_OR_RETURN(std::unique_ptr<ChangeWatcher> watcher,
                            ChangeWatcher::Start(name, connect, cluster, hub, tracking));
    watchers.push_back(std::move(watcher));
  }
  return std::unique_ptr<ChangeWatchers>(new ChangeWatchers(std::move(watchers)));
}

bool ChangeWatchers::AwaitBegin(std::chrono::milliseconds timeout) {
  using std::chrono::milliseconds;
  const TimePoint until = std::chrono::steady_clock::now() + timeout;
  bool have_begun = true;
  for (const auto& watcher : watchers_) {
    const auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now());
    have_begun &= watcher->AwaitBegin(std::max(left, milliseconds(0)));
  }
  return have_begun;
}

}  // namespace remora::kvgate
