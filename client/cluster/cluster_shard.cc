#include "client/cluster/cluster_shard.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace remora {

bool HasTls(const ShardPlace& place) { return place.addresses.find("tls://") != std::string::npos; }

ClientOptions OptionsOfShard(const Topology& topology, std::size_t shard, ClientOptions options) {
  options.expected_shard = topology.IdentityOfShard(shard);
  if (!HasTls(topology.shards()[shard]) && std::ranges::any_of(topology.shards(), HasTls)) options.tls = {};
  return options;
}

absl::Status NameShard(const ShardPlace& place, const absl::Status& status) {
  if (status.ok() || place.name.empty()) return status;
  absl::Status named(status.code(), absl::StrCat(ShownAs(place), ": ", status.message()));
  status.ForEachPayload(
      [&](absl::string_view mark, const absl::Cord& payload) { named.SetPayload(mark, payload); });
  return named;
}

absl::Status NameShardUnlessOfKey(const ShardPlace& place, const absl::Status& status) {
  return std::ranges::count(kCodesOfKey, status.code()) > 0 ? status : NameShard(place, status);
}

ClusterShard::ClusterShard(ShardPlace place, const ClientOptions& options, const Clock& clock)
    : place_(std::move(place)), options_(options), clock_(clock) {}

absl::Status ClusterShard::Connect(std::chrono::milliseconds timeout) {
  ClientOptions options = options_;
  options.connect_timeout = timeout;
  auto client = Client::Connect(place_.addresses, options, clock_);
  if (!client.ok()) return Named(client.status());
  client_ = *std::move(client);
  return absl::OkStatus();
}

std::uint64_t ClusterShard::incarnation() const { return client_ == nullptr ? 0 : client_->incarnation(); }

bool ClusterShard::is_mapped() const {
  return client_ != nullptr && client_->description().starts_with("local:");
}

AsyncClient* ClusterShard::async() {
  if (async_ == nullptr) return nullptr;
  async_->Poll();  // learns of a connection that broke since
  if (async_->status().ok()) return async_.get();
  DropAsync();
  return nullptr;
}

void ClusterShard::DropAsync() {
  dropped_ += async_->counters();
  dropped_metrics_ += async_->metrics();
  async_.reset();
}

absl::Status ClusterShard::ConnectAsync() {
  ClientOptions options = options_;
  options.connect_timeout = options.timeout;
  options.reconnect = false;
  auto client = AsyncClient::Connect(place_.addresses, options, {}, clock_);
  if (!client.ok()) return Named(client.status());
  async_ = *std::move(client);
  return absl::OkStatus();
}

void ClusterShard::AddTo(ClientCounters* counters) const {
  *counters += dropped_;
  if (client_ != nullptr) *counters += client_->counters();
  if (async_ != nullptr) *counters += async_->counters();
}

void ClusterShard::AddTo(ClientMetrics* metrics) const {
  *metrics += dropped_metrics_;
  if (client_ != nullptr) *metrics += client_->metrics();
  if (async_ != nullptr) *metrics += async_->metrics();
}

}  // namespace remora
