#include "tools/kvgate/pubsub/mailbox.h"

#include <utility>

namespace remora::kvgate {
namespace {

// Bytes of a message's entry, and of the words around it in a reply.
constexpr std::size_t kOverhead = 128;

}  // namespace

void AppendDelivery(const Delivery& delivery, Reply* reply) {
  const bool has_pattern = delivery.pattern != nullptr;
  reply->Push(has_pattern ? 4 : 3);
  reply->Bulk(has_pattern ? "pmessage" : "message");
  if (has_pattern) reply->Bulk(*delivery.pattern);
  reply->Bulk(delivery.message->channel);
  reply->Bulk(delivery.message->payload);
}

std::size_t Mailbox::SizeOf(const Delivery& delivery) {
  const std::size_t pattern = delivery.pattern == nullptr ? 0 : delivery.pattern->size();
  return delivery.message->channel.size() + delivery.message->payload.size() + pattern + kOverhead;
}

void Mailbox::Add(Delivery delivery, TimePoint now) {
  bool is_news = false;
  {
    const MutexLock lock(mutex_);
    if (is_overrun_) return;
    is_news = deliveries_.empty();
    bytes_ += SizeOf(delivery);
    deliveries_.push_back(std::move(delivery));
    if (bytes_ > kManyBytes && !many_since_) many_since_ = now;
    if (bytes_ > kMostBytes || (many_since_ && now - *many_since_ >= kPatience)) {
      ClearHeld();
      is_overrun_ = is_news = true;
    }
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
}

bool Mailbox::is_overrun() const {
  const MutexLock lock(mutex_);
  return is_overrun_;
}

}  // namespace remora::kvgate
