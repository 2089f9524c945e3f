// TCP sockets: names, options, and what their errors mean.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rdma/address.h"
#include "rdma/unique_fd.h"

namespace remora::rdma {

/// The address of one end.
struct TcpSocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  /// "10.0.0.7:40312" or "[::1]:40312".
  std::string ToString() const;
  /// "10.0.0.7" or "[::1]".
  std::string HostToString() const;
  std::uint16_t port() const;
};

/// All addresses of the host, in the order in which they are to be tried; at least one. `passive`: to listen.
/// Unavailable: there is no such host.
absl::StatusOr<std::vector<TcpSocketAddress>> ResolveTcp(const Address& address, bool passive);

TcpSocketAddress LocalAddressOf(int socket);
TcpSocketAddress PeerAddressOf(int socket);

/// How long a peer that does not answer is taken to be there.
///   in flight: bytes that the peer's system does not acknowledge for so long end the connection
///   idle:      after so long without a packet, the system asks the peer's; no answer ends the connection
struct TcpPatience {
  std::chrono::milliseconds in_flight{2000};
  std::chrono::seconds idle{5};
};
inline constexpr TcpPatience kServerPatience{};
/// A client that waits for an answer has nothing in flight once the server's system has its request.
inline constexpr TcpPatience kClientPatience{.idle = std::chrono::seconds(1)};
/// Of a peer that is there, and takes nothing.
inline constexpr std::chrono::milliseconds kSlowReaderPatience{30'000};

/// The longest sleep of a recv (SO_RCVTIMEO).
inline constexpr std::chrono::seconds kTcpReceiveTimeout(1);

/// Sends at once what is written, and notices a peer that is gone.
absl::Status SetTcpOptions(int socket, const TcpPatience& patience);
/// From now on a call without MSG_DONTWAIT waits; a recv for kTcpReceiveTimeout at most.
absl::Status MakeBlocking(int socket);
/// Changes how long bytes in flight may go without an acknowledgement.
void SetInFlightPatience(int socket, std::chrono::milliseconds patience);

/// A listening, non-blocking socket. Errors as rdma::Listen.
absl::StatusOr<UniqueFd> ListenAtTcp(const Address& address);

/// Translates the errno of a call on a socket. `what`: the operation and its peer.
absl::Status TcpStatus(int error, absl::string_view what);

}  // namespace remora::rdma
