#include "server/main/listen_checks.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tools/command_line/place.h"

namespace remora {

bool IsSameAddress(const rdma::Address& one, const rdma::Address& other) {
  if (one.kind != other.kind) return false;
  if (one.kind == rdma::TransportKind::kLocal) return command_line::IsSamePlace(one.path, other.path);
  return one.host == other.host && one.port == other.port;
}

bool IsLoopback(const rdma::Address& address) {
  // A listener makes sure that `localhost` is such an address. Other names may begin with "127.", too.
  if (address.kind == rdma::TransportKind::kLocal || address.host == "localhost") return true;
  in_addr ip4{};
  if (inet_pton(AF_INET, address.host.c_str(), &ip4) == 1) return ntohl(ip4.s_addr) >> 24 == 127;
  in6_addr ip6{};
  return inet_pton(AF_INET6, address.host.c_str(), &ip6) == 1 && IN6_IS_ADDR_LOOPBACK(&ip6);
}

absl::Status CheckWhomItServes(std::span<const rdma::Address> listen, const rdma::TlsFiles& tls,
                               bool is_settled) {
  if (is_settled) return absl::OkStatus();
  for (const rdma::Address& address : listen) {
    const bool asks_for_certificates = address.tls && !tls.ca.empty();
    if (IsLoopback(address) || asks_for_certificates) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--listen: each host that reaches ", address.ToString(),
        " could read and change everything; pass --tokens=FILE (kvctl create_token makes them), or, where no "
        "other host reaches it, --insecure_open"));
  }
  return absl::OkStatus();
}

std::vector<std::string> OpenToThisHost(std::span<const rdma::Address> listen, const rdma::TlsFiles& tls,
                                        bool is_settled) {
  std::vector<std::string> open;
  if (is_settled) return open;
  for (const rdma::Address& address : listen) {
    if (address.kind == rdma::TransportKind::kLocal || !IsLoopback(address)) continue;
    if (!address.tls || tls.ca.empty()) open.push_back(address.ToString());
  }
  return open;
}

absl::Status CheckTls(std::span<const rdma::Address> listen, const rdma::TlsFiles& tls, bool has_tokens) {
  const bool has_address = std::ranges::any_of(listen, &rdma::Address::tls);
  if (!has_address && tls.empty()) return absl::OkStatus();
  if (!has_address) {
    return absl::InvalidArgumentError(
        "--tls_cert, --tls_key, --tls_ca: no --listen has a tls:// address; add --listen=tls://HOST:PORT, or "
        "leave them out");
  }
  if (tls.empty() && !has_tokens) {
    return absl::InvalidArgumentError(
        "--listen: a tls:// address needs --tokens=FILE (each token gives the keys of TLS, too), or a "
        "certificate (--tls_cert=FILE --tls_key=FILE)");
  }
  if (tls.cert.empty() != tls.key.empty() || (tls.cert.empty() && !tls.ca.empty())) {
    return absl::InvalidArgumentError(
        "--tls_cert: --tls_cert and --tls_key come together, and --tls_ca with both");
  }
  return absl::OkStatus();
}

}  // namespace remora
