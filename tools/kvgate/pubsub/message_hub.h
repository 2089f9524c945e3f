// The channels of a gate: which connections get a message.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "store/base/clock.h"
#include "store/base/mutex.h"
#include "tools/kvgate/pubsub/mailbox.h"

namespace remora::kvgate {

/// Kind of a subscription: to a channel by its name, to all channels that fit a pattern, or to a channel of a
/// shard. The latter has nothing in common with a channel of the same name.
enum class NameKind : std::uint8_t { kChannel, kPattern, kShardChannel };
inline constexpr std::size_t kNameKinds = 3;

/// Returns whether a channel that begins with `prefix`, and has more behind it, may be one of the name.
bool MayBeginWith(NameKind kind, std::string_view name, std::string_view prefix);

/// The subscriptions of all connections; adds published messages to their mailboxes.
///
/// Thread safety: all methods may be called from any thread.
class MessageHub {
 public:
  /// `clock` lives longer.
  explicit MessageHub(const Clock& clock) : clock_(clock) {}

  /// Both have no effect if it is so already.
  void Subscribe(NameKind kind, std::string_view name, const std::shared_ptr<Mailbox>& mailbox);
  void Unsubscribe(NameKind kind, std::string_view name, const std::shared_ptr<Mailbox>& mailbox);
  /// Adds the message to the mailboxes of all subscribers: one by its name, then one for each pattern that
  /// the channel fits. Returns how many it has added.
  std::size_t Publish(std::string_view channel, std::string_view payload);
  /// Adds the message to the mailboxes of all subscribers of a shard's channel. Returns how many it has
  /// added.
  std::size_t PublishInShard(std::string_view channel, std::string_view payload);

  /// Returns the subscribed names of a kind that fit the pattern.
  std::vector<std::string> Channels(NameKind kind, std::string_view pattern) const;
  /// Returns the number of clients that have subscribed to the channel by its name.
  std::size_t CountSubscribers(NameKind kind, std::string_view channel) const;
  /// Returns the number of names with subscribers.
  std::size_t CountNames(NameKind kind) const;

  /// Return whether a subscriber may get messages of a channel that begins with kKeyspacePrefix, or with
  /// kKeyeventPrefix.
  bool wants_keyspace() const { return keyspace_names_ > 0; }
  bool wants_keyevent() const { return keyevent_names_ > 0; }

 private:
  struct Subscribed {
    std::shared_ptr<const std::string> name;
    std::set<std::shared_ptr<Mailbox>> mailboxes;
  };
  using Names = std::map<std::string, Subscribed, std::less<>>;

  static std::size_t PlaceOf(NameKind kind) { return static_cast<std::size_t>(kind); }
  /// Adds the delivery to the mailboxes of the name. Returns how many it has added.
  std::size_t Deliver(NameKind kind, const Delivery& delivery) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Counts a name that has got its first subscriber (1), or lost its last (-1).
  void CountWishes(NameKind kind, std::string_view name, int change);

  const Clock& clock_;
  mutable Mutex mutex_;
  std::array<Names, kNameKinds> names_ ABSL_GUARDED_BY(mutex_);  // by PlaceOf
  std::atomic<int> keyspace_names_{0};
  std::atomic<int> keyevent_names_{0};
};

}  // namespace remora::kvgate
