// The keeper of a server with --etcd, if any, and whether it ended the process.
#pragma once

#include <sysexits.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/cluster/keeper.h"
#include "server/main/flags.h"
#include "server/monitoring/operator_log.h"
#include "server/server.h"
#include "store/base/clock.h"
#include "store/base/status_macros.h"

namespace remora {

/// Makes the server a member of a cluster.
///
/// Thread safety: one thread makes, uses and destroys it.
class ClusterMember {
 public:
  explicit ClusterMember(LogSink log) : log_(std::move(log)) {}

  /// Starts the keeper, if the flags name an etcd. It stops the server once that must not go on. The
  /// clock and the server outlive this. Errors are those of Keeper::Start.
  absl::Status Start(const Flags& flags, const Clock& clock, Server& server) {
    if (flags.server.replication.membership == nullptr) return absl::OkStatus();
    const auto on_end = [this, &server](KeeperEnd end, const std::string& why) {
      log_.Write(LogEvent::kClusterEnded, why);
      exit_status_ = end == KeeperEnd::kRemoved ? EX_CONFIG : EX_TEMPFAIL;
      server.Stop();
    };
    REMORA_ASSIGN_OR_RETURN(keeper_, Keeper::Start(flags.cluster.keeper, *flags.server.replication.membership,
                                                   log_, clock, on_end));
    return absl::OkStatus();
  }
  /// Ends the keeper. Returns the exit status with which it has ended the process; 0: it has not.
  int End() {
    keeper_.reset();
    return exit_status_;
  }

 private:
  const OperatorLog log_;
  std::atomic<int> exit_status_ = EX_OK;
  std::unique_ptr<Keeper> keeper_;  // last: it uses what is before
};

}  // namespace remora
