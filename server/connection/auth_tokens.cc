#include "server/connection/auth_tokens.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rdma/auth/secret_file.h"
#include "store/base/absl_view.h"
#include "store/base/secret_text.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

bool IsName(absl::string_view word) {
  return !word.empty() && word.size() <= kMaxTokenName && std::ranges::all_of(word, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  });
}

absl::Status TakeLimit(absl::string_view word, Token* token) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(word, absl::MaxSplits('=', 1));
  std::uint32_t* limit = nullptr;
  if (parts.first == "connections") limit = &token->max_connections;
  if (parts.first == "requests_per_second") limit = &token->max_requests_per_second;
  if (limit == nullptr) {
    return absl::InvalidArgumentError(
        "limit: unknown word after the secret; connections=N and requests_per_second=N may follow it");
  }
  if (*limit != 0)
    return absl::InvalidArgumentError(absl::StrCat("limit: ", parts.first, " is given twice; leave one"));
  // Without a sign, which SimpleAtoi would accept.
  if (std::ranges::all_of(parts.second, absl::ascii_isdigit) && absl::SimpleAtoi(parts.second, limit) &&
      *limit >= 1 && *limit <= kMaxTokenLimit) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("limit: ", parts.first, " is a number from 1 to ", kMaxTokenLimit));
}

std::optional<Role> RoleOf(absl::string_view word) {
  if (word == "read-only") return Role::kReadOnly;
  if (word == "read-write") return Role::kReadWrite;
  if (word == "replication") return Role::kReplication;
  return std::nullopt;
}

absl::StatusOr<Token> ParseToken(const std::vector<absl::string_view>& words) {
  if (words.size() < 3) {
    return absl::InvalidArgumentError(
        "a token is: name, role, secret; `kvctl create_token NAME` prints such a line");
  }
  Token token;
  if (!IsName(words[0])) {
    return absl::InvalidArgumentError(
        absl::StrCat("name: it has 1 to ", kMaxTokenName, " letters, digits, dots, dashes or underscores"));
  }
  token.name = std::string(words[0]);
  const std::optional<Role> role = RoleOf(words[1]);
  if (!role) return absl::InvalidArgumentError("role: it is read-only, read-write or replication");
  token.role = *role;
  std::string why;
  std::optional<std::string> secret = DecodeSecret(StdView(words[2]), &why);
  if (!secret) return absl::InvalidArgumentError(why);
  token.secret = *std::move(secret);
  for (std::size_t i = 3; i < words.size(); ++i) REMORA_RETURN_IF_ERROR(TakeLimit(words[i], &token));
  return token;
}

}  // namespace

absl::StatusOr<std::vector<Token>> ParseTokens(std::string_view text) {
  std::vector<Token> tokens;
  std::size_t number = 0;
  for (absl::string_view line : absl::StrSplit(AbslView(text), '\n')) {
    ++number;
    const auto wrong = [number](absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", why));
    };
    line = line.substr(0, line.find('#'));
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    absl::StatusOr<Token> token = ParseToken(words);
    if (!token.ok()) return wrong(token.status().message());
    for (const Token& other : tokens) {
      if (other.name == token->name) return wrong(absl::StrCat("there is a token ", other.name, " already"));
      if (other.secret == token->secret) {
        return wrong(
            absl::StrCat("the secret is that of ", other.name, "; each token needs a secret of its own"));
      }
    }
    if (tokens.size() == kMaxTokens)
      return wrong(absl::StrCat("there are more than ", kMaxTokens, " tokens"));
    tokens.push_back(*std::move(token));
  }
  if (tokens.empty())
    return absl::InvalidArgumentError(
        "tokens: the file has no token, so no client could connect; add one (kvctl create_token)");
  return tokens;
}

std::vector<std::string> SecretsOf(const std::vector<Token>& tokens) {
  std::vector<std::string> secrets;
  for (const Token& token : tokens) secrets.push_back(token.secret);
  return secrets;
}

absl::StatusOr<std::vector<Token>> ReadTokens(const std::string& path) {
  absl::StatusOr<std::vector<Token>> tokens;
  const absl::StatusOr<std::string> text = rdma::ReadSecretFile(path);
  tokens = text.ok() ? ParseTokens(*text) : text.status();
  if (tokens.ok()) return tokens;
  return absl::Status(tokens.status().code(),
                      absl::StrCat("tokens in ", path, ": ", tokens.status().message()));
}

}  // namespace remora
