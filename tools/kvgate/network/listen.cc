#include "tools/kvgate/network/listen.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"

namespace remora::kvgate {
namespace {

constexpr int kBacklog = 511;  // as in Redis

absl::Status FromErrno(int error, std::string_view what) {
  const std::string text = absl::StrCat(AbslView(what), ": ", std::strerror(error));
  if (error == EADDRINUSE) return absl::AlreadyExistsError(text);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(text);
  if (error == EADDRNOTAVAIL) return absl::UnavailableError(text);
  return absl::FailedPreconditionError(text);
}

bool IsLoopbackAddress(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24) == 127;
  }
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

sockaddr_un UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return address;
}

/// Removes the socket of a program that has ended.
void RemoveStale(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const sockaddr_un address = UnixAddress(path);
  const bool is_abandoned =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 &&
      errno == ECONNREFUSED;
  ::close(fd);
  if (is_abandoned) ::unlink(path.c_str());
}

}  // namespace

absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text) {
  constexpr std::string_view kScheme = "redis://";
  constexpr std::string_view kTlsScheme = "rediss://";
  constexpr absl::string_view kForms =
      "an address is redis://HOST:PORT, redis:///PATH or, with TLS, rediss://HOST:PORT; an IPv6 address "
      "stands "
      "in brackets";
  const bool has_tls = text.starts_with(kTlsScheme);
  if (!has_tls && !text.starts_with(kScheme)) {
    return absl::InvalidArgumentError(
        absl::StrCat("address '", AbslView(text), "': it has another form; ", kForms));
  }
  const std::string_view rest = text.substr(has_tls ? kTlsScheme.size() : kScheme.size());
  const bool is_path = rest.starts_with('/');
  const auto address = rdma::ParseAddress(absl::StrCat(is_path ? "local://" : "tcp://", AbslView(rest)));
  if (address.ok() && !(is_path && has_tls)) return ListenAddress{*address, has_tls};
  return absl::InvalidArgumentError(absl::StrCat("address '", AbslView(text), "': it has another form; ",
                                                 kForms, "; a path has up to 107 bytes"));
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Listen(const ListenAddress& listen, Reach reach) {
  std::unique_ptr<Listener> listener(new Listener(listen.has_tls));
  if (listen.address.kind == rdma::TransportKind::kLocal) {
    REMORA_RETURN_IF_ERROR(listener->ListenAtPath(listen.address.path));
  } else {
    REMORA_RETURN_IF_ERROR(listener->ListenAtHost(listen.address, reach));
  }
  return listener;
}

Listener::~Listener() {
  for (const int fd : fds_) ::close(fd);
  if (!path_.empty()) ::unlink(path_.c_str());
}

absl::Status Listener::ListenAtPath(const std::string& path) {
  const std::string name = absl::StrCat("redis://", path);
  RemoveStale(path);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return FromErrno(errno, name);
  fds_.push_back(fd);
  const sockaddr_un address = UnixAddress(path);
  // This user alone may connect: each client of the gate has all rights of the gate.
  const mode_t mask = ::umask(0177);
  const int bound = ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int error = errno;
  ::umask(mask);
  if (bound != 0) return FromErrno(error, name);
  path_ = path;
  return ::listen(fd, kBacklog) == 0 ? absl::OkStatus() : FromErrno(errno, name);
}

absl::Status Listener::ListenAtHost(const rdma::Address& address, Reach reach) {
  const bool is_v6 = address.host.find(':') != std::string::npos;
  const std::string name =
      absl::StrCat(has_tls_ ? "rediss://" : "redis://",
                   is_v6 ? absl::StrCat("[", address.host, "]") : address.host, ":", address.port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (failure != 0) return absl::UnavailableError(absl::StrCat(name, ": ", ::gai_strerror(failure)));
  const absl::Cleanup free_found = [found] { ::freeaddrinfo(found); };
  absl::Status first_failure;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const bool is_open = reach == Reach::kAll || (reach == Reach::kWithTls && has_tls_);
    if (!is_open && !IsLoopbackAddress(*one->ai_addr)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "listen: other machines reach ", name,
          ", and could read and change everything, or see tokens in flight; listen at rediss://HOST:PORT "
          "with --tokens or --listen_tls_ca, at 127.0.0.1, ::1 or a Unix socket or, where the network lets "
          "nobody else through, add --insecure_open"));
    }
    const int fd = ::socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int on = 1;
    if (fd >= 0) fds_.push_back(fd);
    const bool listens =
        fd >= 0 && ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        (one->ai_family != AF_INET6 || ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) == 0) &&
        ::bind(fd, one->ai_addr, one->ai_addrlen) == 0 && ::listen(fd, kBacklog) == 0;
    if (listens) continue;
    first_failure.Update(FromErrno(errno, name));
    if (fd < 0) continue;
    ::close(fd);
    fds_.pop_back();
  }
  // Of a host with addresses of two families, one may not be there.
  return fds_.empty() || absl::IsAlreadyExists(first_failure) ? first_failure : absl::OkStatus();
}

std::string DescribeSocket(int fd, bool peer) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if ((peer ? ::getpeername(fd, generic, &size) : ::getsockname(fd, generic, &size)) != 0) return "?:0";
  if (address.ss_family == AF_UNIX) {
    sockaddr_un own{};
    socklen_t own_size = sizeof(own);
    // A client's end has no name, and Redis shows that of the server.
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) != 0) return "?:0";
    return absl::StrCat(own.sun_path, ":0");
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return absl::StrCat(text.data(), ":", ntohs(v4.sin_port));
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  return absl::StrCat("[", text.data(), "]:", ntohs(v6.sin6_port));
}

}  // namespace remora::kvgate
