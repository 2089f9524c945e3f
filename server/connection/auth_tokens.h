// Auth tokens, which say which clients may connect, and for what. A file of lines
//
//   # name    role        secret                              and, if wanted, limits
//   web       read-only   9f86d081884c7d659a2feaa0c55ad015
//   importer  read-write  XoDsBGK2+1wzkqGHHA8Q4w==            connections=4 requests_per_second=1000
//   primary   replication 3c6e0b8a9c15224a8228b9a98ca1531d
//
// with words apart by spaces or tabs; behind a # is a comment. `kvctl create_token` makes such a line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace remora {

/// Rights of a client. A kReplication may do all that a kReadWrite may, send groups to a follower, and
/// promote it.
enum class Role : std::uint8_t { kReadOnly = 1, kReadWrite = 2, kReplication = 3 };

struct Token {
  std::string name;
  Role role = Role::kReadOnly;
  std::string secret;  // bytes (store/base/secret_text.h)
  // Limits of all clients with this token together; 0: no limit.
  std::uint32_t max_connections = 0;
  std::uint32_t max_requests_per_second = 0;

  friend bool operator==(const Token&, const Token&) = default;
};

/// Bound of the tokens of a file. Each proof is tried with all of them.
inline constexpr std::size_t kMaxTokens = 256;
inline constexpr std::size_t kMaxTokenName = 32;
inline constexpr std::uint32_t kMaxTokenLimit = 1'000'000;

/// Returns at least one token.
///
/// - InvalidArgument: the text has a fault. The error names it and its line; no message shows a
///   secret.
absl::StatusOr<std::vector<Token>> ParseTokens(std::string_view text);

std::vector<std::string> SecretsOf(const std::vector<Token>& tokens);

/// Returns the tokens of a file. Errors of ParseTokens, with the file's name; NotFound;
/// PermissionDenied: it cannot be read, or others could read or change it (says what to do).
absl::StatusOr<std::vector<Token>> ReadTokens(const std::string& path);

}  // namespace remora
