#include "rdma/tcp/stream/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
namespace {

constexpr int kTcpBacklog = 128;

absl::Status SetOption(int socket, int level, int name, int value) {
  if (setsockopt(socket, level, name, &value, sizeof(value)) == 0) return absl::OkStatus();
  return TcpStatus(errno, "setsockopt");
}

absl::Status ListenStatus(int error, const Address& address) {
  const std::string name = address.ToString();
  switch (error) {
    case EADDRINUSE:
      return absl::AlreadyExistsError(absl::StrCat(
          name,
          ": the port is in use by another program; choose another one, or end that program (ss -ltnp "
          "names it)"));
    case EADDRNOTAVAIL:
      return absl::FailedPreconditionError(
          absl::StrCat(name, ": no interface of this host has this address (see `ip address`)"));
    case EACCES:
      return absl::PermissionDeniedError(absl::StrCat(
          "listening at ", name,
          ": Permission denied: this user may not listen at that port; choose one from 1024 on"));
    default:
      return TcpStatus(error, absl::StrCat("listening at ", name));
  }
}

}  // namespace

std::string TcpSocketAddress::ToString() const { return absl::StrCat(HostToString(), ":", port()); }

std::string TcpSocketAddress::HostToString() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (storage.ss_family == AF_INET6) {
    const auto* ip = reinterpret_cast<const sockaddr_in6*>(&storage);
    // A socket for IPv6 and IPv4 shows an IPv4 peer as a mapped address; it is printed as IPv4.
    if (IN6_IS_ADDR_V4MAPPED(&ip->sin6_addr)) {
      inet_ntop(AF_INET, &ip->sin6_addr.s6_addr[12], text.data(), text.size());
      return text.data();
    }
    inet_ntop(AF_INET6, &ip->sin6_addr, text.data(), text.size());
    return absl::StrCat("[", text.data(), "]");
  }
  inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, text.data(), text.size());
  return text.data();
}

std::uint16_t TcpSocketAddress::port() const {
  if (storage.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

absl::StatusOr<std::vector<TcpSocketAddress>> ResolveTcp(const Address& address, bool passive) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat(address.ToString(),
                     ": no such host: ", error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, freeaddrinfo);
  std::vector<TcpSocketAddress> addresses;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    TcpSocketAddress& one = addresses.emplace_back();
    std::memcpy(&one.storage, info->ai_addr, info->ai_addrlen);
    one.size = info->ai_addrlen;
  }
  return addresses;
}

TcpSocketAddress LocalAddressOf(int socket) {
  TcpSocketAddress address;
  address.size = sizeof(address.storage);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0) return {};
  return address;
}

TcpSocketAddress PeerAddressOf(int socket) {
  TcpSocketAddress address;
  address.size = sizeof(address.storage);
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0) return {};
  return address;
}

absl::Status SetTcpOptions(int socket, const TcpPatience& patience) {
  const int idle = static_cast<int>(patience.idle.count());
  REMORA_RETURN_IF_ERROR(SetOption(socket, IPPROTO_TCP, TCP_NODELAY, 1));
  REMORA_RETURN_IF_ERROR(SetOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1));
  REMORA_RETURN_IF_ERROR(SetOption(socket, IPPROTO_TCP, TCP_KEEPIDLE, idle));
  REMORA_RETURN_IF_ERROR(SetOption(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1));
  // TCP_USER_TIMEOUT, which is set below, overrides this count (tcp(7)).
  REMORA_RETURN_IF_ERROR(SetOption(socket, IPPROTO_TCP, TCP_KEEPCNT, 2));
  return SetOption(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(patience.in_flight.count()));
}

absl::Status MakeBlocking(int socket) {
  const timeval timeout = {.tv_sec = kTcpReceiveTimeout.count(), .tv_usec = 0};
  const int flags = fcntl(socket, F_GETFL);
  if (flags < 0 || fcntl(socket, F_SETFL, flags & ~O_NONBLOCK) != 0 ||
      setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) != 0) {
    return TcpStatus(errno, "setsockopt");
  }
  return absl::OkStatus();
}

void SetInFlightPatience(int socket, std::chrono::milliseconds patience) {
  SetOption(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(patience.count())).IgnoreError();
}

absl::StatusOr<UniqueFd> BindAtTcp(const Address& address) {
  REMORA_ASSIGN_OR_RETURN(const std::vector<TcpSocketAddress> addresses, ResolveTcp(address, true));
  const TcpSocketAddress& own = addresses.front();
  UniqueFd socket(::socket(own.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return ListenStatus(errno, address);
  // Without this, a restarted server could not bind its port for a minute, because of old connections.
  REMORA_RETURN_IF_ERROR(SetOption(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1));
  if (bind(socket.get(), own.get(), own.size) != 0) return ListenStatus(errno, address);
  return socket;
}

absl::StatusOr<UniqueFd> ListenAtTcp(const Address& address) {
  REMORA_ASSIGN_OR_RETURN(UniqueFd socket, BindAtTcp(address));
  if (listen(socket.get(), kTcpBacklog) != 0) return ListenStatus(errno, address);
  return socket;
}

absl::Status TcpStatus(int error, absl::string_view what) {
  const std::string text = absl::StrCat(what, ": ", std::strerror(error));
  switch (error) {
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(text);
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(absl::StrCat(text, "; raise the limit of descriptors (ulimit -n)"));
    case ENOBUFS:
    case ENOMEM:
      return absl::ResourceExhaustedError(text);
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case ENETRESET:
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
      return absl::UnavailableError(text);
    default:
      return absl::InternalError(text);
  }
}

}  // namespace remora::rdma
