#include "tools/kvgate/pubsub/message_hub.h"

#include <utility>

#include "tools/kvgate/commands/pattern.h"
#include "tools/kvgate/pubsub/event_flags.h"

namespace remora::kvgate {

bool MayBeginWith(NameKind kind, std::string_view name, std::string_view prefix) {
  if (kind == NameKind::kShardChannel) return false;
  const std::string_view fixed = kind == NameKind::kChannel ? name : PrefixOf(name);
  if (fixed.size() >= prefix.size()) return fixed.starts_with(prefix);
  return fixed.size() < name.size() && prefix.starts_with(fixed);
}

void MessageHub::CountWishes(NameKind kind, std::string_view name, int change) {
  if (MayBeginWith(kind, name, kKeyspacePrefix)) keyspace_names_ += change;
  if (MayBeginWith(kind, name, kKeyeventPrefix)) keyevent_names_ += change;
}

void MessageHub::Subscribe(NameKind kind, std::string_view name, const std::shared_ptr<Mailbox>& mailbox) {
  const MutexLock lock(mutex_);
  Names& names = names_[PlaceOf(kind)];
  auto found = names.find(name);
  if (found == names.end()) {
    found = names.emplace(std::string(name), Subscribed{std::make_shared<const std::string>(name), {}}).first;
    CountWishes(kind, name, 1);
  }
  found->second.mailboxes.insert(mailbox);
}

void MessageHub::Unsubscribe(NameKind kind, std::string_view name, const std::shared_ptr<Mailbox>& mailbox) {
  const MutexLock lock(mutex_);
  Names& names = names_[PlaceOf(kind)];
  const auto found = names.find(name);
  if (found == names.end()) return;
  found->second.mailboxes.erase(mailbox);
  if (!found->second.mailboxes.empty()) return;
  CountWishes(kind, name, -1);
  names.erase(found);
}

std::size_t MessageHub::Deliver(NameKind kind, const Delivery& delivery) {
  const Names& channels = names_[PlaceOf(kind)];
  const auto found = channels.find(delivery.message->channel);
  if (found == channels.end()) return 0;
  const TimePoint now = clock_.Now();
  for (const auto& mailbox : found->second.mailboxes) mailbox->Add(delivery, now);
  return found->second.mailboxes.size();
}

std::size_t MessageHub::PublishInShard(std::string_view channel, std::string_view payload) {
  const auto message = std::make_shared<const Message>(Message{std::string(channel), std::string(payload)});
  const MutexLock lock(mutex_);
  return Deliver(NameKind::kShardChannel, {.message = message, .kind = DeliveryKind::kShardMessage});
}

std::size_t MessageHub::Publish(std::string_view channel, std::string_view payload) {
  const auto message = std::make_shared<const Message>(Message{std::string(channel), std::string(payload)});
  const TimePoint now = clock_.Now();
  const MutexLock lock(mutex_);
  std::size_t count = Deliver(NameKind::kChannel, {.message = message});
  for (const auto& [pattern, subscribed] : names_[PlaceOf(NameKind::kPattern)]) {
    if (!FitsPattern(pattern, channel)) continue;
    for (const auto& mailbox : subscribed.mailboxes) mailbox->Add({message, subscribed.name}, now);
    count += subscribed.mailboxes.size();
  }
  return count;
}

std::vector<std::string> MessageHub::Channels(NameKind kind, std::string_view pattern) const {
  std::vector<std::string> channels;
  const MutexLock lock(mutex_);
  for (const auto& [name, subscribed] : names_[PlaceOf(kind)]) {
    if (FitsPattern(pattern, name)) channels.push_back(name);
  }
  return channels;
}

std::size_t MessageHub::CountSubscribers(NameKind kind, std::string_view channel) const {
  const MutexLock lock(mutex_);
  const Names& channels = names_[PlaceOf(kind)];
  const auto found = channels.find(channel);
  return found == channels.end() ? 0 : found->second.mailboxes.size();
}

std::size_t MessageHub::CountNames(NameKind kind) const {
  const MutexLock lock(mutex_);
  return names_[PlaceOf(kind)].size();
}

}  // namespace remora::kvgate
