// The topology of a cluster's client, as it is read anew.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/cluster/cluster_client.h"
#include "client/cluster/cluster_shard.h"
#include "client/cluster/many_keys.h"
#include "client/cluster/topology_source.h"

namespace remora {
namespace {

// After a server was silent: for an answer of others, and before they are asked again.
constexpr std::chrono::milliseconds kAskPatience{500};
constexpr std::chrono::seconds kSilencePause{1};

}  // namespace

bool ClusterClient::Refresh() {
  const std::string& source = topology_.path();
  if (source.empty()) return true;
  if (!IsOfServers(source)) {
    absl::StatusOr<Topology> fresh = Topology::Read(source);
    return !fresh.ok() || (fresh->HasShardsOf(topology_) && Take(*std::move(fresh)));
  }
  // A round trip for each shard that is connected: the two between which slots have moved know of it first.
  std::optional<Topology> latest;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (clients_[i] == nullptr || shards_[i]->incarnation() == 0) continue;
    const absl::StatusOr<std::string> text = clients_[i]->ReadTopology();
    if (!text.ok()) continue;
    absl::StatusOr<Topology> fresh = TopologyInAnswer(*text, shards_[i]->place().addresses, source);
    if (!fresh.ok() || (latest && latest->revision() >= fresh->revision())) continue;
    latest.emplace(*std::move(fresh));
  }
  if (latest) return Take(*std::move(latest));
  return AskOthers();
}

bool ClusterClient::AskOthers() {
  const std::string source = topology_.path();
  const absl::StatusOr<std::vector<std::string>> servers = ServersOf(topology_);
  if (!servers.ok()) return true;
  ClientOptions options = options_;
  options.connect_timeout = std::min(kAskPatience, timeout_);
  absl::StatusOr<Topology> fresh = AskForTopology(*servers, source, options, clock_);
  return !fresh.ok() || Take(*std::move(fresh));
}

bool ClusterClient::Take(Topology fresh) {
  if (!fresh.HasNamesOf(topology_)) return false;
  // A server may tell an earlier revision than another server has told before.
  if (IsOfServers(topology_.path()) && fresh.revision() < topology_.revision()) return true;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const ShardPlace& place = fresh.shards()[i];
    if (place.addresses == shards_[i]->place().addresses) continue;
    // Scans of the client before go on with it.
    replaced_.push_back(std::move(shards_[i]));
    shards_[i] = std::make_unique<ClusterShard>(place, OptionsOfShard(fresh, i, options_), clock_);
    clients_[i] = nullptr;
  }
  if (!fresh.HasDivisionOf(topology_)) ++divisions_;
  topology_ = std::move(fresh);
  return true;
}

void ClusterClient::NoteSilence(const absl::Status& status) {
  if (!IsServerGone(status) || !IsOfServers(topology_.path())) return;
  const TimePoint now = clock_.Now();
  if (now < next_question_ || clock_.IsInterrupted()) return;
  next_question_ = now + kSilencePause;
  AskOthers();
}

}  // namespace remora
