#include "server/connection/client_table.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "store/base/check.h"

namespace remora {

Reply ClientEntry::Find(std::uint64_t request_id) const {
  Reply reply;
  const Completion& completion = completions[request_id % kCompletionsPerClient];
  if (request_id == 0 || request_id >= first_request_id) {
    reply.status = ReplyStatus::kInvalid;
  } else if (completion.record.number > request_id) {
    reply.status = ReplyStatus::kUnknown;
  } else if (completion.record.number < request_id) {
    reply.status = ReplyStatus::kNotFound;
  } else {
    reply.status = completion.status;
    reply.version = completion.record.version;
    reply.result = completion.record.result;
  }
  return reply;
}

ClientTable::ClientTable(std::size_t max_gone, std::vector<ClientCompletions> remembered)
    : max_gone_(max_gone) {
  Remember(std::move(remembered));
}

void ClientTable::Remember(std::vector<ClientCompletions> remembered) {
  REMORA_CHECK(gone_.size() == clients_.size());
  clients_.clear();
  gone_.clear();
  std::stable_sort(
      remembered.begin(), remembered.end(),
      [](const ClientCompletions& a, const ClientCompletions& b) { return a.since_ms < b.since_ms; });
  for (const ClientCompletions& one : remembered) {
    ClientEntry& client = Begin(one.client, nullptr);
    for (const CompletionRecord& record : one.completions) {
      client.completions[record.number % kCompletionsPerClient] = {record, ReplyStatus::kOk};
      client.last_request_id = std::max(client.last_request_id, record.number);
    }
    End(client);
  }
}

ClientEntry* ClientTable::Find(std::uint64_t id) {
  const auto found = clients_.find(id);
  return found == clients_.end() ? nullptr : &found->second->client;
}

ClientEntry& ClientTable::Begin(std::uint64_t id, rdma::Connection* connection) {
  std::unique_ptr<Entry>& entry = clients_[id];
  if (entry == nullptr) {
    entry = std::make_unique<Entry>();
    entry->client.id = id;
  } else {
    REMORA_CHECK(entry->client.connection == nullptr);
    gone_.erase(entry->gone);
  }
  entry->client.connection = connection;
  entry->client.first_request_id = 0;
  return entry->client;
}

void ClientTable::End(ClientEntry& client) {
  client.connection = nullptr;
  clients_.at(client.id)->gone = gone_.insert(gone_.end(), client.id);
}

std::vector<std::uint64_t> ClientTable::Forget() {
  std::vector<std::uint64_t> forgotten;
  for (; gone_.size() > max_gone_ && clients_.at(gone_.front())->client.unsynced == 0; gone_.pop_front()) {
    forgotten.push_back(gone_.front());
    clients_.erase(gone_.front());
  }
  return forgotten;
}

}  // namespace remora
