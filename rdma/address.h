// Where a server listens: verbs://HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT or local:///PATH.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace remora::rdma {

/// Kind of a transport. 0 is none.
enum class TransportKind : std::uint8_t { kVerbs = 1, kLocal = 2, kTcp = 3 };

/// A parsed address. For kVerbs and kTcp: host (a name, an IPv4 address, or an IPv6 address without its
/// brackets) and port. For kLocal: the absolute path of a Unix socket.
struct Address {
  TransportKind kind = TransportKind::kLocal;
  std::string host;
  std::uint16_t port = 0;
  std::string path;
  bool tls = false;  // kTcp: TLS 1.3 over TCP, written tls://

  /// Returns the text that ParseAddress takes, with brackets around an IPv6 address (RFC 3986, 3.2.2).
  std::string ToString() const;
};

/// Reads `verbs://HOST:PORT`, `verbs://[IPV6]:PORT`, the same with `tcp://` or `tls://`, or `local:///PATH`.
/// It resolves and opens nothing.
///
/// - InvalidArgument: the text is anything else. An example is an unknown scheme, a relative path,
///   a path longer than a Unix socket's (107 bytes, unix(7)), or a port that is not 1 to 65535. The error
///   names the fault and the forms.
absl::StatusOr<Address> ParseAddress(std::string_view text);

}  // namespace remora::rdma
