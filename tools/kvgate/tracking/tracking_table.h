// The keys that clients cache (CLIENT TRACKING): which clients get an invalidation for a change.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "store/base/clock.h"
#include "store/base/mutex.h"
#include "tools/kvgate/pubsub/mailbox.h"

namespace remora::kvgate {

/// The clients of a gate that track, their keys and their prefixes. The watcher of the server's changes calls
/// Invalidate for each change, in the order of the server.
///
/// A client that drops a value at its invalidation, and all values at the end of its connection, keeps no
/// stale one. That is: let a reply have a value of a key, and let a later write change the key. If the watch
/// shows changes again behind that write, the gate sends an invalidation behind the reply, or ends the
/// connection. The argument has these invariants:
///   V1: the watch has begun before the first tracked read of a client, as the reply to CLIENT TRACKING ON
///       waits for it. The watch goes on while the table has a client.
///   V2: a key is registered before the READ of its value begins (Connection::Execute, EXEC).
///   V3: Invalidate takes the registrations of a key and adds the invalidations to the mailboxes under one
///       lock. So each registration ends with one invalidation: for a change, for space, or for all keys.
///   V4: an invalidation leaves behind the replies to all commands that had begun when the connection took it
///       from the mailbox (Connection::Work), also if REDIRECT sends it to another client.
///   V5: if changes were lost, InvalidateAll follows the start of the next watch, and precedes its changes.
///       If the server was started anew, and the watch continues, InvalidateAll precedes its next change.
///   V6: a mailbox that overruns ends its connection.
///   V7: if the server shows no changes any more, each client's connection ends (DisconnectAll), and CLIENT
///       TRACKING ON is an error from then on.
///
/// By V1 the watch shows the write, or V5 or V7 holds. By V2 the client was registered before the READ, and
/// so before the write. If the registration is there when the write is shown, its invalidation comes, behind
/// the reply by V4. If it is not, an earlier change took it, after the command had begun: by V3 that
/// invalidation comes, and by V4 it follows the reply, too. In both cases the client drops the value after it
/// got it.
///
/// A write before the READ needs no invalidation, as the READ sees it: the server shows only changes
/// that READs see. With V5, a READ before InvalidateAll had its registration taken by it; a READ after it
/// began within the watch. A READ of a server that has ended began before V5's InvalidateAll, as a client
/// takes no bytes of a mapping whose server is gone. Clients with BCAST have no registrations: all changes of
/// their prefixes come, by V1, V4 and V5.
///
/// Thread safety: all methods may be called from any thread.
class TrackingTable {
 public:
  static constexpr std::size_t kDefaultMaxKeys = 1'000'000;
  /// Bound of keys and registrations together, with what the containers need.
  static constexpr std::size_t kMaxBytes = std::size_t{256} << 20;

  struct Counts {
    std::size_t clients = 0;
    std::size_t keys = 0;
    std::size_t items = 0;  // registrations
    std::size_t prefixes = 0;
  };

  /// `clock` lives longer.
  explicit TrackingTable(const Clock& clock) : clock_(clock) {}

  /// Adds a client. The caller removes it before the end of the thread that the mailbox wakes.
  void Add(std::int64_t id, std::shared_ptr<Mailbox> mailbox);
  /// Has the client get the changes of all keys that begin with the prefix.
  void AddPrefix(std::int64_t id, std::string_view prefix);
  void Remove(std::int64_t id, const std::set<std::string>& prefixes);
  /// Registers the key for one invalidation. Without space, it takes the oldest keys, as if they had changed.
  void Register(std::int64_t id, std::string_view key);
  void Invalidate(std::string_view key);
  /// Takes all registrations. Each client gets an invalidation of all keys.
  void InvalidateAll();
  /// Does InvalidateAll, and then ends the connections of the clients. `reason` lives longer.
  void DisconnectAll(std::string_view reason);

  /// Returns how many keys are registered at most. 0: any number.
  std::size_t max_keys() const { return max_keys_; }
  void SetMaxKeys(std::size_t max_keys);
  bool has_clients() const { return has_clients_; }
  Counts counts() const;

 private:
  struct Entry {
    std::string key;
    std::set<std::int64_t> ids;
  };
  using Entries = std::list<Entry>;

  void Send(std::int64_t id, const std::shared_ptr<const std::string>& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Takes an entry, and sends its invalidations.
  void Take(Entries::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Clear() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  std::atomic<std::size_t> max_keys_{kDefaultMaxKeys};
  std::atomic<bool> has_clients_{false};
  mutable Mutex mutex_;
  std::map<std::int64_t, std::shared_ptr<Mailbox>> clients_ ABSL_GUARDED_BY(mutex_);
  Entries entries_ ABSL_GUARDED_BY(mutex_);  // the oldest first; a client that has gone may still be in them
  std::unordered_map<std::string_view, Entries::iterator> by_key_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::set<std::int64_t>, std::less<>> prefixes_ ABSL_GUARDED_BY(mutex_);
  std::map<std::size_t, std::size_t> prefix_sizes_ ABSL_GUARDED_BY(mutex_);  // and how many have each
  std::size_t items_ ABSL_GUARDED_BY(mutex_) = 0;
  std::size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace remora::kvgate
