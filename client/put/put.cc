// PUT: WRITE key and value into this connection's staging buffer, SEND the commit, await the reply. The
// server copies the bytes out of that buffer and verifies its copy against the commit's checksum. Then it
// makes the write durable and publishes it. client/put/large_put.h describes the PUT of a large value.
#include "client/put/put.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "client/put/large_put.h"
#include "store/base/absl_view.h"
#include "store/base/moved.h"
#include "store/base/status_macros.h"
#include "store/format/memory/record.h"

namespace remora {

absl::Status ToStatus(const ServerReply& answer) {
  switch (answer.reply.status) {
    case ReplyStatus::kOk:
      return absl::OkStatus();
    case ReplyStatus::kNotFound:
      return absl::NotFoundError(AbslView(answer.behind));
    case ReplyStatus::kFull:
      return absl::ResourceExhaustedError(AbslView(answer.behind));
    case ReplyStatus::kDurableTier:
      return DurableTierError(answer);
    case ReplyStatus::kCorrupt:
      return absl::DataLossError(AbslView(answer.behind));
    case ReplyStatus::kAlreadyExists:
      return absl::AlreadyExistsError(AbslView(answer.behind));
    case ReplyStatus::kFailedPrecondition:
      return absl::FailedPreconditionError(AbslView(answer.behind));
    case ReplyStatus::kOutOfRange:
      return absl::OutOfRangeError(AbslView(answer.behind));
    case ReplyStatus::kUnknown:
      return absl::UnknownError(AbslView(answer.behind));
    case ReplyStatus::kPermissionDenied:
      return absl::PermissionDeniedError(AbslView(answer.behind));
    case ReplyStatus::kAskAgain:
      return absl::DeadlineExceededError(AbslView(answer.behind));
    case ReplyStatus::kMoved:
      return MovedError(AbslView(answer.behind));
    case ReplyStatus::kInvalid:  // the client checked all bounds that it knows before
      return absl::InvalidArgumentError(
          absl::StrCat("the server rejected the request: ", AbslView(answer.behind)));
  }
  return absl::InternalError("protocol error: the server's reply has an unknown status");
}

namespace {

/// Returns the answer to a write. Sends the write, unless it was sent before and done.
absl::StatusOr<ServerReply> CallOnce(Session& session, Operation operation, std::string_view key,
                                     std::uint64_t key_hash, const SentValue& value,
                                     const PutOptions& options) {
  REMORA_ASSIGN_OR_RETURN(const std::optional<ServerReply> lost, session.calls().RecoverLostReply());
  if (lost) return *lost;
  return session.calls().Call({.operation = operation,
                               .key = key,
                               .key_hash = key_hash,
                               .value = value.bytes,
                               .options = options,
                               .local_key = value.local_key});
}

absl::StatusOr<ServerReply> Commit(Session& session, Operation operation, std::string_view key,
                                   const SentValue& value, const PutOptions& options) {
  const std::uint64_t key_hash = HashKey(key);
  // Even if the write fails, the cached location may be obsolete.
  session.cache().locations().Forget(key_hash);
  REMORA_ASSIGN_OR_RETURN(const ServerReply answer,
                          CallOnce(session, operation, key, key_hash, value, options));
  if (answer.reply.status == ReplyStatus::kOk) {
    if (operation != Operation::kDelete)
      session.Learn(key_hash, DecodeSlot(answer.reply.slot), MirrorFrames::Same::kReplace, answer.refreshes);
    if (options.version != nullptr) *options.version = answer.reply.version;
  }
  return answer;
}

/// Its result.
absl::StatusOr<std::int64_t> Add(Session& session, Operation operation, std::string_view key,
                                 std::string_view value, const PutOptions& options) {
  REMORA_ASSIGN_OR_RETURN(const ServerReply answer, Commit(session, operation, key, {value, {}}, options));
  REMORA_RETURN_IF_ERROR(ToStatus(answer));
  return answer.reply.result;
}

}  // namespace

absl::Status Put(Session& session, std::string_view key, const SentValue& value, const PutOptions& options) {
  if (value.bytes.size() > kMaxSmallValueSize) return PutLarge(session, key, value, options);
  REMORA_ASSIGN_OR_RETURN(const ServerReply answer, Commit(session, Operation::kPut, key, value, options));
  return ToStatus(answer);
}

absl::Status Delete(Session& session, std::string_view key, const WriteOptions& options) {
  REMORA_ASSIGN_OR_RETURN(
      const ServerReply answer,
      Commit(session, Operation::kDelete, key, {},
             {.condition = options.condition, .durability = options.durability, .version = options.version}));
  return ToStatus(answer);
}

absl::Status Touch(Session& session, std::string_view key, std::chrono::milliseconds ttl,
                   const WriteOptions& options) {
  REMORA_ASSIGN_OR_RETURN(const ServerReply answer, Commit(session, Operation::kTouch, key, {},
                                                           {.ttl = ttl,
                                                            .condition = options.condition,
                                                            .durability = options.durability,
                                                            .version = options.version}));
  return ToStatus(answer);
}

absl::StatusOr<std::int64_t> Increment(Session& session, std::string_view key, std::int64_t delta,
                                       const PutOptions& options) {
  const std::string_view bytes(reinterpret_cast<const char*>(&delta), sizeof(delta));
  return Add(session, Operation::kIncrement, key, bytes, options);
}

absl::StatusOr<std::size_t> Append(Session& session, std::string_view key, std::string_view bytes,
                                   const PutOptions& options) {
  REMORA_ASSIGN_OR_RETURN(const std::int64_t size, Add(session, Operation::kAppend, key, bytes, options));
  return static_cast<std::size_t>(size);
}

absl::Status Apply(Session& session, const WriteBatch& batch, std::uint64_t* version,
                   std::optional<Durability> durability) {
  std::string_view bytes = batch.bytes();
  while (!bytes.empty()) session.cache().locations().Forget(HashKey(TakeBatchWrite(&bytes).value().key));
  REMORA_ASSIGN_OR_RETURN(
      const ServerReply answer,
      CallOnce(session, Operation::kBatch, {}, HashKey({}), {batch.bytes(), {}}, {.durability = durability}));
  if (answer.reply.status == ReplyStatus::kOk && version != nullptr) *version = answer.reply.version;
  return ToStatus(answer);
}

}  // namespace remora
