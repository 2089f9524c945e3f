// Writes of all connections, committed as one group.
#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/request/request_decoder.h"
#include "server/server.h"
#include "store/base/absl_view.h"
#include "store/base/check.h"

namespace remora {

RequestName Server::NameOf(const Pending& pending, std::size_t number) {
  const Request& request = pending.request;
  const bool is_list = request.operation == Operation::kPutList;
  if (pending.client == nullptr || (is_list && request.put_ids == 0)) return {};
  return {.client = pending.client->name, .number = request.request_id - (IdsOf(request) - 1) + number};
}

bool Server::CommitWrites() {
  // A client that was dropped in this step takes its slice, and so its writes, with it.
  if (std::exchange(some_gone_, false)) {
    std::erase_if(write_requests_, [](const Pending& pending) { return pending.session == nullptr; });
  }
  if (write_requests_.empty()) return false;

  writes_.clear();
  refused_.clear();
  while (batches_used_ > 0) {
    std::string& copy = batches_[--batches_used_];
    if (copy.capacity() > kMaxPutListBytes) copy = {};  // the rest is not worth giving back
  }
  if (batches_.size() < write_requests_.size()) batches_.resize(write_requests_.size());
  bool is_any_reserved = false;
  for (Pending& pending : write_requests_) {
    const Operation operation = pending.request.operation;
    if (operation == Operation::kBatch || operation == Operation::kPutList) {
      absl::Status added = AddBatch(pending);
      if (!added.ok()) refused_.push_back(std::move(added));
      continue;
    }
    AddWrite(pending);
    is_any_reserved |= operation == Operation::kCommit;
  }
  const TimePoint now = store_->clock().Now();
  reply_ms_ = store_->clock().UnixMillisAt(now);
  store_->Submit(writes_, now, *reply_ms_);
  // Before any reply, which may find its client gone: the reserved space is the store's by now.
  if (is_any_reserved) EndCommits();

  const Write* write = writes_.data();  // of a batch, the one that stands for all
  const absl::Status* why = refused_.data();
  auto put_off = write_requests_.begin();
  for (Pending& pending : write_requests_) {
    const std::span<const Write> writes(write, pending.writes);
    if (writes.empty()) {
      RefuseBatch(pending, *why++);
    } else if (pending.request.operation == Operation::kPutList) {
      if (!TakeList(pending, writes)) *put_off++ = pending;
    } else if (IsPutOff(write->status)) {  // and so are all behind it: another step commits them
      *put_off++ = pending;
    } else if (write->ticket != 0) {
      AddUnsynced(write->ticket, pending, 0);
    } else {
      AnswerWrite(pending, *write);
    }
    write += writes.size();
  }
  const bool is_any_done = put_off != write_requests_.end();
  write_requests_.erase(put_off, write_requests_.end());
  return is_any_done;
}

void Server::RefuseBatch(const Pending& pending, const absl::Status& why) {
  if (pending.list == nullptr) {
    Answer(pending, why);
  } else if (pending.session != nullptr) {
    // Some of its writes were done, and since then it has changed what it sent.
    Drop(&pending.session->connection(), why);
  }
}

void Server::AddWrite(const Pending& pending) {
  const Request& request = pending.request;
  Write& write = writes_.emplace_back();
  write.kind = KindOf(request.operation);
  if (request.operation == Operation::kCommit) {
    write.reserved = grants_->Committing(pending.session->connection());
  } else {
    const ServerSession::Payload payload = pending.session->PayloadOf(request);
    write.key = payload.key;
    write.value = payload.value;
  }
  write.ttl = DecodeTtl(request.ttl_ms);
  write.condition = Condition::Decode(request.condition);
  write.durability = DecodeDurability(request.durability);
  write.request = NameOf(pending);
  write.verify = VerifyPayload;
  write.verify_context = &request;
}

void Server::EndCommits() {
  std::size_t next = 0;
  for (const Pending& pending : write_requests_) {
    if (pending.writes == 0) continue;
    const Write& write = writes_[next];
    next += pending.writes;
    const bool used_up = write.reserved != nullptr && !IsPutOff(write.status);
    if (used_up) grants_->EndCommit(pending.session->connection());
  }
}

template <typename Outcome>
void Server::AnswerWrite(const Pending& pending, const Outcome& outcome) {
  Reply reply;
  reply.request_id = pending.request.request_id;
  reply.status = ToReplyStatus(outcome.status);
  reply.version = outcome.version;
  reply.slot = outcome.slot;
  reply.result = outcome.result;
  if (pending.client != nullptr) {
    pending.client->Note(reply.status, {reply.request_id, reply.version, reply.result});
  }
  SendReply(pending.session, reply, StdView(outcome.status.message()));
}

void Server::AddUnsynced(std::uint64_t ticket, const Pending& pending, std::size_t number) {
  if (pending.client != nullptr) ++pending.client->unsynced;
  unsynced_.emplace(ticket, Unsynced{pending, number});
}

bool Server::AnswerSynced() {
  // A look costs less than an exchange, and mostly tells.
  if (!synced_.load(std::memory_order_relaxed) || !synced_.exchange(false, std::memory_order_acquire)) {
    return false;
  }
  synced_writes_.clear();
  store_->TakeSynced(&synced_writes_);
  for (const SyncedWrite& outcome : synced_writes_) {
    const auto node = unsynced_.extract(outcome.ticket);
    if (node.empty()) continue;
    const auto& [pending, number] = node.mapped();
    if (pending.client != nullptr) --pending.client->unsynced;
    if (pending.list == nullptr) {
      AnswerWrite(pending, outcome);
      continue;
    }
    --pending.list->waiting;
    NoteListed(pending, *pending.list, number, outcome);
    if (pending.list->is_over()) AnswerList(pending, *pending.list);
  }
  return true;
}

// --- Batches and lists ----------------------------------------------------------------------------------

absl::Status Server::AddBatch(Pending& pending) {
  const auto shared = pending.session->PartOf(pending.request);
  std::string& copy = batches_[batches_used_++];  // its memory is used again
  copy.assign(reinterpret_cast<const char*>(shared.data()), shared.size());
  pending.writes = 0;
  if (!VerifyPayload(&pending.request, HashKey({}), HashValue(copy.data(), copy.size()))) {
    return absl::DataLossError(
        "what was sent was damaged on its way: the batch does not match its checksum; nothing was done");
  }
  if (pending.request.operation == Operation::kPutList) {
    std::size_t number = pending.list == nullptr ? 0 : pending.list->outcomes.size();
    pending.writes = AddPutList(copy, pending.request.put_count, number, &writes_);
    if (pending.writes == 0) return absl::InvalidArgumentError("the bytes of a list of puts are none");
    for (Write& write : std::span(writes_).last(pending.writes)) {
      write.durability = DecodeDurability(pending.request.durability);
      write.request = NameOf(pending, number++);
    }
    return absl::OkStatus();
  }
  pending.writes = remora::AddBatch(copy, &writes_);
  if (pending.writes == 0) return absl::InvalidArgumentError("the bytes of a batch are none");
  Write& first = writes_[writes_.size() - pending.writes];
  first.request = NameOf(pending);
  first.durability = DecodeDurability(pending.request.durability);
  first.begins_batch = true;
  return absl::OkStatus();
}

template <typename Outcome>
void Server::NoteListed(const Pending& pending, PutList& list, std::size_t number, const Outcome& outcome) {
  const ReplyStatus status = ToReplyStatus(outcome.status);
  list.outcomes.Set(number, {status, 0, outcome.slot});
  list.versions[number] = outcome.version;
  if (const RequestName name = NameOf(pending, number); name.client != 0) {
    pending.client->Note(status, {name.number, outcome.version, 0});
  }
  if (status == ReplyStatus::kOk || number >= list.text_of) return;
  list.text_of = number;
  list.text = StdView(outcome.status.message());
}

bool Server::TakeList(Pending& pending, std::span<const Write> writes) {
  PutList fresh;
  PutList& list = pending.list == nullptr ? fresh : *pending.list;
  const std::size_t before = list.outcomes.size();
  for (const Write& write : writes) {
    if (IsPutOff(write.status)) break;
    REMORA_CHECK(list.outcomes.size() < kMaxListedPuts);  // AddPutList saw to it
    list.outcomes.Add({});
    if (write.ticket == 0) {
      NoteListed(pending, list, list.outcomes.size() - 1, write);
    } else {
      ++list.waiting;
    }
  }
  const std::size_t begun = list.outcomes.size() - before;
  list.is_put_off = begun < writes.size();
  if (list.is_over()) {
    AnswerList(pending, list);
    return true;
  }
  if (pending.list == nullptr) pending.list = std::make_shared<PutList>(std::move(fresh));
  for (std::size_t i = 0; i < begun; ++i) {
    if (writes[i].ticket != 0) AddUnsynced(writes[i].ticket, pending, before + i);
  }
  return !pending.list->is_put_off;
}

void Server::AnswerList(const Pending& pending, const PutList& list) {
  Reply reply;
  reply.request_id = pending.request.request_id;
  PutListOutcomes outcomes = list.outcomes;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    PutListOutcomes::Outcome outcome = outcomes[i];
    if (outcome.status != ReplyStatus::kOk) continue;
    if (reply.version == 0) reply.version = list.versions[i];
    // Others come between only where it was put off, and that many never do.
    outcome.later = static_cast<std::uint32_t>(list.versions[i] - reply.version);
    outcomes.Set(i, outcome);
  }
  std::array<char, kMaxReplyBehind> behind;
  const std::size_t size = PutListOutcomes::BytesFor(outcomes.size());
  outcomes.Encode(behind.data());
  const std::size_t text = std::min(list.text.size(), behind.size() - size);
  std::copy_n(list.text.data(), text, behind.data() + size);
  SendReply(pending.session, reply, {behind.data(), size + text});
}

}  // namespace remora
