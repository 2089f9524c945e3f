// The address of a Redis, as `kvctl import --from` and `export --to` take it.
//
//   redis://[[NAME]:PASSWORD@]HOST[:PORT][/DATABASE]
//   redis://[[NAME]:PASSWORD@]/PATH[?db=DATABASE]     a Unix socket; redis+unix:// is the same
//
// A NAME and a PASSWORD may have %XX for a byte. HOST may be [IPV6].
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace remora::kvctl {

struct RedisAddress {
  std::string host;  // empty: `path` counts
  int port = 6379;
  std::string path;
  std::string name;  // of the user; empty: the default one
  std::string password;
  int database = 0;

  /// Returns the address without the name and the password.
  std::string ToString() const;
};

/// Returns whether the text is meant as one: it begins with a scheme of Redis.
bool IsRedisAddress(std::string_view text);

/// InvalidArgument: the text is none, or asks for TLS; the message says what to do, and has no password.
absl::StatusOr<RedisAddress> ParseRedisAddress(std::string_view text);

}  // namespace remora::kvctl
