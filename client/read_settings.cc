#include "client/read_settings.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "client/put/put.h"
#include "client/rpc/request_channel.h"
#include "store/base/status_macros.h"
#include "store/format/wire/messages.h"

namespace remora {
namespace {

/// Asks for the piece behind `text`, and adds it. Returns false if it is a piece of another text than the
/// ones before, whose hash is *hash.
absl::StatusOr<bool> AddPiece(Session& session, std::uint64_t* hash, std::uint64_t* size, std::string* text) {
  Request request;
  request.operation = Operation::kSettings;
  request.condition = text->size();
  REMORA_ASSIGN_OR_RETURN(const ServerReply answer, session.calls().CallBare(request));
  REMORA_RETURN_IF_ERROR(ToStatus(answer));
  const auto whole = static_cast<std::uint64_t>(answer.reply.result);
  if (!text->empty() && (answer.reply.version != *hash || whole != *size)) return false;
  *hash = answer.reply.version;
  *size = whole;
  const std::string_view piece = answer.behind;
  if (whole > kMaxSettingsSize || piece.size() > whole - text->size() ||
      (piece.empty() && text->size() < whole)) {
    return absl::DataLossError("settings: the server's replies contradict each other; is it kvserver?");
  }
  *text += piece;
  return true;
}

}  // namespace

absl::StatusOr<std::string> ReadSettings(Session& session) {
  constexpr int kTries = 8;
  if (!session.server().has_settings()) {
    return absl::FailedPreconditionError(
        "settings: the server is of an earlier release, which does not tell them; run kvserver "
        "--config=FILE --print_config on its machine");
  }
  for (int tries = 0; tries < kTries; ++tries) {
    std::string text;
    std::uint64_t hash = 0;
    std::uint64_t size = 0;
    bool is_one_text = true;
    do {
      REMORA_ASSIGN_OR_RETURN(is_one_text, AddPiece(session, &hash, &size, &text));
    } while (is_one_text && text.size() < size);
    if (is_one_text) return text;
  }
  return absl::UnavailableError("settings: they changed again and again while they were read; try again");
}

}  // namespace remora
