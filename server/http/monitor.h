// The answers of a server to programs that watch it: /metrics, /healthz, /readyz, /info.json, /clients.json,
// /followers.json and /segments.json. None has a key, a value or a secret.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/host_check.h"
#include "server/http/http_responder.h"
#include "server/monitoring/client_activity.h"
#include "server/monitoring/follower_activity.h"
#include "store/base/clock.h"
#include "store/server_store.h"

namespace remora {

/// Facts that do not change.
struct MonitorFacts {
  std::string version;
  std::string commit = "unknown";  // of the sources, as cmake/commit.cmake writes it
  std::string shard{};             // IdentityText; empty: the server is no shard
  Durability durability = Durability::kLogged;
  std::uint64_t memory_bytes = 0;
  std::uint32_t max_clients = 0;
};

/// Makes the answers from the exported numbers of a store and its clients.
///
/// Thread safety: Show is for one thread, and the answers for another one. They read exported numbers
/// alone, which costs the server's thread nothing.
class Monitor {
 public:
  /// `clock` outlives this.
  Monitor(MonitorFacts facts, const Clock& clock);
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  /// Shows the metrics of `store`, the clients and the followers from now on, which outlive all further
  /// answers. Until then the server is starting.
  void Show(const ServerStore& store, const ClientActivities& clients, const FollowerActivities& followers) {
    followers_.store(&followers, std::memory_order_release);
    clients_.store(&clients, std::memory_order_release);
    store_.store(&store, std::memory_order_release);
  }

  /// Returns a responder with the endpoints, for requests to these hosts; this outlives it.
  std::unique_ptr<HttpResponder> MakeResponder(HostCheck hosts) const;

 private:
  HttpAnswer Metrics() const;
  HttpAnswer Readiness() const;
  HttpAnswer Info() const;
  HttpAnswer SegmentsJson() const;
  HttpAnswer ClientsJson() const;
  HttpAnswer FollowersJson() const;

  /// Returns why the server is not ready; empty: it is.
  std::string_view WhyNotReady() const;
  /// Empty: there is no store yet.
  std::vector<std::uint64_t> Values() const;
  double UptimeSeconds() const;

  const MonitorFacts facts_;
  const Clock& clock_;
  const TimePoint started_;
  const std::int64_t started_unix_ms_;
  std::atomic<const ServerStore*> store_ = nullptr;
  std::atomic<const ClientActivities*> clients_ = nullptr;
  std::atomic<const FollowerActivities*> followers_ = nullptr;
};

}  // namespace remora
