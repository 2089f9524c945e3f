// A client's token (ClientOptions::token).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace remora {

/// The secret of a token: of its line in the server's file (`kvctl token`), or alone. Lines that are empty,
/// and what stands behind a #, do not count. "" of no text at all. InvalidArgument: it is none, or several.
absl::StatusOr<std::string> SecretOfToken(std::string_view text);

/// For ClientOptions::token, what is in a file. Errors as SecretOfToken and rdma::ReadSecretFile, with the
/// file's name.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);

}  // namespace remora
