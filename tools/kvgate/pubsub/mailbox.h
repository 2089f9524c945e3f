// Messages for one subscriber that its connection has not taken yet.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

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

/// A message in flight to one subscriber.
struct Delivery {
  std::shared_ptr<const Message> message{};
  std::shared_ptr<const std::string> pattern{};  // that the channel fits; null: the channel is subscribed
};

/// Adds the form of the message to `reply`: a push of RESP3, an array of RESP2.
void AppendDelivery(const Delivery& delivery, Reply* reply);

/// Bounds, those of client-output-buffer-limit in Redis: a mailbox with more than kMostBytes, or with more
/// than kManyBytes for kPatience, is overrun. It is then empty for good, and its connection ends.
///
/// Thread safety: all methods may be called from any thread.
class Mailbox {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{32} << 20;
  static constexpr std::size_t kManyBytes = std::size_t{8} << 20;
  static constexpr std::chrono::seconds kPatience{60};

  /// `wake` is called when the mailbox has got its first message, or is overrun. It may be called in any
  /// thread, within Add.
  explicit Mailbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  void Add(Delivery delivery, TimePoint now);
  /// Returns the oldest message. Nullopt: there is none.
  std::optional<Delivery> Take();
  void Clear();
  bool is_overrun() const;

 private:
  static std::size_t SizeOf(const Delivery& delivery);
  void ClearHeld() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<void()> wake_;
  mutable Mutex mutex_;
  std::deque<Delivery> deliveries_ ABSL_GUARDED_BY(mutex_);
  std::size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<TimePoint> many_since_ ABSL_GUARDED_BY(mutex_);
  bool is_overrun_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace remora::kvgate
