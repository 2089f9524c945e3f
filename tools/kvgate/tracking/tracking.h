// CLIENT TRACKING of one connection: its options, and its place in the table of the gate.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/kvgate/pubsub/mailbox.h"
#include "tools/kvgate/tracking/tracking_table.h"

namespace remora::kvgate {

struct TrackingOptions {
  std::int64_t redirect = 0;  // the ID of the client that gets the invalidations; 0: this one
  bool has_broadcast = false;
  bool has_optin = false;
  bool has_optout = false;
  bool has_noloop = false;
};

/// The words behind CLIENT TRACKING.
struct TrackingWish {
  TrackingOptions options{};
  std::vector<std::string> prefixes{};
};

/// A client that tracks, from the constructor to the destructor.
///
/// Thread safety: none.
class Tracking {
 public:
  /// `table` lives longer. The mailbox is that of the client.
  Tracking(TrackingTable& table, std::int64_t id, std::shared_ptr<Mailbox> mailbox) : table_(table), id_(id) {
    table_.Add(id, std::move(mailbox));
  }
  ~Tracking() { table_.Remove(id_, prefixes_); }
  Tracking(const Tracking&) = delete;
  Tracking& operator=(const Tracking&) = delete;

  void AddPrefix(const std::string& prefix) {
    if (prefixes_.insert(prefix).second) table_.AddPrefix(id_, prefix);
  }
  void Register(std::string_view key) { table_.Register(id_, key); }
  /// Returns whether the keys of the next read are to be registered.
  bool takes_keys() const {
    return !options.has_broadcast && (!options.has_optin || has_caching) &&
           (!options.has_optout || !has_caching);
  }
  const std::set<std::string>& prefixes() const { return prefixes_; }

  TrackingOptions options{};
  bool has_caching = false;  // CLIENT CACHING, for the next command
  bool is_broken = false;    // the client that REDIRECT names has gone

 private:
  TrackingTable& table_;
  const std::int64_t id_;
  std::set<std::string> prefixes_;
};

}  // namespace remora::kvgate
