#include "client/session/credentials.h"

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rdma/auth/secret_file.h"
#include "store/base/absl_view.h"
#include "store/base/secret_text.h"

namespace remora {

absl::StatusOr<std::string> SecretOfToken(std::string_view text) {
  if (text.empty()) return std::string();
  std::vector<absl::string_view> words;
  for (absl::string_view line : absl::StrSplit(AbslView(text), '\n')) {
    line = line.substr(0, line.find('#'));
    const std::vector<absl::string_view> some =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (some.empty()) continue;
    if (!words.empty())
      return absl::InvalidArgumentError("token: a client has one, and here is another line; leave one");
    words = some;
  }
  if (words.size() != 1 && words.size() < 3) {
    return absl::InvalidArgumentError(
        "token: it must be the line that kvctl create_token makes, or the secret out of it");
  }
  std::string why;
  std::optional<std::string> secret = DecodeSecret(StdView(words[words.size() == 1 ? 0 : 2]), &why);
  if (!secret) return absl::InvalidArgumentError(absl::StrCat("the client's token: ", why));
  return *std::move(secret);
}

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  absl::StatusOr<std::string> text = rdma::ReadSecretFile(path);
  absl::Status status = text.status();
  if (status.ok()) status = SecretOfToken(*text).status();
  if (status.ok() && text->empty()) status = absl::InvalidArgumentError("it is empty");
  if (status.ok()) return text;
  return absl::Status(status.code(), absl::StrCat("token in ", path, ": ", status.message()));
}

}  // namespace remora
