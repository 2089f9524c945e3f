// The check of a request's Host header. A site can have its own name resolve to this machine (DNS rebinding).
// A browser that shows the site then asks here, and lets the site read the answer.
//
// The browser writes the name of the site into Host. So a server answers only where Host has a name that it
// knows as its own, or an IP address, which nobody can have resolve to another one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace remora {

/// Returns the host of a Host header's value `HOST[:PORT]`, in lower case, without a dot at its end, and, of
/// IPv6, without brackets. Empty: it has none.
std::string HostOf(std::string_view field);

/// Returns whether the text could be the host of a Host header: letters, digits, `-`, `_` and single dots.
bool IsHostName(std::string_view text);

/// The set of hosts for which a server answers.
///
/// Thread safety: any thread.
class HostCheck {
 public:
  /// `names`: of this server, beside localhost and all IP addresses; upper and lower case are the same.
  explicit HostCheck(const std::vector<std::string>& names);

  /// Returns whether a request with this value of the header Host is for this server.
  bool Admits(std::string_view field) const;

 private:
  std::vector<std::string> names_;
};

}  // namespace remora
