// The primary's side of replication: its groups, and a link to each of its followers.
//
//   R10  acknowledged() is the least number that any follower has acknowledged, and 0 until each of them has
//        connected once. So no write is published or answered that a follower lacks.
//   R11  A group stays in memory until all followers have acknowledged it, or in the commit log, which keeps
//        more bytes than may be pending.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "server/monitoring/follower_activity.h"
#include "server/monitoring/operator_log.h"
#include "server/replication/link_thread.h"
#include "server/replication/membership.h"
#include "server/replication/shipped_groups.h"
#include "store/base/mutex.h"
#include "store/server_store.h"

namespace remora {

/// Ships the groups of a store to all followers.
///
/// The class has more than 15 fields, because links come and go while it ships, and the store's threads wake
/// them.
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
  /// no thread; then it has no links.
  absl::Status Start(const std::vector<FollowerAddress>& followers, const History& history, bool is_synced,
                     std::chrono::milliseconds lease_time, LinkThread::Copies copies);

  /// Changes the followers: ends links to others, and begins those that are missing. From now on, SetCounts
  /// has these. REQUIRES: Start was called. ResourceExhausted: as of Start; then nothing has changed.
  absl::Status SetFollowers(const std::vector<FollowerAddress>& followers);

  /// Ends the links, for good. The sink stays.
  void End();

  /// Takes what the followers have said: has the store publish what all have acknowledged, and logs what has
  /// changed. Returns false if there was nothing to do.
  bool Step();

  /// Asks all followers in this round of the lease line.
  void Ask(std::uint64_t round);
  /// Returns a round up to which all may end: the last one that all followers that count have answered, and
  /// that of SetCounts at most.
  std::uint64_t answered() const;
  /// Returns whether a follower rejects this primary. A promoted one does. Once SetCounts was called, it is
  /// false: the cluster's configuration says then whether the primary was replaced.
  bool is_rejected() const { return is_rejected_; }

  std::uint64_t acknowledged() const;
  /// The links for which groups and rounds wait, by followers, and the last ones that may go on at all.
  struct Counts {
    std::vector<bool> links{};
    std::uint64_t last_group = 0;
    std::uint64_t last_round = 0;
  };
  void SetCounts(Counts counts);
  std::uint64_t published() const { return published_; }
  /// Returns the state of each link.
  std::vector<MemberReport::Follower> followers() const;
  std::size_t pending_bytes() const { return groups_.bytes(); }
  /// Returns the number of followers that count, and are not connected, or do not answer.
  std::size_t away() const { return away_; }

 private:
  /// A link, as the log and the monitors know it.
  struct Told {
    LinkThread::Status status{};
    std::uint64_t acknowledged = 0;
  };

  /// Returns the least of these numbers over the links that count; the greatest number, if none does.
  std::uint64_t Least(std::uint64_t (LinkThread::*of)() const) const;
  /// Returns whether the store and the lease line wait for this link.
  bool IsCounted(std::size_t link) const {
    return !counts_ || (link < counts_->links.size() && counts_->links[link]);
  }
  /// Returns what the log says behind the state of a link.
  std::string_view Consequence(LinkState state, std::size_t link) const;
  /// Logs and shows each link that has changed, and counts those that are away.
  void LogChanges();
  /// Has new groups wake the links, and the monitors show them.
  void ShowLinks();

  ServerStore& store_;
  const OperatorLog& log_;
  FollowerActivities& shown_;  // by links
  const std::function<void()> wake_;
  std::uint64_t published_;         // the number that the store was told of
  std::uint64_t shipped_;           // the number that the metrics have
  std::optional<Counts> counts_{};  // of a cluster; nothing: all links count
  std::size_t away_ = 0;
  bool is_rejected_ = false;
  std::uint64_t changes_ = 0;  // of all links, logged
  std::vector<Told> told_;     // by links
  ShippedGroups groups_;
  LinkThread::Source source_;
  std::vector<std::unique_ptr<LinkThread>> links_;
  std::vector<std::unique_ptr<LinkThread>> stopped_;  // that were stopped, and may not have ended yet
  Mutex mutex_;
  std::vector<LinkThread*> woken_ ABSL_GUARDED_BY(mutex_);  // by each group; these are links_
};

}  // namespace remora
