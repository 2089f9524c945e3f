// The listening sockets, and the clients that have connected and not yet sent their whole hello.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rdma/tcp/server/events.h"
#include "rdma/tcp/stream/tls_stream.h"
#include "rdma/tcp/stream/wire.h"
#include "rdma/tls.h"
#include "store/base/clock.h"

namespace remora::rdma {

/// Accepts clients, receives their hellos, and reports them as requests to the server thread. With TLS, it
/// also does their handshakes.
///
/// Thread safety: one NIC thread calls all functions, except those in the section of the server thread.
class TcpAcceptor {
 public:
  /// Most clients whose hello is incomplete. One more makes the acceptor drop the oldest.
  static constexpr std::size_t kMaxHalfOpen = 64;
  /// Most requests that wait for the server thread. More clients wait in the system's backlog.
  static constexpr std::size_t kMaxWaiting = 16;

  static absl::StatusOr<std::unique_ptr<TcpAcceptor>> Create(std::vector<UniqueFd> listening,
                                                             TcpEvents& events, const Clock& clock,
                                                             std::shared_ptr<ServerTls> tls = nullptr);
  TcpAcceptor(const TcpAcceptor&) = delete;
  TcpAcceptor& operator=(const TcpAcceptor&) = delete;

  /// Returns a descriptor that is readable when HandleEvents has something to do.
  int fd() const { return epoll_.get(); }
  void HandleEvents();
  /// Returns the time at which HandleEvents must be called at the latest. Nothing: there is no deadline.
  std::optional<TimePoint> NextDeadline() const;

  // --- The server thread ---
  /// Notes that the server thread has taken a request, so that there may be space for more.
  void ReturnCapacity();
  /// Returns the number of clients that the acceptor dropped before they became requests.
  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  /// Returns how many of these the acceptor rejected because the process had no descriptor left.
  std::uint64_t without_descriptor() const { return without_descriptor_.load(std::memory_order_relaxed); }

 private:
  struct HalfOpen {
    UniqueFd socket;
    TcpSocketAddress peer;
    TimePoint since;
    std::size_t heard = 0;  // bytes of `hello` that have arrived
    TcpHello hello;
    std::unique_ptr<TlsStream> tls = nullptr;  // null without TLS
    bool wants_to_send = false;                // the socket has not taken all of the handshake
  };
  enum class HelloState { kWaits, kComplete, kDropped };

  TcpAcceptor(std::vector<UniqueFd> listening, TcpEvents& events, const Clock& clock,
              std::shared_ptr<ServerTls> tls)
      : listening_(std::move(listening)), tcp_events_(events), clock_(clock), tls_(std::move(tls)) {}

  /// Accepts one client of a listening socket. False: no client waits, or the acceptor accepts none now.
  bool AcceptOne(int listening);
  void RejectOne(int listening);
  HelloState ReceiveHello(HalfOpen& client);
  /// Goes on with the TLS handshake. kComplete: it is done.
  HelloState ShakeTls(HalfOpen& client);
  /// Reports the reason to the server thread, and makes sure that the client can receive what was sent to it.
  /// Returns kDropped.
  HelloState Reject(HalfOpen& client, absl::string_view why);
  void Drop(std::list<HalfOpen>::iterator client);
  bool SetListening(bool on);

  const std::vector<UniqueFd> listening_;  // one for each address of the host
  TcpEvents& tcp_events_;
  const Clock& clock_;
  const std::shared_ptr<ServerTls> tls_;  // null without TLS
  UniqueFd epoll_;  // event data: null for a listening socket, else the address of a half-open client
  UniqueFd spare_;
  std::list<HalfOpen> half_open_;  // oldest first
  std::atomic<bool> is_full_ = false;
  std::atomic<std::uint64_t> dropped_ = 0;
  std::atomic<std::uint64_t> without_descriptor_ = 0;
};

}  // namespace remora::rdma
