#include "server/request/write_batcher.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/request/request_decoder.h"
#include "store/base/absl_view.h"
#include "store/base/check.h"

namespace remora {
namespace {

constexpr std::size_t kCacheLine = 64;
// Bytes of one message's payloads to prefetch: as many lines as a CPU has in flight.
constexpr std::size_t kPrefetched = 16 * kCacheLine;

/// Names a write. `number`: its place in a multi-put.
RequestId RequestIdOf(const PendingRequest& pending, std::size_t number = 0) {
  const Request& request = pending.request;
  const bool is_list = request.operation == Operation::kMultiPut;
  if (pending.client == nullptr || (is_list && request.put_ids == 0)) return {};
  return {.client = pending.client->id, .number = request.request_id - (IdsOf(request) - 1) + number};
}

/// Returns the number of puts of a multi-put that were begun in earlier groups.
std::size_t DoneOf(const PendingRequest& pending) {
  return pending.multi_put == nullptr ? 0 : pending.multi_put->outcomes.size();
}

}  // namespace

bool WriteBatcher::Add(const PendingRequest& pending) {
  const Request& request = pending.request;
  if (!Validate(request)) return false;
  switch (request.operation) {
    case Operation::kBatch:
    case Operation::kMultiPut: {
      const std::span<const std::byte> part = pending.session->DecodePart(request);
      if (part.empty()) return false;
      for (std::size_t i = 0; i < std::min(part.size(), kPrefetched); i += kCacheLine) {
        __builtin_prefetch(part.data() + i);
      }
      break;
    }
    case Operation::kFinishLargePut:
      if (!large_writes_.BeginCommit(pending.session->connection(), request)) return false;
      break;
    default:
      const char* const payload = pending.session->DecodePayload(request).key.data();
      if (payload == nullptr) return false;
      // The client's CPU has it; it is read when the group is made up.
      __builtin_prefetch(payload);
      __builtin_prefetch(payload + kCacheLine);
  }
  requests_.push_back(pending);
  return true;
}

bool WriteBatcher::Commit() {
  // A client that was dropped in this step takes its staging buffer, and so its writes, with it.
  if (std::exchange(some_gone_, false)) {
    std::erase_if(requests_, [](const PendingRequest& pending) { return pending.session == nullptr; });
  }
  if (parked_.is_active()) TakeParked();
  if (requests_.empty()) return false;
  AddWrites();
  const TimePoint now = store_.clock().Now();
  const std::int64_t now_ms = store_.clock().UnixMillisAt(now);
  replies_.SetTime(now_ms);
  store_.Submit(writes_, now, now_ms);
  // Before any reply, which may find its client gone: the reserved space is the store's by now.
  if (is_any_reserved_) EndCommits();

  const Write* write = writes_.data();  // of a batch, the one write that carries the result of all
  const absl::Status* why = rejected_.data();
  auto postponed = requests_.begin();
  for (PendingRequest& pending : requests_) {
    const std::span<const Write> writes(write, pending.writes);
    if (writes.empty()) {
      RejectBatch(pending, *why++);
    } else if (pending.request.operation == Operation::kMultiPut) {
      const std::size_t before = DoneOf(pending);
      const bool is_done = TakeMultiPut(pending, writes);
      if (!is_done && !Parks(pending, writes.subspan(DoneOf(pending) - before))) *postponed++ = pending;
    } else if (IsPostponed(write->status)) {  // another step commits it, and those behind it
      if (!Parks(pending, writes)) *postponed++ = pending;
    } else if (write->ticket != 0) {
      AddUnsynced(write->ticket, pending, 0);
    } else {
      AnswerWrite(pending, *write);
    }
    write += writes.size();
  }
  const bool is_any_done = postponed != requests_.end();
  requests_.erase(postponed, requests_.end());
  // After the answers, so that no client waits for this look at the clock.
  if (timed_.Takes(now)) store_.Record(Metric::kCommitTime, store_.clock().Now() - now);
  return is_any_done;
}

void WriteBatcher::TakeParked() {
  auto others = requests_.begin();
  for (PendingRequest& pending : requests_) {
    if (!parked_.Holds(pending.session)) {  // D8
      *others++ = pending;
      continue;
    }
    BeginGroup();
    // If the request is rejected, that comes in its turn.
    AddRequest(pending).IgnoreError();
    parked_.ParkBehind(pending, writes_);
  }
  requests_.erase(others, requests_.end());
  parked_.Release(kMaxRequests, &requests_);
}

bool WriteBatcher::Parks(PendingRequest& pending, std::span<const Write> undone) {
  if (pending.session == nullptr) return false;
  const bool needs_read = std::ranges::any_of(undone, &Write::needs_read);
  if (!needs_read && !parked_.Holds(pending.session)) return false;
  parked_.Park(pending, DoneOf(pending), undone);
  return true;
}

void WriteBatcher::BeginGroup() {
  writes_.clear();
  rejected_.clear();
  while (batches_used_ > 0) {
    std::string& copy = batches_[--batches_used_];
    if (copy.capacity() > kMaxMultiPutBytes) copy = {};  // smaller buffers are kept for the next group
  }
  if (batches_.size() < requests_.size()) batches_.resize(requests_.size());
  is_any_reserved_ = false;
}

void WriteBatcher::AddWrites() {
  BeginGroup();
  for (PendingRequest& pending : requests_) {
    absl::Status added = AddRequest(pending);
    if (!added.ok()) rejected_.push_back(std::move(added));
  }
}

absl::Status WriteBatcher::AddRequest(PendingRequest& pending) {
  const Operation operation = pending.request.operation;
  if (operation == Operation::kBatch || operation == Operation::kMultiPut) return AddBatch(pending);
  AddWrite(pending);
  is_any_reserved_ |= operation == Operation::kFinishLargePut;
  return absl::OkStatus();
}

void WriteBatcher::RejectBatch(const PendingRequest& pending, const absl::Status& why) {
  if (pending.multi_put == nullptr) {
    replies_.Answer(pending, why);
  } else if (pending.session != nullptr) {
    // Some of its writes were done, and since then it has changed what it sent.
    acceptor_.Drop(&pending.session->connection(), why);
  }
}

void WriteBatcher::AddWrite(const PendingRequest& pending) {
  const Request& request = pending.request;
  Write& write = writes_.emplace_back();
  write.kind = ToWriteKind(request.operation);
  if (request.operation == Operation::kFinishLargePut) {
    write.reserved = large_writes_.Committing(pending.session->connection());
  } else {
    const ClientSession::Payload payload = pending.session->DecodePayload(request);
    write.key = payload.key;
    write.value = payload.value;
  }
  write.ttl = DecodeTtl(request.ttl_ms);
  write.condition = Condition::Decode(request.condition);
  write.durability = DecodeDurability(request.durability);
  write.request = RequestIdOf(pending);
  write.verify = VerifyPayload;
  write.verify_context = &request;
  parked_.SetRead(pending, 0, &write);
}

void WriteBatcher::EndCommits() {
  std::size_t next = 0;
  for (const PendingRequest& pending : requests_) {
    if (pending.writes == 0) continue;
    const Write& write = writes_[next];
    next += pending.writes;
    const bool used_up = write.reserved != nullptr && !IsPostponed(write.status);
    if (used_up) large_writes_.EndCommit(pending.session->connection());
  }
}

template <typename Outcome>
void WriteBatcher::AnswerWrite(const PendingRequest& pending, const Outcome& outcome) {
  Reply reply;
  reply.request_id = pending.request.request_id;
  reply.status = ToReplyStatus(outcome.status);
  if (!outcome.status.ok()) reply.flags = CauseFlags(outcome.status);
  reply.version = outcome.version;
  reply.slot = outcome.slot;
  reply.result = outcome.result;
  if (pending.client != nullptr) {
    pending.client->Record(reply.status, {reply.request_id, reply.version, reply.result});
  }
  replies_.Send(pending.session, reply, StdView(outcome.status.message()));
}

void WriteBatcher::AddUnsynced(std::uint64_t ticket, const PendingRequest& pending, std::size_t number) {
  if (pending.client != nullptr) ++pending.client->unsynced;
  unsynced_.emplace(ticket, Unsynced{pending, number});
}

void WriteBatcher::AnswerSynced() {
  synced_writes_.clear();
  store_.TakeSynced(&synced_writes_);
  for (const SyncedWrite& outcome : synced_writes_) {
    const auto node = unsynced_.extract(outcome.ticket);
    if (node.empty()) continue;
    const auto& [pending, number] = node.mapped();
    if (pending.client != nullptr) --pending.client->unsynced;
    if (pending.multi_put == nullptr) {
      AnswerWrite(pending, outcome);
      continue;
    }
    --pending.multi_put->waiting;
    RecordPut(pending, *pending.multi_put, number, outcome);
    if (pending.multi_put->is_over()) AnswerMultiPut(pending, *pending.multi_put);
  }
}

// --- Batches and lists ----------------------------------------------------------------------------------

absl::Status WriteBatcher::AddBatch(PendingRequest& pending) {
  const auto shared = pending.session->DecodePart(pending.request);
  std::string& copy = batches_[batches_used_++];  // its memory is used again
  copy.assign(reinterpret_cast<const char*>(shared.data()), shared.size());
  pending.writes = 0;
  if (!VerifyPayload(&pending.request, HashKey({}), HashValue(copy.data(), copy.size()))) {
    return absl::DataLossError(
        "batch: it does not match its checksum, so its bytes were damaged in flight; nothing was done, send "
        "it again");
  }
  if (pending.request.operation == Operation::kMultiPut) {
    std::size_t number = DoneOf(pending);
    pending.writes = AddMultiPut(copy, pending.request.put_count, number, &writes_);
    if (pending.writes == 0) return absl::InvalidArgumentError("protocol error: malformed multi-put");
    for (Write& write : std::span(writes_).last(pending.writes)) {
      write.durability = DecodeDurability(pending.request.durability);
      write.request = RequestIdOf(pending, number);
      parked_.SetRead(pending, number++, &write);
    }
    return absl::OkStatus();
  }
  pending.writes = remora::AddBatch(copy, &writes_);
  if (pending.writes == 0) return absl::InvalidArgumentError("protocol error: malformed batch");
  const std::span<Write> batch = std::span(writes_).last(pending.writes);
  for (std::size_t i = 0; i < batch.size(); ++i) parked_.SetRead(pending, i, &batch[i]);
  Write& first = batch.front();
  first.request = RequestIdOf(pending);
  first.durability = DecodeDurability(pending.request.durability);
  first.begins_batch = true;
  return absl::OkStatus();
}

template <typename Outcome>
void WriteBatcher::RecordPut(const PendingRequest& pending, MultiPutState& list, std::size_t number,
                             const Outcome& outcome) {
  const ReplyStatus status = ToReplyStatus(outcome.status);
  list.outcomes.Set(number, {status, 0, outcome.slot});
  list.versions[number] = outcome.version;
  if (const RequestId name = RequestIdOf(pending, number); name.client != 0) {
    pending.client->Record(status, {name.number, outcome.version, 0});
  }
  if (status == ReplyStatus::kOk || number >= list.text_of) return;
  list.text_of = number;
  list.text = StdView(outcome.status.message());
  list.cause = CauseFlags(outcome.status);
}

bool WriteBatcher::TakeMultiPut(PendingRequest& pending, std::span<const Write> writes) {
  MultiPutState fresh;
  MultiPutState& list = pending.multi_put == nullptr ? fresh : *pending.multi_put;
  const std::size_t before = list.outcomes.size();
  for (const Write& write : writes) {
    if (IsPostponed(write.status)) break;
    REMORA_CHECK(list.outcomes.size() < kMaxPutsPerMessage);  // AddMultiPut saw to it
    list.outcomes.Add({});
    if (write.ticket == 0) {
      RecordPut(pending, list, list.outcomes.size() - 1, write);
    } else {
      ++list.waiting;
    }
  }
  const std::size_t begun = list.outcomes.size() - before;
  list.is_postponed = begun < writes.size();
  if (list.is_over()) {
    AnswerMultiPut(pending, list);
    return true;
  }
  if (pending.multi_put == nullptr) pending.multi_put = std::make_shared<MultiPutState>(std::move(fresh));
  for (std::size_t i = 0; i < begun; ++i) {
    if (writes[i].ticket != 0) AddUnsynced(writes[i].ticket, pending, before + i);
  }
  return !pending.multi_put->is_postponed;
}

void WriteBatcher::AnswerMultiPut(const PendingRequest& pending, const MultiPutState& list) {
  Reply reply;
  reply.request_id = pending.request.request_id;
  reply.flags = list.cause;
  MultiPutOutcomes outcomes = list.outcomes;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    MultiPutOutcomes::Outcome outcome = outcomes[i];
    if (outcome.status != ReplyStatus::kOk) continue;
    if (reply.version == 0) reply.version = list.versions[i];
    // Others come between only where it was put off, and that many never do.
    outcome.later = static_cast<std::uint32_t>(list.versions[i] - reply.version);
    outcomes.Set(i, outcome);
  }
  std::array<char, kMaxReplyBehind> behind;
  const std::size_t size = MultiPutOutcomes::BytesFor(outcomes.size());
  outcomes.Encode(behind.data());
  const std::size_t text = std::min(list.text.size(), behind.size() - size);
  std::copy_n(list.text.data(), text, behind.data() + size);
  replies_.Send(pending.session, reply, {behind.data(), size + text});
}

void WriteBatcher::Forget(ClientSession& session) {
  for (PendingRequest& pending : requests_) pending.Forget(session);
  some_gone_ = true;
  for (auto& [ticket, unsynced] : unsynced_) unsynced.pending.Forget(session);
  parked_.Forget(session);
}

}  // namespace remora
