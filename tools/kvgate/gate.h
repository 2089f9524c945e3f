// A gate: its listening sockets, and the threads that serve what they accept.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/base/clock.h"
#include "tools/kvgate/gate_state.h"
#include "tools/kvgate/network/gateway_thread.h"
#include "tools/kvgate/network/listen.h"

namespace remora::kvgate {

/// Accepts clients at all addresses of the gate, and distributes them to its threads.
///
/// Thread safety: none. One thread starts the gate and runs it.
class Gate {
 public:
  /// Listens, and connects each thread to the servers. `clock` lives longer. Outcomes as for
  /// Listener::Listen, AsyncClient::Connect and rdma::ServerTls::Create. With flags for notifications, also
  /// those of ClusterClient::Watch. REQUIRES: the options have a topology.
  static absl::StatusOr<std::unique_ptr<Gate>> Start(GateOptions options,
                                                     const std::vector<ListenAddress>& listen, Reach reach,
                                                     const Clock& clock);

  /// Accepts clients until `stop_fd` is readable. Afterwards no notification comes. Once in each interval, it
  /// beats to the parent process if all threads work (server/main/beats.h); 0: nobody asks for beats.
  absl::Status Run(int stop_fd, std::chrono::milliseconds beat_interval);

 private:
  Gate(GateOptions options, const Clock& clock) : state_(std::move(options), clock), clock_(clock) {}

  /// Starts the watchers of the servers' changes, with the flags of the options.
  absl::Status StartWatchers();
  /// Beats if all threads have answered since the last beat, and asks them anew.
  void BeatIfAllWork();
  /// Accepts one client. Returns how long to wait before the next one, in milliseconds; 0: not at all.
  int Accept(int listening_fd, bool has_tls);

  GateState state_;
  std::shared_ptr<rdma::ServerTls> tls_;  // null: no address has TLS
  const Clock& clock_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<std::unique_ptr<GatewayThread>> threads_;
  std::size_t next_thread_ = 0;
};

}  // namespace remora::kvgate
