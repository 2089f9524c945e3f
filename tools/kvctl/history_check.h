// A check that a server which was started anew still has all that it acknowledged before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/cluster/cluster_client.h"

namespace remora::kvctl {

/// Follows the history of a server during a copy, and notes how far the copy has come in it: its mark.
///
/// Each start of a server has another incarnation. A store that is only in memory loses all of its records
/// then. One with a log keeps what it acknowledged, unless its machine failed, or its data were restored or
/// replaced. It knows the position of a watch that was given before, or it does not: then it may have lost
/// writes before that position (client/watch.h). So the mark is the incarnation, and such a position.
///
/// Thread safety: that of its client.
class ServerHistory {
 public:
  explicit ServerHistory(Client& client) : client_(client) {}

  /// Begins now or, with a mark, at the place in the history for which another ServerHistory gave it.
  /// Outcomes as for a call of the client, and:
  ///   FailedPrecondition: since the mark, the server has lost records, or may have.
  ///   InvalidArgument: the mark is malformed.
  absl::Status Begin(std::string_view mark);

  enum class Step {
    kSame,  // all calls since the last step went to the same start of the server
    kAnew,  // some did not, but all that was acknowledged before the mark is there
  };
  /// Compares. Outcomes as for Begin.
  absl::StatusOr<Step> Compare();
  /// Compares, and moves the mark behind all that was acknowledged if the server is the same. Cost: one round
  /// trip if the server has a log, else none.
  absl::StatusOr<Step> Advance();
  /// Asks the server for an answer first, so that a restart behind the last call is noticed.
  absl::StatusOr<Step> CompareNow();

  /// Returns the mark: letters, digits, "-" and "_". REQUIRES: Begin returned OK.
  std::string mark() const;
  /// Returns whether a call found that the server has lost records, or may have.
  bool is_lost() const { return is_lost_; }

 private:
  /// Asks the server, which was started anew, whether it knows the position.
  absl::Status CheckPosition();
  absl::Status Lost(std::string_view why);

  Client& client_;
  std::uint64_t incarnation_ = 0;
  std::string position_;  // resume token of a watch; empty: the store is only in memory
  bool is_lost_ = false;
};

/// Follows the histories of all servers of a cluster, each for itself. Errors name the shard.
///
/// Thread safety: that of its client.
class HistoryCheck {
 public:
  explicit HistoryCheck(ClusterClient& client) : client_(client) {}

  /// Begins as ServerHistory::Begin does, with the mark of a HistoryCheck. InvalidArgument: also, the mark is
  /// of another number of shards.
  absl::Status Begin(std::string_view mark);
  /// Does the work of ServerHistory::Advance for one shard.
  absl::StatusOr<ServerHistory::Step> Advance(std::size_t shard);
  /// Does the work of ServerHistory::CompareNow for all shards, and returns the first failure.
  absl::Status CompareNow();

  /// Returns the marks of the shards, with commas between. REQUIRES: Begin returned OK.
  std::string mark() const;
  /// Returns whether a call found that a server has lost records, or may have.
  bool is_lost() const;

 private:
  ClusterClient& client_;
  std::vector<ServerHistory> shards_;
};

}  // namespace remora::kvctl
