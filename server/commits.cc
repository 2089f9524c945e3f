// Writes of all connections, committed as one group.
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/requests.h"
#include "server/server.h"
#include "store/base/absl_view.h"

namespace remora {

RequestName Server::NameOf(const Pending& pending) {
  if (pending.client == nullptr) return {};
  return {.client = pending.client->name, .number = pending.request.request_id};
}

bool Server::CommitWrites() {
  // A client that was dropped in this step takes its slice, and so its writes, with it.
  std::erase_if(write_requests_,
                [&](const Pending& pending) { return !sessions_.contains(pending.connection); });
  if (write_requests_.empty()) return false;

  writes_.clear();
  batches_.clear();
  batches_.reserve(write_requests_.size());  // writes point into its elements
  for (Pending& pending : write_requests_) {
    if (pending.request.operation == Operation::kBatch) {
      pending.refused = AddBatch(pending);
      continue;
    }
    Write& write = writes_.emplace_back();
    write.kind = KindOf(pending.request.operation);
    if (pending.request.operation == Operation::kCommit) {
      write.reserved = grants_->Committing(*pending.connection);
    } else {
      const ServerSession::Payload payload = sessions_.at(pending.connection)->PayloadOf(pending.request);
      write.key = payload.key;
      write.value = payload.value;
    }
    write.ttl = DecodeTtl(pending.request.ttl_ms);
    write.condition = Condition::Decode(pending.request.condition);
    write.durability = DecodeDurability(pending.request.durability);
    write.request = NameOf(pending);
    write.verify = VerifyPayload;
    write.verify_context = &pending.request;
  }
  store_->Submit(writes_);

  // Before any reply, which may find its client gone: what was reserved is the store's by now.
  std::size_t next = 0;
  for (const Pending& pending : write_requests_) {
    if (pending.writes == 0) continue;
    const Write& write = writes_[next];
    next += pending.writes;
    const bool used_up = write.reserved != nullptr && !absl::IsAborted(write.status);
    if (used_up) grants_->EndCommit(*pending.connection);
  }
  std::size_t put_off = 0;
  next = 0;
  const std::size_t count = write_requests_.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (write_requests_[i].writes == 0) {
      Answer(write_requests_[i], write_requests_[i].refused);
      continue;
    }
    const Write& write = writes_[next];  // of a batch, the first
    next += write_requests_[i].writes;
    if (absl::IsAborted(write.status)) {  // and so are all behind it: another step commits them
      write_requests_[put_off++] = write_requests_[i];
      continue;
    }
    if (write.ticket != 0) {
      if (write_requests_[i].client != nullptr) ++write_requests_[i].client->unsynced;
      unsynced_.emplace(write.ticket, write_requests_[i]);
      continue;
    }
    AnswerWrite(write_requests_[i], write);
  }
  write_requests_.resize(put_off);
  return put_off < count;
}

template <typename Outcome>
void Server::AnswerWrite(const Pending& pending, const Outcome& outcome) {
  Reply reply;
  reply.request_id = pending.request.request_id;
  reply.status = ToReplyStatus(outcome.status);
  reply.version = outcome.version;
  reply.slot = outcome.slot;
  reply.result = outcome.result;
  if (pending.client != nullptr) pending.client->Note(reply);
  SendReply(pending.connection, reply, StdView(outcome.status.message()));
}

bool Server::AnswerSynced() {
  if (!synced_.exchange(false, std::memory_order_acquire)) return false;
  synced_writes_.clear();
  store_->TakeSynced(&synced_writes_);
  for (const SyncedWrite& outcome : synced_writes_) {
    const auto node = unsynced_.extract(outcome.ticket);
    if (node.empty()) continue;
    if (node.mapped().client != nullptr) --node.mapped().client->unsynced;
    AnswerWrite(node.mapped(), outcome);
  }
  return true;
}

absl::Status Server::AddBatch(Pending& pending) {
  const auto shared = sessions_.at(pending.connection)->PartOf(pending.request);
  const std::string& copy =
      batches_.emplace_back(reinterpret_cast<const char*>(shared.data()), shared.size());
  pending.writes = 0;
  if (!VerifyPayload(&pending.request, HashKey({}), HashValue(copy.data(), copy.size()))) {
    return absl::DataLossError(
        "what was sent was damaged on its way: the batch does not match its checksum; nothing was done");
  }
  pending.writes = remora::AddBatch(copy, &writes_);
  if (pending.writes == 0) return absl::InvalidArgumentError("the bytes of a batch are none");
  Write& first = writes_[writes_.size() - pending.writes];
  first.request = NameOf(pending);
  first.durability = DecodeDurability(pending.request.durability);
  return absl::OkStatus();
}

}  // namespace remora
