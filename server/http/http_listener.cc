#include "server/http/http_listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rdma/address.h"
#include "store/base/absl_view.h"

namespace remora {
namespace {

// Connections that the server has not accepted yet: as many as the system keeps. It keeps SOMAXCONN of the
// headers at most, and no more than the setting net.core.somaxconn.
constexpr int kHttpBacklog = SOMAXCONN;

bool IsLoopbackSocket(const sockaddr* address) {
  if (address->sa_family == AF_INET6) {
    const in6_addr& ip = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&ip) != 0 || (IN6_IS_ADDR_V4MAPPED(&ip) != 0 && ip.s6_addr[12] == 127);
  }
  const std::uint32_t ip = ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
  return address->sa_family == AF_INET && ip >> 24 == 127;
}

absl::Status HttpListenStatus(int error, std::string_view name) {
  const auto text = [&](std::string_view why) {
    return absl::StrCat("--http=", AbslView(name), ": ", AbslView(why));
  };
  switch (error) {
    case EADDRINUSE:
      return absl::AlreadyExistsError(text("the port is in use by another program; choose another one"));
    case EADDRNOTAVAIL:
      return absl::UnavailableError(text("no interface of this host has this address (see `ip address`)"));
    case EACCES:
      return absl::PermissionDeniedError(
          text("this user may not listen at that port; choose one from 1024 on"));
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      return absl::ResourceExhaustedError(text(std::strerror(error)));
    default:
      return absl::UnavailableError(text(std::strerror(error)));
  }
}

/// `listens`: takes connections. Otherwise the socket is only bound.
absl::StatusOr<HttpListener> BindForHttp(std::string_view text, bool others_may_reach, bool listens) {
  const absl::StatusOr<rdma::Address> parsed = rdma::ParseAddress(absl::StrCat("tcp://", AbslView(text)));
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--http=", AbslView(text), ": is no HOST:PORT or [IPV6]:PORT; try 127.0.0.1:9180"));
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failed =
      ::getaddrinfo(parsed->host.c_str(), std::to_string(parsed->port).c_str(), &hints, &found);
  if (failed != 0) {
    const char* const why = failed == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(failed);
    return absl::UnavailableError(absl::StrCat("--http=", AbslView(text), ": no such host: ", why));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, ::freeaddrinfo);
  int error = EADDRNOTAVAIL;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    if (!others_may_reach && !IsLoopbackSocket(info->ai_addr)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--http=", AbslView(text),
                       ": other machines reach this address, and no token is asked for: choose 127.0.0.1 or "
                       "[::1], or, where the network lets in only monitoring, say --insecure_http"));
    }
    rdma::UniqueFd socket(
        ::socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, info->ai_protocol));
    const int yes = 1;
    if (socket && ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
        ::bind(socket.get(), info->ai_addr, info->ai_addrlen) == 0 &&
        (!listens || ::listen(socket.get(), kHttpBacklog) == 0)) {
      return HttpListener{std::move(socket), absl::StrCat("http://", AbslView(text)), parsed->host};
    }
    error = errno;
  }
  return HttpListenStatus(error, text);
}

}  // namespace

absl::StatusOr<HttpListener> ListenForHttp(std::string_view text, bool others_may_reach) {
  return BindForHttp(text, others_may_reach, /*listens=*/true);
}

absl::Status CheckHttpAddress(std::string_view text, bool others_may_reach) {
  return BindForHttp(text, others_may_reach, /*listens=*/false).status();
}

}  // namespace remora
