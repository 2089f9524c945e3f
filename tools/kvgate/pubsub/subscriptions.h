// The names that one connection has subscribed to.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "tools/kvgate/pubsub/mailbox.h"
#include "tools/kvgate/pubsub/message_hub.h"

namespace remora::kvgate {

/// A connection without subscriptions has an empty mailbox. The destructor ends all subscriptions.
///
/// Thread safety: none.
class Subscriptions {
 public:
  using Names = std::set<std::string, std::less<>>;

  static constexpr std::size_t kMostNames = 4096;
  static constexpr std::size_t kMostNameBytes = std::size_t{1} << 20;  // of all names together
  static constexpr std::size_t kLongestName = 8192;                    // a key and its prefix are shorter

  /// `hub` lives longer. `wake`: as for Mailbox.
  Subscriptions(MessageHub& hub, std::function<void()> wake)
      : hub_(hub), mailbox_(std::make_shared<Mailbox>(std::move(wake))) {}
  ~Subscriptions() { Reset(); }
  Subscriptions(const Subscriptions&) = delete;
  Subscriptions& operator=(const Subscriptions&) = delete;

  /// Returns false if there are too many names, or they are too long: then nothing changes.
  bool Subscribe(NameKind kind, std::string_view name);
  /// Ends a subscription, if there is one. Messages that came before stay in the mailbox.
  void Unsubscribe(NameKind kind, std::string_view name);
  /// Ends all subscriptions, and drops their messages.
  void Reset();

  const Names& names(NameKind kind) const { return names_[static_cast<std::size_t>(kind)]; }
  /// Returns how many there are of all kinds.
  std::size_t size() const { return names_[0].size() + names_[1].size() + names_[2].size(); }
  bool empty() const { return size() == 0; }
  Mailbox& mailbox() { return *mailbox_; }
  const std::shared_ptr<Mailbox>& shared_mailbox() const { return mailbox_; }

 private:
  MessageHub& hub_;
  const std::shared_ptr<Mailbox> mailbox_;
  std::array<Names, kNameKinds> names_;
  std::size_t name_bytes_ = 0;
};

}  // namespace remora::kvgate
