#include "tools/kvgate/network/client_registry.h"

#include <sys/socket.h>

#include <utility>

namespace remora::kvgate {

std::shared_ptr<ClientRecord> ClientRegistry::Add(std::string address, std::string local_address, int fd,
                                                  std::int64_t now_ms) {
  auto record = std::make_shared<ClientRecord>();
  record->address = std::move(address);
  record->local_address = std::move(local_address);
  record->fd = fd;
  record->connected_ms = now_ms;
  record->active_ms = now_ms;
  const MutexLock lock(mutex_);
  record->id = ++last_id_;
  records_.emplace(record->id, record);
  return record;
}

void ClientRegistry::Remove(std::int64_t id) {
  const MutexLock lock(mutex_);
  records_.erase(id);
}

void ClientRegistry::ForEach(const std::function<void(const ClientRecord&)>& visit) const {
  const MutexLock lock(mutex_);
  for (const auto& [id, record] : records_) {
    if (!record->is_shut_down) visit(*record);
  }
}

void ClientRegistry::Rename(std::string ClientRecord::*name, ClientRecord* record, std::string text) {
  const MutexLock lock(mutex_);
  record->*name = std::move(text);
}

void ClientRegistry::ShutDown(const std::function<bool(const ClientRecord&)>& ends) {
  const MutexLock lock(mutex_);
  for (const auto& [id, record] : records_) {
    // The owner removes a client before it closes the socket, so the number is still that of the client.
    if (record->is_shut_down || !ends(*record)) continue;
    record->is_shut_down = true;
    ::shutdown(record->fd, SHUT_RDWR);
  }
}

void ClientRegistry::SetMailbox(ClientRecord* record, std::shared_ptr<Mailbox> mailbox) {
  const MutexLock lock(mutex_);
  record->mailbox = std::move(mailbox);
}

bool ClientRegistry::Has(std::int64_t id) const {
  const MutexLock lock(mutex_);
  const auto found = records_.find(id);
  return found != records_.end() && !found->second->is_shut_down;
}

bool ClientRegistry::Send(std::int64_t id, Delivery delivery, TimePoint now) {
  const MutexLock lock(mutex_);
  const auto found = records_.find(id);
  if (found == records_.end() || found->second->is_shut_down || found->second->mailbox == nullptr)
    return false;
  found->second->mailbox->Add(std::move(delivery), now);
  return true;
}

std::size_t ClientRegistry::size() const {
  const MutexLock lock(mutex_);
  return records_.size();
}

}  // namespace remora::kvgate
