// --http: a Monitor, and the thread that serves it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/http/http_server.h"
#include "server/http/monitor.h"
#include "store/base/clock.h"

namespace remora {

/// A Monitor with the HTTP server that serves its answers.
///
/// Thread safety: one thread.
class MonitorService {
 public:
  /// Descriptors that it takes at most.
  static constexpr std::size_t kDescriptors = HttpServer::kDescriptors;

  struct Options {
    std::string address;               // HOST:PORT
    bool others_may_reach = false;     // see ListenForHttp
    std::vector<std::string> hosts{};  // names of the server beside HOST; see HostCheck
  };

  /// Serves at the address; errors as ListenForHttp and HttpServer::Start. `clock` outlives it.
  static absl::StatusOr<std::unique_ptr<MonitorService>> Start(const Options& options, MonitorFacts facts,
                                                               const Clock& clock);

  /// Shows the metrics of `store`, the clients and the followers, which outlive this.
  void Show(const ServerStore& store, const ClientActivities& clients, const FollowerActivities& followers) {
    monitor_->Show(store, clients, followers);
  }
  /// Returns the address, for log lines.
  const std::string& address() const { return address_; }

 private:
  MonitorService() = default;

  std::string address_;
  std::unique_ptr<Monitor> monitor_;
  std::unique_ptr<HttpServer> server_;  // ends first
};

}  // namespace remora
