#include "tools/kvctl/redis/address.h"

#include <charconv>
#include <cstddef>
#include <optional>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"

namespace remora::kvctl {
namespace {

constexpr std::string_view kTcp = "redis://";
constexpr std::string_view kUnix = "redis+unix://";
constexpr std::string_view kTls = "rediss://";
constexpr std::size_t kLongestPath = 107;

absl::Status Bad(std::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("address: that of a Redis is redis://[[NAME]:PASSWORD@]HOST[:PORT][/DATABASE] or "
                   "redis:///PATH[?db=DATABASE]; ",
                   AbslView(why)));
}

std::optional<int> NumberOf(std::string_view text, int most) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || read != end || number < 0 || number > most) return std::nullopt;
  return number;
}

/// Returns the text with the bytes that %XX stand for. Nothing: a % is not followed by two digits.
std::optional<std::string> Unescaped(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      bytes.push_back(text[i]);
      continue;
    }
    unsigned byte = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto [read, error] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (digits.size() != 2 || error != std::errc() || read != digits.data() + 2) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    i += 2;
  }
  return bytes;
}

absl::Status TakeUser(std::string_view text, RedisAddress* address) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return Bad("a colon stands before the password, also without a name");
  const std::optional<std::string> name = Unescaped(text.substr(0, colon));
  const std::optional<std::string> password = Unescaped(text.substr(colon + 1));
  if (!name || !password) return Bad("a % in the name or password stands before two hexadecimal digits");
  address->name = *name;
  address->password = *password;
  return absl::OkStatus();
}

absl::Status TakeDatabase(std::string_view text, RedisAddress* address) {
  constexpr int kMax = 1'000'000;
  const std::optional<int> database = NumberOf(text, kMax);
  // Not quoted: behind a / that is not escaped, it may be the end of a password.
  if (!database) {
    return Bad(
        "a database is a number up to 1000000; a / : or @ of a password is written as %2F, %3A or %40");
  }
  address->database = *database;
  return absl::OkStatus();
}

absl::Status TakePath(std::string_view text, RedisAddress* address) {
  constexpr std::string_view kDatabase = "?db=";
  const std::size_t query = text.find('?');
  const std::string_view path = text.substr(0, query);
  if (path.size() < 2 || path.size() > kLongestPath) return Bad("the path of a socket has 2 to 107 bytes");
  address->path = path;
  if (query == std::string_view::npos) return absl::OkStatus();
  const std::string_view rest = text.substr(query);
  if (!rest.starts_with(kDatabase)) return Bad("behind the path may stand ?db=DATABASE alone");
  return TakeDatabase(rest.substr(kDatabase.size()), address);
}

absl::Status TakeHost(std::string_view text, RedisAddress* address) {
  const std::size_t slash = text.find('/');
  std::string_view host = text.substr(0, slash);
  if (slash != std::string_view::npos && slash + 1 < text.size()) {
    if (absl::Status taken = TakeDatabase(text.substr(slash + 1), address); !taken.ok()) return taken;
  }
  std::size_t colon = host.rfind(':');
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == std::string_view::npos) return Bad("an IPv6 address stands between brackets");
    colon = host.find(':', end);
    if (end + 1 != (colon == std::string_view::npos ? host.size() : colon)) {
      return Bad("behind the brackets stands :PORT");
    }
    address->host = host.substr(1, end - 1);
  } else {
    address->host = host.substr(0, colon);
  }
  if (address->host.empty()) return Bad("the host is missing");
  if (colon == std::string_view::npos) return absl::OkStatus();
  const std::optional<int> port = NumberOf(host.substr(colon + 1), 65535);
  if (!port || *port == 0) return Bad("a port is a number from 1 to 65535");
  address->port = *port;
  return absl::OkStatus();
}

}  // namespace

std::string RedisAddress::ToString() const {
  if (host.empty())
    return absl::StrCat("redis://", path, database == 0 ? "" : absl::StrCat("?db=", database));
  const bool is_v6 = host.find(':') != std::string::npos;
  return absl::StrCat("redis://", is_v6 ? "[" : "", host, is_v6 ? "]" : "", ":", port,
                      database == 0 ? "" : absl::StrCat("/", database));
}

bool IsRedisAddress(std::string_view text) {
  return text.starts_with(kTcp) || text.starts_with(kUnix) || text.starts_with(kTls);
}

absl::StatusOr<RedisAddress> ParseRedisAddress(std::string_view text) {
  if (text.starts_with(kTls)) {
    return Bad(
        "kvctl speaks no TLS to a Redis: let stunnel or `ssh -L` carry a port of this machine, and "
        "name that");
  }
  if (!IsRedisAddress(text)) return Bad("this has another scheme");
  const bool is_unix = text.starts_with(kUnix);
  text.remove_prefix(is_unix ? kUnix.size() : kTcp.size());
  RedisAddress address;
  // A password may have any character but these, which %XX stands for.
  const std::size_t at = text.substr(0, text.find('/')).rfind('@');
  if (at != std::string_view::npos) {
    if (absl::Status taken = TakeUser(text.substr(0, at), &address); !taken.ok()) return taken;
    text.remove_prefix(at + 1);
  }
  if (is_unix && !text.starts_with('/')) return Bad("the path of a socket begins with /");
  const absl::Status taken = text.starts_with('/') ? TakePath(text, &address) : TakeHost(text, &address);
  if (!taken.ok()) return taken;
  return address;
}

}  // namespace remora::kvctl
