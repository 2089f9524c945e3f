// TCP sockets: addresses, options, and translation of errors.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rdma/address.h"
#include "rdma/unique_fd.h"

namespace remora::rdma {

/// The address of one end of a connection.
struct TcpSocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  /// Returns host and port, as "10.0.0.7:40312" or "[::1]:40312".
  std::string ToString() const;
  /// Returns the host, as "10.0.0.7" or "[::1]".
  std::string HostToString() const;
  std::uint16_t port() const;
  /// Returns whether only this host reaches the address.
  bool is_loopback() const;
  /// Returns whether the address is 0.0.0.0 or `::`.
  bool is_any() const;
  bool operator==(const TcpSocketAddress& other) const;
};

/// Returns whether only one of two sockets with these addresses can listen. `[::]` takes IPv4, too.
bool Overlap(const TcpSocketAddress& one, const TcpSocketAddress& other);

/// Returns the addresses of the host, at least one, in the order in which the caller should try them.
/// `passive`: the addresses are to listen at. Unavailable: the host's name cannot be resolved.
absl::StatusOr<std::vector<TcpSocketAddress>> ResolveTcp(const Address& address, bool passive);

TcpSocketAddress LocalAddressOf(int socket);
TcpSocketAddress PeerAddressOf(int socket);

/// Times after which the system gives up a peer that does not answer.
///   in_flight: the connection ends if the peer's system does not acknowledge sent bytes for so long
///   idle:      after so long without a packet, the system probes the peer's; no answer ends the connection
struct TcpPatience {
  std::chrono::milliseconds in_flight{2000};
  std::chrono::seconds idle{5};
};
inline constexpr TcpPatience kServerPatience{};
/// Patience of a client. Once the server's system has the request, a waiting client has no bytes in flight.
/// So a short `idle` must detect a dead server.
inline constexpr TcpPatience kClientPatience{.idle = std::chrono::seconds(1)};
/// Patience in flight with a peer that is alive and does not receive.
inline constexpr std::chrono::milliseconds kSlowReaderPatience{30'000};

/// The longest sleep of a recv (SO_RCVTIMEO). It is shorter than the times between two looks at an
/// interruption (Clock::LongestSleep), so that a client that can be interrupted needs no poll(2), either.
inline constexpr std::chrono::milliseconds kTcpReceiveTimeout(40);

/// Makes the system send written bytes at once, and detect a dead peer.
absl::Status SetTcpOptions(int socket, const TcpPatience& patience);
/// Makes calls without MSG_DONTWAIT wait from now on; a recv waits at most for kTcpReceiveTimeout.
absl::Status MakeBlocking(int socket);
/// Changes how long the peer's system may leave sent bytes without an acknowledgement.
void SetInFlightPatience(int socket, std::chrono::milliseconds patience);

/// Most addresses of one name that a server listens at.
inline constexpr std::size_t kMaxTcpSockets = 8;

/// Returns sockets that do not listen yet, one for each address of the host. An address that this system does
/// not have is left out if there is another one. An example is ::1 where IPv6 is off. Errors are those of
/// rdma::Listen; FailedPrecondition: `localhost` names an address that other hosts reach.
absl::StatusOr<std::vector<UniqueFd>> BindAtTcp(const Address& address);
/// Does the same for a host that was resolved to `own`.
absl::StatusOr<std::vector<UniqueFd>> BindAtAll(const Address& address,
                                                std::span<const TcpSocketAddress> own);
/// Returns listening, non-blocking sockets, as BindAtTcp does.
absl::StatusOr<std::vector<UniqueFd>> ListenAtTcp(const Address& address);

/// Returns the status for the errno of a call on a socket. `what`: the operation and its peer.
absl::Status TcpStatus(int error, absl::string_view what);

}  // namespace remora::rdma
