// The primary's side of replication: its groups, and a link to each of its followers.
//
//   R10  acknowledged() is the least number that any follower has acknowledged, and 0 until each of them has
//        connected once. So no write is published or answered that a follower lacks.
//   R11  A group stays in memory until all followers have acknowledged it, or in the commit log, which keeps
//        more bytes than may be pending.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "server/monitoring/follower_activity.h"
#include "server/monitoring/operator_log.h"
#include "server/replication/link_thread.h"
#include "server/replication/shipped_groups.h"
#include "store/server_store.h"

namespace remora {

/// Ships the groups of a store to all followers.
///
/// Thread safety: none; the server's one thread. Its links have threads of their own.
class ReplicationSender {
 public:
  /// Has no links yet. `shown` gets their states. `wake` wakes the server thread. The references outlive
  /// this.
  ReplicationSender(ServerStore& store, const OperatorLog& log, FollowerActivities& shown,
                    std::function<void()> wake);
  ~ReplicationSender();
  ReplicationSender(const ReplicationSender&) = delete;
  ReplicationSender& operator=(const ReplicationSender&) = delete;

  /// The sink for ServerStore::Promote.
  GroupSink& sink() { return groups_; }
  /// Connects to the followers. REQUIRES: the sink is that of the store. ResourceExhausted: the system starts
  /// no thread.
  absl::Status Start(const std::vector<FollowerAddress>& followers, const History& history, bool is_synced,
                     std::chrono::milliseconds lease_time);

  /// Ends the links, for good. The sink stays.
  void End();

  /// Takes what the followers have said: has the store publish what all have acknowledged, and logs what has
  /// changed. Returns false if there was nothing to do.
  bool Step();

  /// Asks all followers in this round of the lease line.
  void Ask(std::uint64_t round);
  /// Returns the last round that all followers have answered.
  std::uint64_t answered() const;
  /// Returns whether a follower rejects this primary. A promoted one does.
  bool is_rejected() const { return is_rejected_; }

  std::uint64_t acknowledged() const;
  std::size_t pending_bytes() const { return groups_.bytes(); }
  /// Returns the number of followers that are not connected, or do not answer.
  std::size_t away() const { return away_; }

 private:
  /// Logs and shows each link that has changed, and counts those that are away.
  void LogChanges();

  ServerStore& store_;
  const OperatorLog& log_;
  FollowerActivities& shown_;  // by links
  const std::function<void()> wake_;
  std::uint64_t published_;  // the number that the store was told of
  std::uint64_t shipped_;    // the number that the metrics have
  std::size_t away_ = 0;
  bool is_rejected_ = false;
  std::uint64_t changes_ = 0;               // of all links, logged
  std::vector<LinkThread::Status> logged_;  // by links
  ShippedGroups groups_;
  LinkThread::Source source_;
  std::atomic<bool> has_links_ = false;             // links_ does not change any more
  std::vector<std::unique_ptr<LinkThread>> links_;  // last: they use what is before
};

}  // namespace remora
