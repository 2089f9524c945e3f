#include "rdma/verbs/address.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <array>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "rdma/verbs/status.h"

namespace remora::rdma {

absl::StatusOr<AddressInfo> ResolveHost(const Address& address, int flags) {
  rdma_addrinfo hints{};
  hints.ai_flags = flags;
  hints.ai_port_space = RDMA_PS_TCP;
  rdma_addrinfo* info = nullptr;
  errno = 0;
  const int error =
      rdma_getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &info);
  if (error == 0) return AddressInfo(info);
  // Either -1 and errno, or a number of getaddrinfo's own. Of those EAI_BADFLAGS is -1, but cannot come.
  if (error == -1 || error == EAI_SYSTEM)
    return StatusFromErrno(errno, "rdma_getaddrinfo", address.ToString());
  return absl::UnavailableError(absl::StrCat(address.ToString(), ": no such host: ", gai_strerror(error)));
}

absl::StatusOr<IdPtr> CreateId(EventChannel& events, absl::string_view address) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(events.get(), &id, nullptr, RDMA_PS_TCP) != 0) {
    return StatusFromErrno(errno, "rdma_create_id", address);
  }
  return IdPtr(id);
}

bool IsWildcard(const sockaddr* address) {
  if (address->sa_family == AF_INET6) {
    return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  }
  return reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr == htonl(INADDR_ANY);
}

std::string AddressText(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET6) {
    const auto* ip = reinterpret_cast<const sockaddr_in6*>(address);
    inet_ntop(AF_INET6, &ip->sin6_addr, text.data(), text.size());
    return absl::StrCat("[", text.data(), "]:", ntohs(ip->sin6_port));
  }
  const auto* ip = reinterpret_cast<const sockaddr_in*>(address);
  inet_ntop(AF_INET, &ip->sin_addr, text.data(), text.size());
  return absl::StrCat(text.data(), ":", ntohs(ip->sin_port));
}

}  // namespace remora::rdma
