// The part of a server in replication, with a fixed set of followers.
//
//   follower ──kPromote, and T after its last answer──▶ opening ──all followers have its groups──▶ primary
//                                                          ▲
//   start with --replicate_to, once the store is loaded ───┘
//
// T is the lease time. store/format/memory/lease_line.h has the invariants Q1 to Q7 of leases.
//
//   R12  A primary serves no client before all its followers have all groups that it had at its start. So
//        after a restart, no client sees a write that a follower lacks. A primary that was replaced never
//        serves again: the promoted server rejects it.
//   R13  A promotion keeps its reign on the disk before the store writes the first group of it. So two stores
//        with the same reign have the same groups up to the lesser of their last ones.
//   R14  A store that was promoted does not follow again, and one that follows is not opened to write without
//        a promotion, unless its operator changes the history's file.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/connection/session_observer.h"
#include "server/monitoring/operator_log.h"
#include "server/replication/follower_connection.h"
#include "server/replication/follower_service.h"
#include "server/replication/handover.h"
#include "server/replication/history.h"
#include "server/replication/lease_service.h"
#include "server/replication/membership.h"
#include "server/replication/replication_sender.h"
#include "server/request/pending_request.h"
#include "server/request/reply_sender.h"
#include "store/format/memory/lease_line.h"
#include "store/server_store.h"

namespace remora {

struct ReplicationOptions {
  bool follows = false;                      // the server starts as a follower
  std::vector<FollowerAddress> followers{};  // of the server while it is a primary
  std::size_t max_pending_bytes = std::size_t{256} << 20;
  std::chrono::milliseconds lease_time = kDefaultLeaseTime;  // kMinLeaseTime to kMaxLeaseTime
  std::uint64_t copy_rate = std::uint64_t{64} << 20;  // bytes per second of a copy for a member; 0: no limit

  std::shared_ptr<Membership> membership{};  // of a member of a cluster; null: it is none

  bool has_division = false;  // etcd has the slots of the member's shard, and of others

  bool is_on() const { return follows || !followers.empty() || membership != nullptr; }
};

/// Returns the history of a data directory, or a new one.
///
/// - FailedPrecondition: the directory is a follower's and the server is to be none, or the other way round
///   (R14). Other errors are those of ReadHistory.
absl::StatusOr<History> CheckHistory(const std::string& data_dir, const ReplicationOptions& options);

/// Decides whether the server serves clients, and moves groups from and to other servers.
///
/// The class has more than 25 methods, and more than 15 fields, because a promotion by hand, a cluster's
/// orders and a switch all lead to the same roles.
///
/// Thread safety: none; the server's one thread.
class ReplicationService final : public SessionObserver {
 public:
  enum class Role : std::uint8_t { kFollower = 1, kOpening = 2, kPrimary = 3 };

  /// `on_promoted`: the store has new completion records. The store was opened with StoreOptions::follows.
  /// The references outlive this.
  struct Parts {
    ServerStore& store;
    ReplySender& replies;
    const OperatorLog& log;
    std::function<void()> wake;  // wakes the server thread; any thread
    std::function<void()> on_promoted;
    FollowerActivities& followers;
    std::span<std::byte> region;  // the store's, with the lease line
  };
  static absl::StatusOr<std::unique_ptr<ReplicationService>> Create(Parts parts, ReplicationOptions options,
                                                                    std::string data_dir, bool is_synced,
                                                                    History history);
  /// Ends the links. Then the store may be destroyed, and this after it: it has the store's sink.
  void EndLinks();

  Role role() const { return role_; }
  /// Returns the epoch in which it serves as a primary; 0: it does not.
  std::uint64_t serving_epoch() const { return role_ == Role::kPrimary ? history_.epoch() : 0; }
  /// Returns the last group that all members in sync have, the minimum at least.
  std::uint64_t published() const { return sender_ == nullptr ? 0 : sender_->published(); }
  /// Returns why the server does not serve clients. Empty: it does.
  std::string_view WhyNotServing() const;
  /// Returns OK if the server takes a write now.
  absl::Status CheckWrite() const;
  /// Returns whether writes wait, because another member is to take over. They are dispatched again once it
  /// does not, or end with their connections.
  bool holds_writes() const { return handover_.holds_writes(); }
  /// Returns the topology of the cluster, as the keeper has it; empty: it is not known. Valid until Step.
  std::string_view topology() const { return topology_ == nullptr ? std::string_view() : *topology_; }
  /// Takes a request of replication, of a client that may replicate.
  void Take(const PendingRequest& pending);
  /// Returns whether clients read under a lease. While the server serves, that does not change.
  bool has_lease() const { return lease_ != nullptr; }
  /// Takes a ping that asks for a lease. REQUIRES: has_lease.
  void TakeLeaseRequest(const PendingRequest& pending) { lease_->Take(pending); }
  /// Does what there is to do. Returns false if that was nothing.
  bool Step();
  /// Returns whether Step has work soon that nobody announces.
  bool has_work() const;
  /// Returns when Step has work because of the time. Nothing: it has none.
  std::optional<TimePoint> next_work() const;

  void Forget(ClientSession& session) override;

 private:
  ReplicationService(Parts parts, ReplicationOptions options, std::string data_dir, bool is_synced,
                     History history);
  /// Begins a reign with these groups, if the history has none that goes on.
  void ContinueHistory();
  /// Makes the store a primary's, and connects to the followers. Its first version is `versions_from` or
  /// later.
  absl::Status Lead(const std::vector<FollowerAddress>& followers, std::uint64_t versions_from);
  /// A promotion by hand that waits until no client can have a lease of the primary before.
  struct Promotion {
    PendingRequest asked;
    TimePoint due;
  };

  /// Begins a promotion: from now on, the follower answers no primary.
  void BeginPromotion(const PendingRequest& pending);
  absl::Status CheckPromotion() const;
  void EndPromotion();
  /// Begins a reign of this epoch (0: the next one), and leads. REQUIRES: the follower has ended.
  absl::Status Promote(const MemberOrders::Lead& lead);
  /// Keeps a request of an operator, which the member's keeper answers.
  void TakeWish(const PendingRequest& pending, MemberWish wish);
  /// Follows the orders of its cluster, and reports.
  void StepMember();
  /// Leads as its cluster orders. It serves nobody before opens_after_.
  void LeadMember(const MemberOrders::Lead& lead);
  void AnswerAsked(const PendingRequest& pending);
  /// Begins to yield to another member.
  void BeginYield(const PendingRequest& pending);
  /// Returns false if there was nothing to do.
  bool StepYield();
  /// Answers a request to become the primary, which it is now.
  void AnswerPromoted(const PendingRequest& asked);
  void SetRole(Role role);
  /// Serves if all followers have the groups of the start.
  void ServeIfReady();

  const Parts parts_;
  const ReplicationOptions options_;
  const std::string data_dir_;
  const bool is_synced_;
  History history_;
  Role role_ = Role::kFollower;
  bool is_starting_;                           // as a primary: once the store is loaded
  std::optional<TimePoint> opens_after_;       // kOpening, of a member: it serves no client before (Q5)
  std::string failure_;                        // why it cannot lead its cluster
  std::uint64_t asked_ = 0;                    // number of the last question that had one
  std::uint64_t opens_at_ = 0;                 // kOpening: the group that all followers must have
  std::unique_ptr<FollowerService> follower_;  // null: the server was never a follower
  std::optional<Promotion> promotion_;
  Handover handover_;  // of a member
  std::shared_ptr<const std::string> topology_;
  std::unique_ptr<ReplicationSender> sender_;  // null: it has no followers
  std::unique_ptr<LeaseService> lease_;        // null: it serves nobody, or has no followers
};

}  // namespace remora
