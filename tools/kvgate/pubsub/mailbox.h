// Messages for one subscriber that its connection has not taken yet.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "store/base/clock.h"
#include "store/base/mutex.h"
#include "tools/kvgate/resp/reply.h"

namespace remora::kvgate {

/// A message, which all of its receivers share.
struct Message {
  std::string channel;
  std::string payload;
};

/// The channel of invalidations for subscribers in RESP2.
inline constexpr std::string_view kInvalidationChannel = "__redis__:invalidate";

/// Kinds of messages of a client:
///   kMessage:      a message of a channel.
///   kInvalidation: for CLIENT TRACKING of this client. It leaves behind the replies to all commands that
///                  have begun, or goes to the client that REDIRECT names.
///   kRedirected:   an invalidation of another client, which REDIRECT has sent here.
///   kShardMessage: a message of a channel of a shard.
enum class DeliveryKind : std::uint8_t {
  kMessage = 1,
  kInvalidation = 2,
  kRedirected = 3,
  kShardMessage = 4
};

/// A message in flight to one client.
struct Delivery {
  std::shared_ptr<const Message> message{};
  std::shared_ptr<const std::string> pattern{};  // that the channel fits; null: the channel is subscribed
  DeliveryKind kind = DeliveryKind::kMessage;
  std::shared_ptr<const std::string> key{};  // of an invalidation; null: all keys
};

/// Adds the form of the delivery to `reply`: a push of RESP3, an array of RESP2.
void AppendDelivery(const Delivery& delivery, Reply* reply);

/// Bounds, those of client-output-buffer-limit in Redis: a mailbox with more than kMostBytes, or with more
/// than kManyBytes for kPatience, is overrun. It is then empty for good, and its connection ends.
/// End ends a connection, too.
///
/// Thread safety: all methods may be called from any thread.
class Mailbox {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{32} << 20;
  static constexpr std::size_t kManyBytes = std::size_t{8} << 20;
  static constexpr std::chrono::seconds kPatience{60};

  /// `wake` is called when the mailbox has got its first message, or has ended. It may be called in any
  /// thread, within Add or End.
  explicit Mailbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  void Add(Delivery delivery, TimePoint now);
  /// Returns the oldest message. Nullopt: there is none.
  std::optional<Delivery> Take();
  void Clear();
  /// Has the connection end behind the messages that are there. No more come. `reason` lives longer.
  void End(std::string_view reason);
  /// Returns why the connection has to end. Empty: it goes on.
  std::string_view end_reason() const;
  /// Returns whether there are messages, or the mailbox has ended. Costs no lock.
  bool has_news() const { return has_news_.load(std::memory_order_acquire); }

  /// Returns the bytes that a delivery counts.
  static std::size_t SizeOf(const Delivery& delivery);

 private:
  void ClearHeld() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<void()> wake_;
  mutable Mutex mutex_;
  std::deque<Delivery> deliveries_ ABSL_GUARDED_BY(mutex_);
  std::size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<TimePoint> many_since_ ABSL_GUARDED_BY(mutex_);
  std::string_view end_reason_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> has_news_{false};  // written under the lock
};

}  // namespace remora::kvgate
