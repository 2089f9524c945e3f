#include "server/monitoring/status_reporter.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace remora {

bool StatusReporter::ReportLoadProgress() {
  if (!awaits_load_ || (store_.loading() && store_.load_status().ok())) return true;
  awaits_load_ = false;
  if (store_.loading()) return false;
  const double seconds = std::chrono::duration<double>(store_.load_time()).count();
  const std::uint64_t keys = store_.Read(Counter::kKeysLoaded);
  log_.Log(absl::StrFormat("loaded %d keys in %.2f s: %.0f keys per second; records of %d are not in memory",
                           keys, seconds, static_cast<double>(keys) / std::max(seconds, 1e-3),
                           store_.Read(Counter::kColdKeys)));
  return true;
}

void StatusReporter::ReportDiskStatus() {
  if ((store_.Read(Counter::kDiskRefuses) != 0) == disk_rejects_) return;
  const absl::Status status = store_.disk_status();
  disk_rejects_ = !status.ok();
  log_.Warn(disk_rejects_ ? absl::StrCat("writes are refused, reads go on: ", status.message())
                          : "the disk takes writes again");
}

}  // namespace remora
