// PUT: WRITE key and value into this connection's slice, SEND the commit, await the reply. The server copies
// the bytes out of the slice, verifies its copy against the commit's checksum, makes it durable and publishes
// it. A large value goes another way: client/put_large.h.
#include "client/put.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "client/put_large.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "store/format/record.h"

namespace remora {

absl::Status ToStatus(const Session::Answer& answer) {
  switch (answer.reply.status) {
    case ReplyStatus::kOk:
      return absl::OkStatus();
    case ReplyStatus::kNotFound:
      return absl::NotFoundError("no such key");
    case ReplyStatus::kFull:
      return absl::ResourceExhaustedError(AbslView(answer.behind));
    case ReplyStatus::kDurableTier:
      return absl::UnavailableError(AbslView(answer.behind));
    case ReplyStatus::kCorrupt:
      return absl::DataLossError(
          absl::StrCat("the write was damaged on its way, and not done: ", AbslView(answer.behind)));
    case ReplyStatus::kInvalid:
      break;
  }
  return absl::InternalError(
      absl::StrCat("the server did not understand the request: ", AbslView(answer.behind)));
}

namespace {

absl::Status Commit(Session& session, Operation operation, std::string_view key, std::string_view value,
                    std::optional<std::chrono::milliseconds> ttl) {
  const std::uint64_t key_hash = HashKey(key);
  // Even if it fails, its old place may be of no use any more.
  session.locations().Forget(key_hash);
  REMORA_ASSIGN_OR_RETURN(const Session::Answer answer, session.Call(operation, key, key_hash, value, ttl));
  if (operation != Operation::kDelete && answer.reply.status == ReplyStatus::kOk) {
    session.Learn(key_hash, DecodeSlot(answer.reply.slot));
  }
  return ToStatus(answer);
}

}  // namespace

absl::Status Put(Session& session, std::string_view key, std::string_view value, const PutOptions& options) {
  if (value.size() > kMaxSmallValueSize) return PutLarge(session, key, value, options);
  return Commit(session, Operation::kPut, key, value, options.ttl);
}

absl::Status Delete(Session& session, std::string_view key) {
  return Commit(session, Operation::kDelete, key, {}, std::nullopt);
}

absl::Status Touch(Session& session, std::string_view key, std::chrono::milliseconds ttl) {
  return Commit(session, Operation::kTouch, key, {}, ttl);
}

}  // namespace remora
