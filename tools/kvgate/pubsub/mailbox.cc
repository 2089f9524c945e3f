#include "tools/kvgate/pubsub/mailbox.h"

#include <utility>

namespace remora::kvgate {
namespace {

// Bytes of a message's entry, and of the words around it in a reply.
constexpr std::size_t kOverhead = 128;

constexpr std::string_view kOverrun = "it did not take its messages in time";

/// `key`: null for all keys.
void AppendInvalidation(const std::string* key, Reply* reply) {
  const bool is_push = reply->protocol() > 2;
  reply->Push(is_push ? 2 : 3);
  reply->Bulk(is_push ? "invalidate" : "message");
  if (!is_push) reply->Bulk(kInvalidationChannel);
  if (key == nullptr) return reply->Null();
  reply->Array(1);
  reply->Bulk(*key);
}

}  // namespace

void AppendDelivery(const Delivery& delivery, Reply* reply) {
  const bool is_of_shard = delivery.kind == DeliveryKind::kShardMessage;
  if (!is_of_shard && delivery.kind != DeliveryKind::kMessage) {
    return AppendInvalidation(delivery.key.get(), reply);
  }
  const bool has_pattern = delivery.pattern != nullptr;
  reply->Push(has_pattern ? 4 : 3);
  reply->Bulk(has_pattern ? "pmessage" : is_of_shard ? "smessage" : "message");
  if (has_pattern) reply->Bulk(*delivery.pattern);
  reply->Bulk(delivery.message->channel);
  reply->Bulk(delivery.message->payload);
}

std::size_t Mailbox::SizeOf(const Delivery& delivery) {
  const auto size_of = [](const auto& text) { return text == nullptr ? std::size_t{0} : text->size(); };
  const Message* const message = delivery.message.get();
  const std::size_t bytes = message == nullptr ? 0 : message->channel.size() + message->payload.size();
  return bytes + size_of(delivery.pattern) + size_of(delivery.key) + kOverhead;
}

void Mailbox::Add(Delivery delivery, TimePoint now) {
  bool is_news = false;
  {
    const MutexLock lock(mutex_);
    if (!end_reason_.empty()) return;
    is_news = deliveries_.empty();
    bytes_ += SizeOf(delivery);
    deliveries_.push_back(std::move(delivery));
    if (bytes_ > kManyBytes && !many_since_) many_since_ = now;
    if (bytes_ > kMostBytes || (many_since_ && now - *many_since_ >= kPatience)) {
      ClearHeld();
      end_reason_ = kOverrun;
      is_news = true;
    }
    has_news_.store(true, std::memory_order_release);
  }
  if (is_news) wake_();
}

std::optional<Delivery> Mailbox::Take() {
  const MutexLock lock(mutex_);
  if (deliveries_.empty()) return std::nullopt;
  Delivery delivery = std::move(deliveries_.front());
  deliveries_.pop_front();
  bytes_ -= SizeOf(delivery);
  if (bytes_ <= kManyBytes) many_since_.reset();
  if (deliveries_.empty()) has_news_.store(!end_reason_.empty(), std::memory_order_release);
  return delivery;
}

void Mailbox::Clear() {
  const MutexLock lock(mutex_);
  ClearHeld();
}

void Mailbox::ClearHeld() {
  deliveries_.clear();
  bytes_ = 0;
  many_since_.reset();
  has_news_.store(!end_reason_.empty(), std::memory_order_release);
}

void Mailbox::End(std::string_view reason) {
  {
    const MutexLock lock(mutex_);
    if (!end_reason_.empty()) return;
    end_reason_ = reason;
    has_news_.store(true, std::memory_order_release);
  }
  wake_();
}

std::string_view Mailbox::end_reason() const {
  const MutexLock lock(mutex_);
  return end_reason_;
}

}  // namespace remora::kvgate
