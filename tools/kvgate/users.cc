#include "tools/kvgate/users.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/auth/hmac.h"
#include "store/base/secret_text.h"

namespace remora::kvgate {
namespace {

constexpr std::string_view kDefault = "default";

}  // namespace

absl::StatusOr<Users> Users::Read(const std::string& path) {
  absl::StatusOr<std::vector<Token>> tokens = ReadTokens(path);
  if (!tokens.ok()) return tokens.status();
  for (const Token& token : *tokens) {
    if (token.max_connections == 0 && token.max_requests_per_second == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("tokens in ", path, ": the token ", token.name,
                                                   " has limits, which kvgate does not apply; give it a file "
                                                   "with tokens of their own, without limits"));
  }
  Users users;
  users.tokens_ = *std::move(tokens);
  return users;
}

bool Users::Has(std::string_view name) const {
  return name == kDefault ||
         std::any_of(tokens_.begin(), tokens_.end(), [&](const Token& token) { return token.name == name; });
}

std::optional<User> Users::OfNewClient() const {
  if (are_required()) return std::nullopt;
  return User{std::string(kDefault)};
}

std::optional<User> Users::Find(std::optional<std::string_view> name, std::string_view secret) const {
  if (!are_required()) {
    return name == kDefault ? OfNewClient() : std::nullopt;
  }
  std::string why;
  const std::optional<std::string> shown = DecodeSecret(secret, &why);
  std::optional<User> found;
  for (const Token& token : tokens_) {
    const bool is_same =
        shown && rdma::AreSameBytes(std::as_bytes(std::span(*shown)), std::as_bytes(std::span(token.secret)));
    if (is_same && (!name || *name == token.name)) found = User{token.name, token.role == Role::kReadOnly};
  }
  return found;
}

}  // namespace remora::kvgate
