// Tells the operator, and the service manager, how the store's load has gone, and whether the disk takes
// writes.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "server/monitoring/operator_log.h"
#include "store/base/clock.h"
#include "store/server_store.h"

namespace remora {

/// Reports changes of the store's state to the log and the service manager.
///
/// Thread safety: none; the server's one thread.
class StatusReporter {
 public:
  /// `store` and `log` outlive this. `report`, of ServiceNotices, may be empty. A store with a durable tier
  /// loads from it, or has done so already.
  StatusReporter(const ServerStore& store, const OperatorLog& log,
                 std::function<void(std::string_view)> report, bool has_durable_tier)
      : store_(store), log_(log), report_(std::move(report)), awaits_load_(has_durable_tier) {}
  StatusReporter(const StatusReporter&) = delete;
  StatusReporter& operator=(const StatusReporter&) = delete;

  /// Logs, while the store loads, when it has loaded. Returns false if it never will.
  bool ReportLoadProgress();
  /// Returns whether the end of a load is still to be logged.
  bool awaits_load() const { return awaits_load_; }
  /// Logs when the disk takes no writes, and when it does again.
  void ReportDiskStatus();

 private:
  void NotifyLoadProgress();

  const ServerStore& store_;
  const OperatorLog& log_;
  const std::function<void(std::string_view)> report_;
  std::uint64_t keys_reported_ = 0;
  TimePoint next_report_{};
  bool awaits_load_;
  bool disk_rejects_ = false;  // and that was logged
};

}  // namespace remora
