#include "client/read_settings.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/put/put.h"
#include "client/rpc/request_channel.h"
#include "store/base/status_macros.h"
#include "store/format/wire/messages.h"

namespace remora {
namespace {

const char* NameOfText(Operation operation) {
  return operation == Operation::kSettings ? "settings" : "topology";
}

/// Asks for the piece behind `text`, and adds it. Returns false if it is a piece of another text than the
/// ones before, whose hash is *hash.
absl::StatusOr<bool> AddPiece(Session& session, Operation operation, std::uint64_t* hash, std::uint64_t* size,
                              std::string* text) {
  Request request;
  request.operation = operation;
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
    return absl::DataLossError(
        absl::StrCat(NameOfText(operation), ": the server's replies contradict each other; is it kvserver?"));
  }
  *text += piece;
  return true;
}

/// Reads a text that comes in pieces.
absl::StatusOr<std::string> ReadText(Session& session, Operation operation) {
  constexpr int kTries = 8;
  for (int tries = 0; tries < kTries; ++tries) {
    std::string text;
    std::uint64_t hash = 0;
    std::uint64_t size = 0;
    bool is_one_text = true;
    do {
      REMORA_ASSIGN_OR_RETURN(is_one_text, AddPiece(session, operation, &hash, &size, &text));
    } while (is_one_text && text.size() < size);
    if (is_one_text) return text;
  }
  return absl::UnavailableError(
      absl::StrCat(NameOfText(operation), ": it changed again and again while it was read; try again"));
}

}  // namespace

absl::StatusOr<std::string> ReadSettings(Session& session) {
  if (session.server().has_settings()) return ReadText(session, Operation::kSettings);
  return absl::FailedPreconditionError(
      "settings: the server is of an earlier release, which does not tell them; run kvserver "
      "--config=FILE --print_config on its machine");
}

absl::StatusOr<std::string> ReadTopologyText(Session& session) {
  if (session.server().has_topology()) return ReadText(session, Operation::kTopology);
  return absl::FailedPreconditionError(
      "topology: the server has none to tell, as etcd has no division of its cluster; name the file of the "
      "topology");
}

}  // namespace remora
