#include "client/async/messages.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "client/get/record_copy.h"
#include "client/put/put.h"
#include "store/base/status_macros.h"
#include "store/format/wire/multi_put.h"

namespace remora {

// --- What is sent ---------------------------------------------------------------------------------------

absl::Status AsyncMessages::Start(AsyncOperation& operation, const RequestSpec& asked, bool may_send) {
  operation.message = asked.operation;
  operation.key_hash = asked.key_hash;
  operation.options = asked.options;
  OperationList& waiting = IsWrite(asked.operation) ? writers_ : askers_;
  const bool is_held_up =
      IsWrite(asked.operation) && (!lost_.empty() || large_.is_in_front() || operation.is_large_put());
  if (waiting.empty() && connection_.is_up() && !is_held_up && !IsToShare(operation, asked)) {
    RequestSpec now = asked;
    if (operation.memory) now.local_key = MemoryOf(operation)->local_key;
    const absl::StatusOr<bool> sent = connection_.channel().Send(now, operation.index);
    if (!sent.ok() || *sent) return sent.status();
  }
  Assign(asked.key, &operation.key);
  if (!operation.memory) Assign(asked.value, &operation.value);
  waiting.Push(operation);
  if (!may_send || !connection_.is_up() || waiting.size() % connection_.channel().MaxListedPuts() != 0) {
    return absl::OkStatus();
  }
  return Send().status();
}

absl::StatusOr<bool> AsyncMessages::Send() {
  bool any = false;
  if (connection_.is_up()) {
    REMORA_ASSIGN_OR_RETURN(any, large_.Drive());
  }
  if (lost_.are_undone()) SettleUndone();
  while (OperationList* const list = NextToSend()) {
    AsyncOperation& operation = list->front();
    if (list == &writers_ && operation.lost_id == 0 && operation.is_large_put()) {
      writers_.Pop();
      large_.Begin(operation);
      any = true;
      continue;
    }
    REMORA_ASSIGN_OR_RETURN(const std::size_t sent, SendFirst(*list));
    if (sent == 0) break;
    for (std::size_t i = 0; i < sent; ++i) list->Pop();
    asked_last_ = list == &askers_;
    any = true;
  }
  return any;
}

OperationList* AsyncMessages::NextToSend() {
  if (!connection_.is_up()) return nullptr;
  bool may_write = !writers_.empty();
  // Messages that were sent earlier keep their place in the order.
  if (may_write && writers_.front().lost_id == 0) {
    may_write =
        lost_.empty() && !large_.is_in_front() && !(writers_.front().is_large_put() && !large_.is_idle());
  }
  if (may_write && (askers_.empty() || asked_last_)) return &writers_;
  return askers_.empty() ? nullptr : &askers_;
}

bool AsyncMessages::IsToShare(const AsyncOperation& operation, const RequestSpec& asked) const {
  if (!operation.is_listable()) return false;
  // With no message in flight and no other put likely to begin, the put would wait in vain.
  if (connection_.channel().empty() && !operations_.has_ended()) return false;
  return MultiPutEntrySize(asked.key, asked.value) <= kMaxMultiPutBytes / 2;
}

absl::StatusOr<std::size_t> AsyncMessages::SendFirst(const OperationList& waiting) {
  RequestChannel& channel = connection_.channel();
  RequestChannel::List list(channel.MaxListedPuts());
  for (const AsyncOperation* one = &waiting.front(); one != nullptr && one->is_listable();
       one = one->behind) {
    if (!list.Add(one->key, one->value, one->options, one->index)) break;
  }
  const bool is_list = list.size() > 1;
  REMORA_ASSIGN_OR_RETURN(const bool sent, is_list ? channel.SendList(list, RequestChannel::Listing::kWithIds)
                                                   : SendOne(waiting.front()));
  return !sent ? 0 : is_list ? list.size() : 1;
}

absl::StatusOr<bool> AsyncMessages::SendOne(AsyncOperation& operation) {
  RequestChannel& channel = connection_.channel();
  if (operation.lost_id != 0) {
    const absl::StatusOr<bool> asked =
        channel.Send({.operation = Operation::kQueryCompletion, .about = operation.lost_id}, operation.index);
    if (asked.value_or(false)) ++connection_.session().counters().completion_queries;
    return asked;
  }
  if (operation.kind == AsyncOperation::Kind::kMessage) {
    RequestSpec asked{operation.message,
                      operation.key,
                      operation.key_hash,
                      operation.value_to_put(),
                      operation.options,
                      0,
                      {}};
    if (operation.memory) asked.local_key = MemoryOf(operation)->local_key;
    return channel.Send(asked, operation.index);
  }
  operation.lookup.Asked();
  return channel.Send(
      {.operation = Operation::kLocate, .key = operation.key, .key_hash = operation.lookup.key_hash()},
      operation.index);
}

// --- What came ------------------------------------------------------------------------------------------

absl::Status AsyncMessages::TakeReply(const rdma::Completion& completion) {
  RequestChannel& channel = connection_.channel();
  const absl::StatusOr<RequestChannel::Ended> ended = channel.TakeReply(completion);
  if (!ended.ok()) return ended.status();
  absl::Status taken;
  absl::Status fits = ended->ForEach([&](std::uint32_t owner, const ServerReply& answer) {
    const Reply& reply = answer.reply;
    if (ended->is_write && reply.status == ReplyStatus::kOk) lost_.NoteDone(reply.request_id);
    taken.Update(TakeAnswer(owner, answer));
  });
  REMORA_RETURN_IF_ERROR(fits);
  REMORA_RETURN_IF_ERROR(taken);
  return channel.PostReceive(completion.context);
}

absl::Status AsyncMessages::TakeAnswer(std::uint32_t owner, const ServerReply& answer) {
  if (owner == RequestChannel::kLargePut) return large_.TakeReply(answer);
  if (owner == RequestChannel::kLease) return operations_.lease().TakeAnswer(answer);
  if (owner == RequestChannel::kNoOwner) return absl::OkStatus();
  AsyncOperation& operation = operations_[owner];
  if (operation.lost_id != 0) {
    EndAnswer(operation, answer);
  } else if (operation.kind == AsyncOperation::Kind::kMessage) {
    operations_.EndMessage(operation, answer);
  } else {
    operation.lookup.Take(answer, buffers_.record(operation.index));
    reads_.Advance(operation);
  }
  return absl::OkStatus();
}

void AsyncMessages::EndAnswer(AsyncOperation& operation, const ServerReply& answer) {
  if (answer.reply.status == ReplyStatus::kNotFound) return lost_.NoteUndone(operation);
  if (answer.reply.status == ReplyStatus::kOk) lost_.NoteDone(operation.lost_id);
  lost_.Drop(operation);
  ServerReply old = answer;
  old.refreshes = 0;  // the record may have died before the client asked
  operations_.EndMessage(operation, old);
}

void AsyncMessages::SettleUndone() {
  lost_.TakeUndone([this](AsyncOperation& operation) { writers_.PushFront(operation); },
                   [this](AsyncOperation& operation) {
                     operations_.End(
                         operation,
                         absl::AbortedError("reconnect: the server rejected this write, and the reason was "
                                            "lost with the connection; write again"));
                   });
}

// --- What ends early, or is lost ------------------------------------------------------------------------

void AsyncMessages::Abandon(AsyncOperation& operation) {
  // Without a connection nothing is in flight, and the channel may be another thread's (BeginReconnect).
  if (connection_.is_up()) connection_.channel().Abandon(operation.index);
  if (!operation.undone) lost_.NoteDone(operation.lost_id);
  lost_.Drop(operation);
  large_.Detach(operation);
}

void AsyncMessages::Lose() {
  RequestChannel& channel = connection_.channel();
  lost_.NoteDone(channel.LastAbandonedWrite());
  std::vector<std::pair<std::uint64_t, AsyncOperation*>> lost;  // by request ID
  const bool committing = large_.is_committing();
  AsyncOperation* const large = large_.Drop();
  // Otherwise no part of it was done: it begins again, in front of those that wait behind it.
  if (large != nullptr && !committing) lost.emplace_back(channel.last_request_id() + 1, large);
  channel.Lose(
      [&](std::uint32_t owner, std::uint64_t request_id, std::string_view key, std::string_view value) {
        if (owner == RequestChannel::kLease) return;
        if (owner == RequestChannel::kLargePut) {
          if (large == nullptr || !committing) return;
          lost_.Add(*large, request_id);
          lost.emplace_back(request_id, large);
          return;
        }
        AsyncOperation& operation = operations_[owner];
        if (operation.kind != AsyncOperation::Kind::kMessage) return;
        if (operation.lost_id == 0) {
          operation.key.assign(key);
          if (!operation.memory) operation.value.assign(value);
          if (IsWrite(operation.message)) lost_.Add(operation, request_id);
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

}  // namespace remora
