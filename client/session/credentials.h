// The auth token of a client (ClientOptions::token).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace remora {

/// Returns the secret of an auth token. `text` is the token's line in the server's file (`kvctl
/// create_token`), or the secret alone. Empty lines do not count, nor does text behind a #. For no text at
/// all the secret is "". InvalidArgument: the text has no token, or several.
absl::StatusOr<std::string> SecretOfToken(std::string_view text);

/// Returns the contents of a file for ClientOptions::token. Errors as for SecretOfToken and
/// rdma::ReadSecretFile, with the file's name.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);

}  // namespace remora
