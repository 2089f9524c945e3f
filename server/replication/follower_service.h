// The follower's side of replication: it takes the groups of its primary, which is a client with a session.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/connection/session_observer.h"
#include "server/monitoring/operator_log.h"
#include "server/replication/copy_receiver.h"
#include "server/replication/follower_support.h"
#include "server/replication/group_receiver.h"
#include "server/replication/group_syncer.h"
#include "server/replication/history.h"
#include "server/request/pending_request.h"
#include "server/request/reply_sender.h"
#include "store/format/memory/lease_line.h"
#include "store/server_store.h"

namespace remora {

struct FollowerOptions {
  std::string data_dir;    // where the history is kept
  bool is_synced = false;  // the store's level is synced
  std::chrono::milliseconds lease_time = kDefaultLeaseTime;
};

/// Answers the requests kFollow, kReplicate, kSupport and kCopy, and has the store apply the groups.
///
/// The class has more than 15 fields, because one session at a time is the primary, for groups and for a
/// copy.
///
/// Thread safety: none; the server's one thread.
class FollowerService final : public SessionObserver {
 public:
  /// `history`: that of the data directory. `wake` wakes the server thread. The references outlive this.
  static absl::StatusOr<std::unique_ptr<FollowerService>> Create(ServerStore& store, ReplySender& replies,
                                                                 const OperatorLog& log,
                                                                 FollowerOptions options, History history,
                                                                 std::function<void()> wake);

  /// Takes a request, and answers it now or in a later Step.
  void Take(const PendingRequest& pending);
  /// Applies groups, and answers what has become due. Returns false if there was nothing to do.
  bool Step();
  /// Returns whether Step has work that nobody announces: a group that the store takes later.
  bool has_work() const { return receiver_.has_work(); }
  /// Follows no primary of an earlier epoch, and tells primaries the life of this member. `may_copy`: it may
  /// take a copy in place of its data (R15 of copy_receiver.h).
  void SetMember(std::uint64_t life, std::uint64_t min_epoch, bool may_copy);
  /// Returns whether a whole copy is there. Then it follows nobody.
  bool has_copy() const { return copies_.is_whole(); }
  /// Follows nobody any more: later requests are rejected. Returns the history. The owner passes it no
  /// request until the follower may be a primary.
  History End();
  /// Has the follower serve T from now on at the earliest.
  void DelaySupportEnd() { support_.NoteAnswer(store_.clock().Now()); }
  /// Returns when the follower may become a primary: the lease time after its last answer (Q5 of
  /// store/format/memory/lease_line.h). REQUIRES: End was called.
  TimePoint support_ends_at() const { return support_.ends_at(); }

  void Forget(ClientSession& session) override;

 private:
  /// A request that is answered later.
  struct Waiting {
    PendingRequest pending;
    std::uint64_t number = 0;  // of the group that is to be acknowledged; 0: it waits for space
  };

  FollowerService(ServerStore& store, ReplySender& replies, const OperatorLog& log, FollowerOptions options,
                  History history);
  void TakeFollow(const PendingRequest& pending);
  /// Compares the histories, and keeps that of the primary (R1 to R3 of history.h).
  absl::Status Follow(const PendingRequest& pending, const FollowStart& start, History primary);
  absl::Status TakePart(const PendingRequest& pending);
  /// Takes a step of a copy, and answers it.
  void TakeCopy(const PendingRequest& pending);
  /// Takes a step behind the first one. Returns the result of its reply.
  absl::StatusOr<std::int64_t> TakeCopyStep(const PendingRequest& pending);
  void LogCopy(const PendingRequest& pending, const absl::StatusOr<std::int64_t>& taken);
  absl::Status BeginCopy(const PendingRequest& pending);
  /// Returns whether this primary's data may come in place of those here (R15).
  absl::Status CheckCopyOf(const History& primary) const;
  /// Returns OK if the primary is not of an epoch that is over.
  absl::Status CheckEpoch(const History& primary) const;
  FollowerPosition position() const;
  /// Answers a round of the primary's lease line, and keeps the time of the answer (Q4 of
  /// store/format/memory/lease_line.h).
  absl::Status TakeSupport(const PendingRequest& pending);
  /// Applies the groups that have come. Returns whether it applied one.
  bool Apply();
  bool AnswerDue();
  /// Answers a request that has succeeded.
  void Acknowledge(const PendingRequest& pending);
  /// Follows nobody, because of this failure, until the primary connects anew.
  void Fail(const absl::Status& failure);
  void RejectWaiting(const absl::Status& why);
  /// Logs why a primary is rejected, unless the log says so already.
  void LogRejected(const PendingRequest& pending, std::string_view why);

  ServerStore& store_;
  ReplySender& replies_;
  const OperatorLog& log_;
  const std::string data_dir_;
  const bool is_synced_;
  History history_;
  FollowerSupport support_;
  GroupReceiver receiver_;
  CopyReceiver copies_;
  std::unique_ptr<GroupSyncer> syncer_;
  std::deque<Waiting> waiting_;  // in the order in which they came
  std::uint64_t life_ = 0;
  std::uint64_t min_epoch_ = 0;
  bool may_copy_ = false;
  std::string last_line_;  // of LogRejected and Fail
};

}  // namespace remora
