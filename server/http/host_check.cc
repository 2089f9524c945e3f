#include "server/http/host_check.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "store/base/absl_view.h"

namespace remora {
namespace {

bool IsIpAddress(const std::string& host) {
  in6_addr ip{};
  return ::inet_pton(AF_INET, host.c_str(), &ip) == 1 || ::inet_pton(AF_INET6, host.c_str(), &ip) == 1;
}

}  // namespace

std::string HostOf(std::string_view field) {
  field = StdView(absl::StripAsciiWhitespace(AbslView(field)));
  std::string host;
  if (field.starts_with('[')) {
    const std::size_t end = std::min(field.find(']'), field.size());
    host = field.substr(1, end - 1);
    const std::string_view behind = field.substr(std::min(end + 1, field.size()));
    if (host.find(':') == std::string::npos || (!behind.empty() && behind[0] != ':')) return {};  // no IPv6
  } else {
    host = field.substr(0, field.find(':'));
  }
  absl::AsciiStrToLower(&host);
  if (host.ends_with('.')) host.pop_back();
  return host;
}

bool IsHostName(std::string_view text) {
  constexpr std::size_t kMaxHostName = 253;  // RFC 1035
  return !text.empty() && text.size() <= kMaxHostName && !text.starts_with('.') &&
         !absl::StrContains(AbslView(text), "..") && std::ranges::all_of(text, [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
         });
}

HostCheck::HostCheck(const std::vector<std::string>& names) : names_{"localhost"} {
  for (const std::string& name : names) names_.push_back(HostOf(name));
}

bool HostCheck::Admits(std::string_view field) const {
  const std::string host = HostOf(field);
  return !host.empty() && (IsIpAddress(host) || std::ranges::find(names_, host) != names_.end());
}

}  // namespace remora
