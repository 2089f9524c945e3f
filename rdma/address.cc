#include "rdma/address.h"

#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"

namespace remora::rdma {
namespace {

constexpr char kVerbsScheme[] = "verbs://";
constexpr char kTcpScheme[] = "tcp://";
constexpr char kTlsScheme[] = "tls://";
constexpr char kLocalScheme[] = "local://";
constexpr std::string_view kLocal = "local:";
// sun_path with its terminating zero (unix(7)).
constexpr std::size_t kMaxPath = sizeof(sockaddr_un::sun_path) - 1;

// Escaped, so that the message is one line of text, whatever is in the address.
absl::Status Fault(const std::string& text, const std::string& fault) {
  return absl::InvalidArgumentError(absl::StrCat("address '", absl::Utf8SafeCHexEscape(text), "': ", fault,
                                                 "; write verbs://HOST:PORT, tcp://HOST:PORT or "
                                                 "tls://HOST:PORT (an IPv6 address in brackets), or "
                                                 "local:///PATH"));
}

std::optional<std::uint16_t> ParsePort(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

absl::StatusOr<Address> ParseHostAndPort(TransportKind kind, const std::string& text, std::string_view rest) {
  const bool bracketed = rest.starts_with('[');
  if (!bracketed && std::ranges::count(rest, ':') > 1)
    return Fault(text, "the IPv6 address is not in brackets");
  const std::size_t begin = bracketed ? 1 : 0;
  const std::size_t end = rest.find(bracketed ? ']' : ':');
  if (bracketed && end == std::string_view::npos) return Fault(text, "there is no closing bracket");
  const std::string_view host = rest.substr(begin, end - begin);
  if (host.empty()) return Fault(text, "there is no host");
  if (bracketed != (host.find(':') != std::string_view::npos)) {
    return Fault(text, "the text in brackets is not an IPv6 address");
  }
  if (host.find_first_of("[]/ \t\r\n") != std::string_view::npos) {
    return Fault(text, absl::StrCat("'", absl::Utf8SafeCHexEscape(AbslView(host)), "' is no host"));
  }
  std::string_view behind = end == std::string_view::npos ? std::string_view() : rest.substr(end + begin);
  if (behind.empty() || behind == ":") return Fault(text, "there is no port");
  if (!behind.starts_with(':')) return Fault(text, "no port follows the brackets");
  behind.remove_prefix(1);
  const std::optional<std::uint16_t> port = ParsePort(behind);
  if (!port) return Fault(text, "the port is not a number from 1 to 65535");
  return Address{.kind = kind, .host = std::string(host), .port = *port, .path = ""};
}

absl::StatusOr<Address> ParseLocal(const std::string& text, std::string_view path) {
  if (!path.starts_with('/')) return Fault(text, "the path is not absolute");
  if (path.ends_with('/')) return Fault(text, "the path names a directory, not a socket");
  if (path.size() > kMaxPath) {
    return Fault(text, absl::StrCat("the path has ", path.size(), " bytes, and a Unix socket's at most ",
                                    kMaxPath, "; shorten it"));
  }
  return Address{.kind = TransportKind::kLocal, .host = "", .port = 0, .path = std::string(path)};
}

}  // namespace

absl::StatusOr<Address> ParseAddress(std::string_view address) {
  const std::string text(address);
  if (text.find('\0') != std::string_view::npos) return Fault(text, "there is a zero byte in it");
  const auto behind = [&](std::string_view scheme) { return std::string_view(text).substr(scheme.size()); };
  if (text.starts_with(kVerbsScheme))
    return ParseHostAndPort(TransportKind::kVerbs, text, behind(kVerbsScheme));
  if (text.starts_with(kTcpScheme)) return ParseHostAndPort(TransportKind::kTcp, text, behind(kTcpScheme));
  if (text.starts_with(kTlsScheme)) {
    REMORA_ASSIGN_OR_RETURN(Address parsed, ParseHostAndPort(TransportKind::kTcp, text, behind(kTlsScheme)));
    parsed.tls = true;
    return parsed;
  }
  if (text.starts_with(kLocalScheme)) return ParseLocal(text, behind(kLocalScheme));
  if (text.starts_with(kLocal)) {
    std::string_view path = behind(kLocal);
    path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
    return Fault(text, absl::StrCat("a local address has three slashes: ", kLocalScheme, "/",
                                    path.empty() ? "PATH" : absl::Utf8SafeCHexEscape(AbslView(path))));
  }
  return Fault(text, text.find("://") == std::string::npos ? "there is no scheme" : "unknown scheme");
}

std::string Address::ToString() const {
  absl::string_view scheme;
  switch (kind) {
    case TransportKind::kLocal:
      return absl::StrCat(kLocalScheme, path);
    case TransportKind::kVerbs:
      scheme = kVerbsScheme;
      break;
    case TransportKind::kTcp:
      scheme = tls ? kTlsScheme : kTcpScheme;
      break;
  }
  const bool ipv6 = host.find(':') != std::string::npos;
  return absl::StrCat(scheme, ipv6 ? "[" : "", host, ipv6 ? "]:" : ":", port);
}

}  // namespace remora::rdma
