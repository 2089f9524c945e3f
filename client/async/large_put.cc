// Puts a large value for an AsyncClient, by the steps of client/put/large_put.cc, but without waiting.
//
// The client sends writes that began after this one when it has sent this one's commit, because then the
// server does them after it. Reads continue all the time.
#include "client/async/large_put.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "client/async/engine.h"
#include "client/put/put.h"

namespace remora {

using Step = LargePut::Step;

void AsyncClient::Core::BeginLargePut(AsyncOperation& operation) {
  large_ = {.step = Step::kReserve, .operation = &operation};
  SentValue value{operation.value_to_put(), {}};
  if (operation.memory) value.local_key = MemoryOf(operation)->local_key;
  large_.stream.emplace(operation.key, value);
}

bool AsyncClient::Core::DriveLargePut() {
  if (!broken_.ok() || large_.step == Step::kNone) return false;
  const absl::StatusOr<bool> driven = StepLargePut();
  if (!driven.ok()) Break(driven.status());
  return driven.value_or(true);
}

absl::StatusOr<bool> AsyncClient::Core::StepLargePut() {
  AsyncOperation* const operation = large_.operation;
  switch (large_.step) {
    case Step::kReserve:
      return SendOfLargePut(
          {.operation = Operation::kReserve, .key = operation->key, .value = operation->value_to_put()}, 0,
          Step::kReserving);
    case Step::kFilling:
      return large_.region.size > 0 ? WriteToGrant(*operation) : SendParts(*operation);
    case Step::kCommit:
      return SendOfLargePut({.operation = Operation::kFinishLargePut,
                             .key = operation->key,
                             .key_hash = operation->key_hash,
                             .value = operation->value_to_put(),
                             .options = operation->options},
                            large_.stream->value_hash(), Step::kCommitting);
    case Step::kReturn:
      if (large_.parts > 0) return false;
      return SendOfLargePut({.operation = Operation::kFinishLargePut}, 0, Step::kReturning);
    default:
      return false;
  }
}

absl::StatusOr<bool> AsyncClient::Core::SendOfLargePut(const RequestSpec& asked, std::uint64_t value_hash,
                                                       Step next) {
  absl::StatusOr<bool> sent = channel_.SendSizes(asked, value_hash, RequestChannel::kLargePut);
  if (sent.value_or(false)) large_.step = next;
  return sent;
}

absl::StatusOr<bool> AsyncClient::Core::SendParts(const AsyncOperation& operation) {
  bool any = false;
  const std::uint32_t memory = operation.memory ? operation.index : RequestChannel::kNobody;
  while (!large_.stream->empty() && large_.parts < LargePut::kMostParts) {
    const absl::StatusOr<bool> sent = channel_.SendPart(*large_.stream, RequestChannel::kLargePut, memory);
    if (!sent.ok()) return sent;
    if (!*sent) return any;
    ++large_.parts;
    any = true;
  }
  if (!large_.stream->empty() || large_.parts > 0) return any;
  large_.step = Step::kCommit;
  return true;
}

absl::StatusOr<bool> AsyncClient::Core::WriteToGrant(AsyncOperation& operation) {
  if (!TakeLargeBuffer(operation)) return false;
  bool any = false;
  if (large_.filled.empty()) {
    const std::span<std::byte> buffer = buffers_.large(operation.large_buffer);
    const std::size_t half = buffer.size() / 2;
    large_.filled = large_.stream->Take(buffers_.SgeOf(buffer.subspan(large_.turn++ % 2 * half, half)));
    any = true;
  }
  // The other half is in flight.
  if (operation.read_in_flight || reads_in_flight_ + kFencedWrite > kMostReads) return any;
  const absl::Status written =
      session_->connection().PostWritev(large_.filled.entries(), large_.region, large_.written);
  if (!written.ok()) return written;
  // A READ whose data is not used: when it completes, so has the WRITE before it.
  const rdma::Sge nowhere = buffers_.SgeOf(buffers_.record(operation.index).first(sizeof(std::uint64_t)));
  const absl::Status fenced = session_->region().Post(operation.index, std::span(&nowhere, 1), 0);
  if (!fenced.ok()) return fenced;
  operation.read_in_flight = true;
  reads_in_flight_ += kFencedWrite;
  large_.written += large_.filled.size();
  large_.filled = {};
  // The commit arrives after all written bytes.
  if (large_.stream->empty()) large_.step = Step::kCommit;
  return true;
}

void AsyncClient::Core::TakeFence(AsyncOperation& operation) {
  reads_in_flight_ -= kFencedWrite;
  if (large_.operation != &operation || large_.step != Step::kFilling) ReleaseLargeBuffer(operation);
  if (operation.id == 0) return Free(operation);
  if (!operation.ended) return Progress(operation);
  EndIfMemoryIsFree(operation);
}

void AsyncClient::Core::TakeReplyOfLargePut(const ServerReply& answer, bool may_learn) {
  AsyncOperation* const operation = large_.operation;
  const bool is_ok = answer.reply.status == ReplyStatus::kOk;
  const bool asks_again = answer.reply.status == ReplyStatus::kAskAgain && operation != nullptr;
  if (asks_again && large_.step == Step::kReserving) {
    large_.step = Step::kReserve;
    return;
  }
  if (operation != nullptr) Progress(*operation);
  switch (large_.step) {
    case Step::kReserving: {
      large_.step = !is_ok ? Step::kNone : operation == nullptr ? Step::kReturn : Step::kFilling;
      Grant grant;
      if (!is_ok || operation == nullptr) break;
      const bool granted = FromBytes(std::as_bytes(std::span(answer.behind)), &grant);
      if (granted) large_.region = grant.region;
      if (!granted || grant.region.size == operation->key.size() + operation->value_to_put().size()) return;
      return Abort(
          *operation,
          absl::InternalError("protocol error: the server granted another size than the client asked for"));
    }
    case Step::kFilling:
    case Step::kReturn:
      --large_.parts;
      if (is_ok) return;
      // The server answers the remaining parts likewise.
      large_.step = Step::kReturn;
      break;
    case Step::kCommitting:
    case Step::kReturning:
      large_.step = Step::kNone;
      break;
    default:
      return Break(
          absl::UnavailableError("protocol error: the server sent a reply to a request that it did not get"));
  }
  large_.operation = nullptr;
  large_.stream.reset();
  if (operation != nullptr) EndMessage(*operation, answer, may_learn);
}

void AsyncClient::Core::LeaveLargePut() {
  large_.operation = nullptr;
  large_.stream.reset();
  large_.filled = {};
  if (large_.step == Step::kReserve) large_.step = Step::kNone;
  if (large_.step == Step::kFilling || large_.step == Step::kCommit) large_.step = Step::kReturn;
}

AsyncOperation* AsyncClient::Core::LoseLargePut() {
  AsyncOperation* const operation = std::exchange(large_, {}).operation;
  return operation;
}

}  // namespace remora
