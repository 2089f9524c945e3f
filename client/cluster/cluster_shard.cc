#include "client/cluster/cluster_shard.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace remora {

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
  dropped_ += async_->counters();
  dropped_metrics_ += async_->metrics();
  async_.reset();
  return nullptr;
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

absl::Status ClusterShard::Named(const absl::Status& status) const {
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return status;
    default:
      break;
  }
  absl::Status named(status.code(),
                     absl::StrCat("shard ", place_.name, " (", place_.addresses, "): ", status.message()));
  status.ForEachPayload(
      [&](absl::string_view mark, const absl::Cord& payload) { named.SetPayload(mark, payload); });
  return named;
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
