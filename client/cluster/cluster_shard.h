// One shard of a cluster's client: the clients of its server, and its name in errors.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/async_client.h"
#include "client/client.h"
#include "client/client_metrics.h"
#include "client/cluster/topology.h"
#include "client/counters.h"
#include "client/options.h"
#include "store/base/clock.h"

namespace remora {

/// Returns whether one of the shard's addresses is tls://.
bool HasTls(const ShardPlace& place);

/// Returns the options of a client for the server of a shard: it must be that shard. The files for TLS are
/// for those shards of a topology that have TLS, if any has.
ClientOptions OptionsOfShard(const Topology& topology, std::size_t shard, ClientOptions options);

/// Returns the status with the shard's name and addresses, unless it is OK or the shard has no name.
absl::Status NameShard(const ShardPlace& place, const absl::Status& status);
/// Codes of a call with one key that are the key's, not the server's.
inline constexpr std::array kCodesOfKey = {absl::StatusCode::kOk, absl::StatusCode::kNotFound,
                                           absl::StatusCode::kAlreadyExists,
                                           absl::StatusCode::kInvalidArgument, absl::StatusCode::kOutOfRange};
/// Returns the status with them, unless its code is of kCodesOfKey.
absl::Status NameShardUnlessOfKey(const ShardPlace& place, const absl::Status& status);

/// The clients of one shard's server. They are connected when they are wanted.
///
/// Thread safety: none.
class ClusterShard {
 public:
  ClusterShard(ShardPlace place, const ClientOptions& options, const Clock& clock);

  const ShardPlace& place() const { return place_; }

  /// Returns the client; null: it was never connected.
  Client* client() const { return client_.get(); }
  /// Connects the client within `timeout`. Outcomes as Client::Connect, with the shard's name. REQUIRES:
  /// there is none.
  absl::Status Connect(std::chrono::milliseconds timeout);
  /// Drops the client, because its server is not the shard's.
  void Drop() { client_.reset(); }
  /// Returns the server's incarnation, random at each of its starts, as of the client's last connection. 0:
  /// there is no client, or it has no connection.
  std::uint64_t incarnation() const;
  /// Returns whether the client READs mapped memory, where a READ is a copy.
  bool is_mapped() const;

  /// Returns the client for calls over several shards, if it is connected; else null.
  AsyncClient* async();
  /// Connects that client. Outcomes as Client::Connect, with the shard's name. REQUIRES: async() was null.
  absl::Status ConnectAsync();

  /// Drops that client, and ends its operations in flight with Cancelled. REQUIRES: there is one.
  void DropAsync();

  absl::Status Named(const absl::Status& status) const { return NameShardUnlessOfKey(place_, status); }

  /// Adds the work of this shard's connections.
  void AddTo(ClientCounters* counters) const;
  void AddTo(ClientMetrics* metrics) const;

 private:
  const ShardPlace place_;
  const ClientOptions options_;
  const Clock& clock_;
  std::unique_ptr<Client> client_;
  // Makes one connection: a call that finds it broken says so, and the next one makes another client.
  std::unique_ptr<AsyncClient> async_;
  ClientCounters dropped_;  // of async clients that were replaced
  ClientMetrics dropped_metrics_;
};

}  // namespace remora
