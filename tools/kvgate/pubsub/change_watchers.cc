#include "tools/kvgate/pubsub/change_watchers.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "client/client.h"
#include "client/cluster/cluster_shard.h"
#include "store/base/clock.h"
#include "store/base/status_macros.h"

namespace remora::kvgate {

absl::StatusOr<std::unique_ptr<ChangeWatchers>> ChangeWatchers::Start(const Topology& topology,
                                                                      const ClientOptions& options,
                                                                      const RedisCluster* cluster,
                                                                      MessageHub& hub,
                                                                      TrackingTable& tracking) {
  Watchers watchers;
  for (std::size_t i = 0; i < topology.shards().size(); ++i) {
    const ShardPlace& place = topology.shards()[i];
    const std::string name = place.name.empty() ? "" : ShownAs(place) + ": ";
    const auto connect = [&place, of_shard = OptionsOfShard(topology, i, options)](const Clock& clock) {
      return Client::Connect(place.addresses, of_shard, clock);
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
