#include "client/async/operation_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/put/put.h"
#include "client/session/confirm.h"
#include "client/session/fork_guard.h"
#include "store/base/check.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

/// Returns the histogram of an operation's times.
ClientMetric CallOf(const AsyncOperation& operation) {
  if (operation.kind == AsyncOperation::Kind::kValue) return ClientMetric::kGet;
  if (operation.kind == AsyncOperation::Kind::kPresence) return ClientMetric::kExists;
  if (operation.kind != AsyncOperation::Kind::kMessage) return ClientMetric::kOther;
  switch (operation.message) {
    case Operation::kPut:
    case Operation::kFinishLargePut:
      return ClientMetric::kPut;
    case Operation::kDelete:
      return ClientMetric::kDelete;
    case Operation::kTouch:
      return ClientMetric::kTouch;
    case Operation::kIncrement:
      return ClientMetric::kIncrement;
    case Operation::kAppend:
      return ClientMetric::kAppend;
    case Operation::kBatch:
      return ClientMetric::kApply;
    default:
      return ClientMetric::kOther;
  }
}

}  // namespace

void OperationTable::Resize(std::size_t depth) {
  operations_ = std::vector<AsyncOperation>(depth);
  for (std::size_t i = depth; i-- > 0;) {
    operations_[i].index = static_cast<std::uint32_t>(i);
    free_.push_back(static_cast<std::uint32_t>(i));
  }
}

AsyncOperation* OperationTable::Find(AsyncClient::OperationId id) {
  const std::size_t index = id % kMaxAsyncDepth;
  if (id == 0 || index >= operations_.size()) return nullptr;
  AsyncOperation& operation = operations_[index];
  return operation.id == id && !operation.ended ? &operation : nullptr;
}

absl::StatusOr<AsyncOperation*> OperationTable::Begin(AsyncOperation::Kind kind, AsyncClient::Done&& done,
                                                      const CallOptions& call,
                                                      const RegisteredBytes* memory) {
  Session& session = connection_.session();
  if (memory != nullptr) REMORA_RETURN_IF_ERROR(session.endpoint().CheckOwn(*memory));
  if (session.is_forked()) return absl::FailedPreconditionError(kUsedAfterFork);
  if (connection_.is_over()) return connection_.status();
  if (free_.empty()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "async: ", operations_.size(), " operations (AsyncOptions::depth) are in flight; poll first"));
  }
  AsyncOperation& operation = operations_[free_.back()];
  free_.pop_back();
  operation.id = ++last_serial_ * kMaxAsyncDepth + operation.index;
  operation.kind = kind;
  operation.ended = false;
  operation.lost_id = 0;
  operation.undone = false;
  // The coarse clock may be late by this much. The allowance keeps operations from ending early.
  operation.timeout = call.timeout.value_or(session.calls().deadline().timeout()) + Clock::kCoarseness;
  operation.deadline = session.Coarse() + operation.timeout;
  operation.done = std::move(done);
  operation.result = {};
  if (memory != nullptr) operation.memory = *memory;
  if (session.statistics().recorder() != nullptr) {
    operation.began = session.clock().Now();
    operation.lookup.ForgetPath();
    operation.put_bytes = 0;
  }
  earliest_ = std::min(earliest_, operation.deadline);
  ++in_flight_;
  return &operation;
}

void OperationTable::End(AsyncOperation& operation, absl::Status status) {
  REMORA_CHECK(!operation.ended && operation.lost_id == 0);
  operation.ended = true;
  operation.result.status = std::move(status);
  if (connection_.session().statistics().recorder() != nullptr) Record(operation);
  EndIfMemoryIsFree(operation);
}

void OperationTable::EndMessage(AsyncOperation& operation, const ServerReply& answer) {
  const Reply& reply = answer.reply;
  operation.result.version = reply.version;
  operation.result.number = reply.result;
  // The reply to a delete or a batch names no location.
  if (reply.status == ReplyStatus::kOk && reply.slot != 0) {
    connection_.session().Learn(operation.key_hash, DecodeSlot(reply.slot), MirrorFrames::Same::kReplace,
                                answer.refreshes);
  }
  operation.result.status = ToStatus(answer);
  if (NeedsLease(operation.result.status, LeaseNeed::kIfRejected) && lease_.Delays(operation)) return;
  End(operation, std::move(operation.result.status));
}

void OperationTable::Record(const AsyncOperation& operation) const {
  Session& session = connection_.session();
  ClientRecorder& recorder = *session.statistics().recorder();
  const ClientMetric call = CallOf(operation);
  const Duration took = session.clock().Now() - operation.began;
  recorder.RecordCall(call, took, operation.result.status);
  if (call == ClientMetric::kGet) recorder.RecordTime(PathOf(operation.lookup.did()), took);
  if (operation.result.status.ok()) {
    recorder.Add(ClientMetric::kValueBytesRead, operation.result.value.size());
    recorder.Add(ClientMetric::kValueBytesWritten, operation.put_bytes);
  }
  // During an attempt to connect, another thread may change the counters (BeginReconnect).
  if (!connection_.is_attempting()) recorder.Publish(session.counters());
}

bool OperationTable::IsAtMemory(const AsyncOperation& operation) const {
  return operation.memory && connection_.is_up() &&
         (operation.read_in_flight || connection_.channel().IsGathering(operation.index));
}

void OperationTable::EndIfMemoryIsFree(AsyncOperation& operation) {
  if (operation.id == 0 || !operation.ended || operation.list != nullptr || IsAtMemory(operation)) return;
  ended_.Push(operation);
}

void OperationTable::EndAllThatWaitForMemory() {
  for (AsyncOperation& operation : operations_) EndIfMemoryIsFree(operation);
}

void OperationTable::Progress(AsyncOperation& operation) {
  operation.deadline = std::max(operation.deadline, connection_.session().Coarse() + operation.timeout);
}

TimePoint OperationTable::LatestDeadline() const {
  TimePoint latest = TimePoint::min();
  for (const AsyncOperation& operation : operations_) {
    if (operation.id != 0 && !operation.ended) latest = std::max(latest, operation.deadline);
  }
  return latest;
}

}  // namespace remora
