// The users of a gate: the auth tokens of its file (server/connection/auth_tokens.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/connection/auth_tokens.h"

namespace remora::kvgate {

/// A client that has shown a token.
struct User {
  std::string name;
  bool is_read_only = false;
};

/// The users that a tokens file names, or the default user without one.
///
/// Thread safety: const functions may be called by any thread.
class Users {
 public:
  /// Makes users of a gate without tokens: each client is `default`, and may do everything.
  Users() = default;
  /// Reads a file of tokens. Errors of ReadTokens, and InvalidArgument: a token has limits, which a gate does
  /// not apply.
  static absl::StatusOr<Users> Read(const std::string& path);

  /// Returns whether clients have to show a token.
  bool are_required() const { return !tokens_.empty(); }
  /// Returns whether there is a user of this name.
  bool Has(std::string_view name) const;
  /// Returns the user of a new connection. Nothing: it has to show a token first.
  std::optional<User> OfNewClient() const;
  /// Returns the user with this secret, as it stands in the file, and this name; without a name, any. Takes
  /// as long for each secret of the same size.
  std::optional<User> Find(std::optional<std::string_view> name, std::string_view secret) const;

 private:
  std::vector<Token> tokens_;
};

}  // namespace remora::kvgate
