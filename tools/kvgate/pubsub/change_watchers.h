// The watchers of the changes of all servers.
#pragma once

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cluster/cluster_client.h"
#include "client/cluster/topology_reader.h"
#include "client/options.h"
#include "tools/kvgate/cluster/redis_cluster.h"
#include "tools/kvgate/pubsub/change_watcher.h"
#include "tools/kvgate/pubsub/event_flags.h"
#include "tools/kvgate/pubsub/message_hub.h"
#include "tools/kvgate/tracking/tracking_table.h"

namespace remora::kvgate {

/// A watcher for each shard. So the changes of one shard are shown while another one is away.
///
/// Thread safety: all methods may be called from any thread.
class ChangeWatchers {
 public:
  /// Starts a thread for each shard. `cluster`: as for ChangeWatcher::Start. All arguments live longer.
  /// ResourceExhausted: the system does not start a thread.
  static absl::StatusOr<std::unique_ptr<ChangeWatchers>> Start(TopologyReader& topologies,
                                                               const ClientOptions& options,
                                                               const RedisCluster* cluster, MessageHub& hub,
                                                               TrackingTable& tracking);

  /// Returns OK if all servers have changes to watch. Errors as for ClusterClient::Watch.
  static absl::Status CanWatch(ClusterClient& client) { return client.Watch().status(); }

  // As ChangeWatcher's methods of these names, for all shards:
  EventFlags flags() const { return watchers_.front()->flags(); }
  void SetFlags(EventFlags flags) {
    for (const auto& watcher : watchers_) watcher->SetFlags(flags);
  }
  void Update() {
    for (const auto& watcher : watchers_) watcher->Update();
  }
  bool AwaitBegin(std::chrono::milliseconds timeout);
  void Stop() {
    for (const auto& watcher : watchers_) watcher->Stop();
  }

 private:
  using Watchers = std::vector<std::unique_ptr<ChangeWatcher>>;
  explicit ChangeWatchers(Watchers watchers) : watchers_(std::move(watchers)) {}

  const Watchers watchers_;
};

}  // namespace remora::kvgate
