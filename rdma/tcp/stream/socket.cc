#include "rdma/tcp/stream/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

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

/// Binds a new socket to the address. Returns the errno of a failure, else 0.
int BindAt(const TcpSocketAddress& own, UniqueFd* bound) {
  const int family = own.storage.ss_family;
  UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno;
  const auto set = [&](int level, int name, int value) {
    return setsockopt(socket.get(), level, name, &value, sizeof(value)) == 0;
  };
  // Without SO_REUSEADDR, a restarted server could not bind its port for a minute, because of old
  // connections. `[::]` takes IPv4, too, whatever the system's default is (net.ipv6.bindv6only).
  if (!set(SOL_SOCKET, SO_REUSEADDR, 1) ||
      (family == AF_INET6 && !set(IPPROTO_IPV6, IPV6_V6ONLY, own.is_any() ? 0 : 1)) ||
      bind(socket.get(), own.get(), own.size) != 0) {
    return errno;
  }
  *bound = std::move(socket);
  return 0;
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

bool TcpSocketAddress::is_loopback() const {
  if (storage.ss_family == AF_INET6) {
    const in6_addr& ip = reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&ip) || (IN6_IS_ADDR_V4MAPPED(&ip) && ip.s6_addr[12] == 127);
  }
  const std::uint32_t ip = ntohl(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr);
  return storage.ss_family == AF_INET && ip >> 24 == 127;
}

bool TcpSocketAddress::is_any() const {
  if (storage.ss_family == AF_INET6) {
    return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
  }
  return reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr == htonl(INADDR_ANY);
}

bool TcpSocketAddress::operator==(const TcpSocketAddress& other) const {
  return size == other.size && std::memcmp(&storage, &other.storage, size) == 0;
}

bool Overlap(const TcpSocketAddress& one, const TcpSocketAddress& other) {
  if (one.port() != other.port()) return false;
  const auto takes = [](const TcpSocketAddress& any, const TcpSocketAddress& own) {
    return any.is_any() &&
           (any.storage.ss_family == AF_INET6 || own.storage.ss_family == any.storage.ss_family);
  };
  return one.HostToString() == other.HostToString() || takes(one, other) || takes(other, one);
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
  const timeval timeout = {.tv_sec = 0, .tv_usec = std::chrono::microseconds(kTcpReceiveTimeout).count()};
  static_assert(kTcpReceiveTimeout < std::chrono::seconds(1));
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

absl::StatusOr<std::vector<UniqueFd>> BindAtTcp(const Address& address) {
  REMORA_ASSIGN_OR_RETURN(const std::vector<TcpSocketAddress> own, ResolveTcp(address, true));
  return BindAtAll(address, own);
}

absl::StatusOr<std::vector<UniqueFd>> BindAtAll(const Address& address,
                                                std::span<const TcpSocketAddress> own) {
  std::vector<UniqueFd> sockets;
  int missing = 0;  // errno of the first address that this system does not have
  for (auto one = own.begin(); one != own.end(); ++one) {
    // A server serves `localhost` without tokens.
    if (address.host == "localhost" && !one->is_loopback()) {
      return absl::FailedPreconditionError(
          absl::StrCat("listening at ", address.ToString(), ": localhost is ", one->HostToString(),
                       " here, which other hosts reach; correct /etc/hosts, or listen at 127.0.0.1"));
    }
    // /etc/hosts may name an address twice.
    if (std::any_of(own.begin(), one, [&](const TcpSocketAddress& other) { return other == *one; })) continue;
    UniqueFd socket;
    if (const int error = BindAt(*one, &socket); error == 0) {
      sockets.push_back(std::move(socket));
    } else if (error != EADDRNOTAVAIL && error != EAFNOSUPPORT) {
      return ListenStatus(error, address);
    } else if (missing == 0) {
      missing = error;
    }
  }
  if (sockets.empty()) return ListenStatus(missing, address);
  if (sockets.size() <= kMaxTcpSockets) return sockets;
  return absl::InvalidArgumentError(absl::StrCat(
      "listening at ", address.ToString(), ": the name has ", sockets.size(),
      " addresses on this host, and a server listens at ", kMaxTcpSockets, " of them; name these"));
}

absl::StatusOr<std::vector<UniqueFd>> ListenAtTcp(const Address& address) {
  REMORA_ASSIGN_OR_RETURN(std::vector<UniqueFd> sockets, BindAtTcp(address));
  for (const UniqueFd& socket : sockets) {
    if (listen(socket.get(), kTcpBacklog) != 0) return ListenStatus(errno, address);
  }
  return sockets;
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
