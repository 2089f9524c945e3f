#include "server/monitoring/status_reporter.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace remora {

bool StatusReporter::ReportLoadProgress() {
  if (!awaits_load_) return true;
  if (store_.loading() && store_.load_status().ok()) {
    if (report_) NotifyLoadProgress();
    return true;
  }
  awaits_load_ = false;
  if (store_.loading()) return false;
  const double seconds = std::chrono::duration<double>(store_.load_time()).count();
  const std::uint64_t keys = store_.Read(Metric::kKeysLoaded);
  const std::uint64_t cold = store_.Read(Metric::kColdKeys);
  log_.Write(
      LogEvent::kLoaded,
      keys + cold == 0
          ? "the store is empty"
          : absl::StrFormat("loaded %d keys in %.2f s: %.0f keys per second; records of %d are not in memory",
                            keys, seconds, static_cast<double>(keys) / std::max(seconds, 1e-3), cold));
  if (report_) report_("serving");
  return true;
}

void StatusReporter::NotifyLoadProgress() {
  constexpr std::chrono::seconds kPause{1};
  const std::uint64_t keys = store_.Read(Metric::kKeysLoaded);
  const TimePoint now = store_.clock().Now();
  if (now < next_report_ || keys == keys_reported_) return;
  next_report_ = now + kPause;
  keys_reported_ = keys;
  report_(absl::StrFormat("serving; loading: %d keys so far", keys));
}

void StatusReporter::ReportDiskStatus() {
  if ((store_.Read(Metric::kDiskRejects) != 0) == disk_rejects_) return;
  const absl::Status status = store_.disk_status();
  disk_rejects_ = !status.ok();
  if (report_) report_(disk_rejects_ ? "serving reads; the disk takes no writes: see the log" : "serving");
  if (disk_rejects_) {
    log_.Write(LogEvent::kDiskFailed, absl::StrCat("writes are rejected, reads go on: ", status.message()));
  } else {
    log_.Write(LogEvent::kDiskRecovered, "the disk takes writes again");
  }
}

}  // namespace remora
