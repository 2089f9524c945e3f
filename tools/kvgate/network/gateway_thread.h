// A thread of the gate: an event loop with its connections, and one client of each server.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/tcp/stream/tls_context.h"
#include "store/base/clock.h"
#include "tools/kvgate/gate_state.h"
#include "tools/kvgate/keys/blocking_calls.h"
#include "tools/kvgate/keys/server_keys.h"
#include "tools/kvgate/network/channel.h"
#include "tools/kvgate/network/connection.h"
#include "tools/kvgate/network/inbox.h"
#include "tools/kvgate/network/server_links.h"

namespace remora::kvgate {

/// Serves the connections that Adopt hands to it. Reads of all of them are in flight together; their writes
/// share messages. A server that is gone delays only commands that need it: another thread dials anew.
///
/// Thread safety: any thread may call Adopt and has_answered. One thread calls Ask.
class GatewayThread {
 public:
  /// Connects to the servers, and starts the thread. `state` and `clock` live longer. Outcomes as for
  /// AsyncClient::Connect.
  static absl::StatusOr<std::unique_ptr<GatewayThread>> Start(GateState& state, const Clock& clock);
  /// Ends the thread, its connections, and their commands in flight.
  ~GatewayThread();
  GatewayThread(const GatewayThread&) = delete;
  GatewayThread& operator=(const GatewayThread&) = delete;

  /// Takes a connected socket. `tls`: of its address, or null.
  void Adopt(int fd, std::shared_ptr<ClientRecord> record, std::shared_ptr<const rdma::TlsContext> tls);

  /// Asks the thread for an answer, which it gives as soon as it has done what it is at.
  void Ask();
  /// Returns whether it has answered since then.
  bool has_answered() const { return has_answered_.load(std::memory_order_relaxed); }

 private:
  GatewayThread(GateState& state, const Clock& clock) : state_(state), clock_(clock) {}

  absl::Status Prepare();
  void Run();
  /// Does all that is due without waiting. Returns whether there was anything.
  bool Step();
  /// Sends the replies that connections gather.
  void SendGathered();
  /// Waits until a socket, the inbox or the server has something, and serves the sockets.
  void Await(int timeout_ms);
  int TimeoutMs() const;
  void WatchNew(std::unique_ptr<Channel> channel, std::shared_ptr<ClientRecord> record);
  void Serve(std::uint64_t id, std::uint32_t events);
  /// Watches the socket for what the connection wants now, or destroys it if it is over.
  void Settle(Connection& connection);
  void End();

  /// A connection, and the events that its socket is watched for.
  struct Watched {
    std::unique_ptr<Connection> connection;
    std::uint32_t events = 0;
  };

  GateState& state_;
  const Clock& clock_;
  int epoll_fd_ = -1;
  std::unique_ptr<Inbox> inbox_;
  std::unique_ptr<ServerLinks> servers_;
  std::unique_ptr<ServerKeys> keys_;
  std::unique_ptr<BlockingCalls> blocking_;
  std::unordered_map<std::uint64_t, Watched> connections_;  // by the client's ID
  std::vector<std::uint64_t> replied_;                      // IDs whose commands have ended
  std::vector<std::uint64_t> gathering_;                    // IDs that may gather replies
  int gathering_steps_ = 0;                                 // since the first of them
  std::atomic<bool> stopping_{false};
  std::atomic<bool> has_answered_{true};
  std::thread thread_;
};

}  // namespace remora::kvgate
