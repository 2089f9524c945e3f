#include "client/async/large_put.h"

#include <span>
#include <utility>

#include "client/put/put.h"
#include "store/base/status_macros.h"

namespace remora {

void AsyncLargePut::Begin(AsyncOperation& operation) {
  put_ = {.step = Step::kReserve, .operation = &operation};
  SentValue value{operation.value_to_put(), {}};
  if (operation.memory) value.local_key = MemoryOf(operation)->local_key;
  put_.stream.emplace(operation.key, value);
}

absl::StatusOr<bool> AsyncLargePut::Drive() {
  AsyncOperation* const operation = put_.operation;
  switch (put_.step) {
    case Step::kReserve:
      return Send(
          {.operation = Operation::kReserve, .key = operation->key, .value = operation->value_to_put()}, 0,
          Step::kReserving);
    case Step::kFilling:
      return put_.region.size > 0 ? WriteToGrant(*operation) : SendParts(*operation);
    case Step::kCommit:
      return Send({.operation = Operation::kFinishLargePut,
                   .key = operation->key,
                   .key_hash = operation->key_hash,
                   .value = operation->value_to_put(),
                   .options = operation->options},
                  put_.stream->value_hash(), Step::kCommitting);
    case Step::kReturn:
      if (put_.parts > 0) return false;
      return Send({.operation = Operation::kFinishLargePut}, 0, Step::kReturning);
    default:
      return false;
  }
}

absl::StatusOr<bool> AsyncLargePut::Send(const RequestSpec& asked, std::uint64_t value_hash, Step next) {
  absl::StatusOr<bool> sent = connection_.channel().SendSizes(asked, value_hash, RequestChannel::kLargePut);
  if (sent.value_or(false)) put_.step = next;
  return sent;
}

absl::StatusOr<bool> AsyncLargePut::SendParts(const AsyncOperation& operation) {
  bool any = false;
  const std::uint32_t memory = operation.memory ? operation.index : RequestChannel::kNoOwner;
  while (!put_.stream->empty() && put_.parts < kMaxParts) {
    const absl::StatusOr<bool> sent =
        connection_.channel().SendPart(*put_.stream, RequestChannel::kLargePut, memory);
    if (!sent.ok()) return sent;
    if (!*sent) return any;
    ++put_.parts;
    any = true;
  }
  if (!put_.stream->empty() || put_.parts > 0) return any;
  put_.step = Step::kCommit;
  return true;
}

absl::StatusOr<bool> AsyncLargePut::WriteToGrant(AsyncOperation& operation) {
  if (!reads_.TakeLargeBuffer(operation)) return false;
  bool any = false;
  if (put_.filled.empty()) {
    const std::span<std::byte> buffer = buffers_.large(operation.large_buffer);
    const std::size_t half = buffer.size() / 2;
    put_.filled = put_.stream->Take(buffers_.SgeOf(buffer.subspan(put_.turn++ % 2 * half, half)));
    any = true;
  }
  // The other half is in flight.
  if (operation.read_in_flight || !reads_.CanPostFence()) return any;
  REMORA_RETURN_IF_ERROR(connection_.session().endpoint().connection().PostWritev(put_.filled.entries(),
                                                                                  put_.region, put_.written));
  REMORA_RETURN_IF_ERROR(reads_.PostFence(operation));
  put_.written += put_.filled.size();
  put_.filled = {};
  // The commit arrives after all written bytes.
  if (put_.stream->empty()) put_.step = Step::kCommit;
  return true;
}

void AsyncLargePut::TakeFence(AsyncOperation& operation) {
  operation.read_in_flight = false;
  reads_.TakeFence();
  if (put_.operation != &operation || put_.step != Step::kFilling) reads_.ReleaseLargeBuffer(operation);
  if (operation.id == 0) return reads_.Free(operation);
  if (!operation.ended) return operations_.Progress(operation);
  operations_.EndIfMemoryIsFree(operation);
}

void AsyncLargePut::TakeGrant(const ServerReply& answer) {
  AsyncOperation& operation = *put_.operation;
  Grant grant;
  const bool granted = FromBytes(std::as_bytes(std::span(answer.behind)), &grant);
  if (granted) put_.region = grant.region;
  if (!granted || grant.region.size == operation.key.size() + operation.value_to_put().size()) return;
  Detach(operation);
  operations_.End(
      operation,
      absl::InternalError("protocol error: the server granted another size than the client asked for"));
}

absl::Status AsyncLargePut::TakeReply(const ServerReply& answer) {
  AsyncOperation* const operation = put_.operation;
  const bool is_ok = answer.reply.status == ReplyStatus::kOk;
  const bool asks_again = answer.reply.status == ReplyStatus::kAskAgain && operation != nullptr;
  if (asks_again && put_.step == Step::kReserving) {
    put_.step = Step::kReserve;
    return absl::OkStatus();
  }
  if (operation != nullptr) operations_.Progress(*operation);
  switch (put_.step) {
    case Step::kReserving:
      put_.step = !is_ok ? Step::kNone : operation == nullptr ? Step::kReturn : Step::kFilling;
      if (!is_ok || operation == nullptr) break;
      TakeGrant(answer);
      return absl::OkStatus();
    case Step::kFilling:
    case Step::kReturn:
      --put_.parts;
      if (is_ok) return absl::OkStatus();
      // The server answers the remaining parts likewise.
      put_.step = Step::kReturn;
      break;
    case Step::kCommitting:
    case Step::kReturning:
      put_.step = Step::kNone;
      break;
    default:
      return absl::UnavailableError(
          "protocol error: the server sent a reply to a request that it did not get");
  }
  put_.operation = nullptr;
  put_.stream.reset();
  if (operation != nullptr) operations_.EndMessage(*operation, answer);
  return absl::OkStatus();
}

void AsyncLargePut::Detach(const AsyncOperation& operation) {
  if (put_.operation != &operation) return;
  put_.operation = nullptr;
  put_.stream.reset();
  put_.filled = {};
  if (put_.step == Step::kReserve) put_.step = Step::kNone;
  if (put_.step == Step::kFilling || put_.step == Step::kCommit) put_.step = Step::kReturn;
}

AsyncOperation* AsyncLargePut::Drop() { return std::exchange(put_, {}).operation; }

}  // namespace remora
