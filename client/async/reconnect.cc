// Recovery of an AsyncClient whose connection breaks: it makes another one, by the steps of
// client/session/reconnect.cc, and continues all operations in flight.
//
// Lookups begin again. For each write that was sent and not answered, the client asks the server, in the
// order in which the writes began, before it sends any other write. When it knows all outcomes, it sends
// those writes again that were not done, in front of those that never were sent. So writes keep their order.
// If a write was not done, but a later one was, the server had refused it: the client does not send it again,
// because it would come too late. The same holds if the later write may have been done, which is so when its
// caller cancelled it and nobody asks about it.
//
// The server's answer is what it noted when it did the write. The server accepts another connection of this
// client only when it does no more work for the previous one (server/connection/client_table.h). It remembers
// the outcomes of the last `credits` request IDs. So the client sends no request that would push out an
// unanswered one (RequestChannel::Send).
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "client/async/engine.h"
#include "store/base/absl_view.h"
#include "store/base/check.h"

namespace remora {

void AsyncClient::Core::Lose() {
  reconnect_.next = session_->clock().Now();
  reconnect_.count = 0;
  reconnect_.trouble = absl::OkStatus();
  lost_writes_.last_done = std::max(lost_writes_.last_done, channel_.LastAbandonedWrite());
  std::vector<std::pair<std::uint64_t, AsyncOperation*>> lost;  // by request ID
  const bool committing = large_.step == LargePut::Step::kCommitting;
  AsyncOperation* const large = LoseLargePut();
  // Otherwise no part of it was done: it begins again, in front of those that wait behind it.
  if (large != nullptr && !committing) lost.emplace_back(session_->channel().last_request_id() + 1, large);
  channel_.Lose(
      [&](std::uint32_t owner, std::uint64_t request_id, std::string_view key, std::string_view value) {
        if (owner == RequestChannel::kLargePut) {
          if (large == nullptr || !committing) return;
          large->lost_id = request_id;
          ++lost_writes_.count;
          lost.emplace_back(request_id, large);
          return;
        }
        AsyncOperation& operation = operations_[owner];
        if (operation.kind != AsyncOperation::Kind::kMessage) return;
        if (operation.lost_id == 0) {
          operation.key.assign(key);
          if (!operation.memory) operation.value.assign(value);
        }
        if (operation.lost_id == 0 && IsWrite(operation.message)) {
          operation.lost_id = request_id;
          ++lost_writes_.count;
        }
        lost.emplace_back(operation.lost_id != 0 ? operation.lost_id : request_id, &operation);
      });
  // Writes that the server has not done stay undone.
  std::sort(lost.begin(), lost.end(), std::greater<>());
  for (const auto& [request_id, operation] : lost) {
    OperationList::Leave(*operation);
    (IsWrite(operation->message) ? writers_ : askers_).PushFront(*operation);
  }
}

bool AsyncClient::Core::TryToReconnect() {
  if (reconnect_.aside || !PrepareAttempt()) return false;
  Attempt();
  TakeAttempt();
  return true;
}

bool AsyncClient::Core::BeginAttempt() {
  reconnect_.aside = true;
  if (session_->is_forked() || reconnect_.in_progress || !PrepareAttempt()) return false;
  reconnect_.in_progress = true;
  // An operation that ends meanwhile returns its caller's memory, so no device may still write to it.
  session_->EndConnection();
  return true;
}

bool AsyncClient::Core::PrepareAttempt() {
  if (broken_.ok() || over_ || session_->clock().Now() < reconnect_.next) return false;
  TimePoint latest = TimePoint::min();
  for (const AsyncOperation& operation : operations_) {
    if (operation.id != 0 && !operation.ended) latest = std::max(latest, operation.deadline);
  }
  if (session_->clock().Now() >= latest) return false;  // no operation waits for it any more
  session_->RestartDeadline();
  reconnect_.ends = latest;
  reconnect_.result.status = absl::CancelledError("the attempt was never made");
  return true;
}

void AsyncClient::Core::EndAttempt() {
  if (std::exchange(reconnect_.in_progress, false)) TakeAttempt();
}

void AsyncClient::Core::TakeAttempt() {
  if (reconnect_.result.status.ok()) {
    Resume(reconnect_.result.was_forgotten);
  } else if (reconnect_.result.is_final && !absl::IsCancelled(reconnect_.result.status)) {
    AbortAll(reconnect_.result.status);
  } else {
    reconnect_.trouble = std::move(reconnect_.result.status);
    reconnect_.next = session_->clock().Now() + Session::Pause(reconnect_.count++);
  }
}

void AsyncClient::Core::Resume(bool was_forgotten) {
  broken_ = absl::OkStatus();
  reads_in_flight_ = 0;
  generation_read_ = {};
  for (AsyncOperation& operation : operations_) {
    // The device that might have written to the memory is closed.
    const bool was_read = std::exchange(operation.read_in_flight, false);
    if (operation.id == 0) {
      if (was_read) Free(operation);
      continue;
    }
    if (operation.ended) continue;
    if (operation.lost_id != 0 && was_forgotten && !operation.undone) {
      Abort(operation, absl::UnknownError(AbslView(kForgotten)));
    } else if (operation.kind != AsyncOperation::Kind::kMessage) {
      OperationList::Leave(operation);
      StartLookup(operation);
    }
  }
  const absl::Status watched = waker_.Watch(session_->connection().wait_fd());
  if (!watched.ok()) return Break(watched);
  if (waker_.is_armed()) session_->connection().Arm();
  waker_.Signal();
}

void AsyncClient::Core::EndAnswer(AsyncOperation& operation, const ServerReply& answer) {
  const Reply& reply = answer.reply;
  if (reply.status == ReplyStatus::kNotFound) {
    operation.undone = true;
    ++lost_writes_.undone_count;
    lost_writes_.undone.Push(operation);
    return;
  }
  if (reply.status == ReplyStatus::kOk)
    lost_writes_.last_done = std::max(lost_writes_.last_done, operation.lost_id);
  EndMessage(operation, answer, false);
}

void AsyncClient::Core::SettleUndone() {
  std::vector<AsyncOperation*> again;
  while (!lost_writes_.undone.empty()) {
    AsyncOperation& operation = lost_writes_.undone.Pop();
    if (operation.lost_id < lost_writes_.last_done) {
      End(operation,
          absl::AbortedError(
              "the write was not done, and comes too late now; why, was lost with the connection"));
      continue;
    }
    again.push_back(&operation);
  }
  for (auto operation = again.rbegin(); operation != again.rend(); ++operation) {
    (*operation)->lost_id = 0;
    (*operation)->undone = false;
    writers_.PushFront(**operation);
  }
  lost_writes_.count = lost_writes_.undone_count = 0;
}

}  // namespace remora
