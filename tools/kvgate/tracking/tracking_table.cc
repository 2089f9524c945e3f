#include "tools/kvgate/tracking/tracking_table.h"

#include <utility>

namespace remora::kvgate {
namespace {

// Bytes of the nodes of the containers, about.
constexpr std::size_t kKeyOverhead = 200;
constexpr std::size_t kItemBytes = 48;

}  // namespace

void TrackingTable::Add(std::int64_t id, std::shared_ptr<Mailbox> mailbox) {
  const MutexLock lock(mutex_);
  clients_.insert_or_assign(id, std::move(mailbox));
  has_clients_ = true;
}

void TrackingTable::AddPrefix(std::int64_t id, std::string_view prefix) {
  const MutexLock lock(mutex_);
  auto found = prefixes_.find(prefix);
  if (found == prefixes_.end()) {
    found = prefixes_.emplace(std::string(prefix), std::set<std::int64_t>()).first;
    ++prefix_sizes_[prefix.size()];
  }
  found->second.insert(id);
}

void TrackingTable::Remove(std::int64_t id, const std::set<std::string>& prefixes) {
  const MutexLock lock(mutex_);
  for (const std::string& prefix : prefixes) {
    const auto found = prefixes_.find(prefix);
    if (found == prefixes_.end()) continue;
    found->second.erase(id);
    if (!found->second.empty()) continue;
    prefixes_.erase(found);
    if (--prefix_sizes_[prefix.size()] == 0) prefix_sizes_.erase(prefix.size());
  }
  clients_.erase(id);
  if (!clients_.empty()) return;
  Clear();
  has_clients_ = false;
}

void TrackingTable::Register(std::int64_t id, std::string_view key) {
  const MutexLock lock(mutex_);
  auto found = by_key_.find(key);
  if (found == by_key_.end()) {
    const auto entry = entries_.insert(entries_.end(), {std::string(key), {}});
    found = by_key_.emplace(entry->key, entry).first;
    bytes_ += key.size() + kKeyOverhead;
  }
  if (!found->second->ids.insert(id).second) return;
  ++items_;
  bytes_ += kItemBytes;
  TakeOldest();
}

void TrackingTable::Invalidate(std::string_view key) {
  const MutexLock lock(mutex_);
  if (const auto found = by_key_.find(key); found != by_key_.end()) Take(found->second);
  if (prefixes_.empty()) return;
  const auto text = std::make_shared<const std::string>(key);
  for (const auto& [size, count] : prefix_sizes_) {
    if (size > key.size()) break;
    const auto found = prefixes_.find(key.substr(0, size));
    if (found == prefixes_.end()) continue;
    for (const std::int64_t id : found->second) Send(id, text);
  }
}

void TrackingTable::InvalidateAll() {
  const MutexLock lock(mutex_);
  Clear();
  for (const auto& [id, mailbox] : clients_) Send(id, nullptr);
}

void TrackingTable::DisconnectAll(std::string_view reason) {
  const MutexLock lock(mutex_);
  Clear();
  for (const auto& [id, mailbox] : clients_) {
    Send(id, nullptr);
    mailbox->End(reason);
  }
}

void TrackingTable::SetMaxKeys(std::size_t max_keys) {
  const MutexLock lock(mutex_);
  max_keys_ = max_keys;
  TakeOldest();
}

TrackingTable::Counts TrackingTable::counts() const {
  const MutexLock lock(mutex_);
  return {.clients = clients_.size(), .keys = entries_.size(), .items = items_, .prefixes = prefixes_.size()};
}

void TrackingTable::Send(std::int64_t id, const std::shared_ptr<const std::string>& key) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  found->second->Add({.kind = DeliveryKind::kInvalidation, .key = key}, clock_.Now());
}

void TrackingTable::Take(Entries::iterator entry) {
  by_key_.erase(entry->key);
  items_ -= entry->ids.size();
  bytes_ -= entry->key.size() + kKeyOverhead + entry->ids.size() * kItemBytes;
  const auto key = std::make_shared<const std::string>(std::move(entry->key));
  for (const std::int64_t id : entry->ids) Send(id, key);
  entries_.erase(entry);
}

void TrackingTable::TakeOldest() {
  const auto is_full = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return (max_keys_ > 0 && entries_.size() > max_keys_) || bytes_ > kMaxBytes;
  };
  while (!entries_.empty() && is_full()) Take(entries_.begin());
}

void TrackingTable::Clear() {
  by_key_.clear();
  entries_.clear();
  items_ = bytes_ = 0;
}

}  // namespace remora::kvgate
