#include <utility>

#include "store/base/status_macros.h"
#include "store/durable/tier_log/tier_log.h"

namespace remora {
namespace {

// A view that has to read more than this has the applier hurry, for the sake of the next one.
constexpr std::uint64_t kWorthApplying = std::uint64_t{64} << 10;
// An applier that is behind by more should not cost each scan the memory.
constexpr std::uint64_t kMaxOverlayBytes = std::uint64_t{16} << 20;

}  // namespace

bool TierLog::IsReadyForView() {
  applier_.WantMoment();
  const bool is_behind = appended() - applied_to() > kMaxOverlayBytes;
  const bool is_served = applier_.is_served();
  view_is_awaited_.store(is_behind && is_served, std::memory_order_relaxed);
  if (!is_served || (!is_behind && applier_.moment().snapshot != nullptr)) return true;
  applier_.Hurry();
  applier_.Wake();
  return false;
}

void TierLog::MakeReadyForView() {
  ApplyAll().IgnoreError();  // OpenView returns the error
  applier_.MakeMoment();
}

bool TierLog::IsViewAwaited() {
  // Relaxed: writers are slowed a little more, or a little less.
  if (!view_is_awaited_.load(std::memory_order_relaxed)) return false;
  if (appended() - applied_to() > kMaxOverlayBytes) return true;
  view_is_awaited_.store(false, std::memory_order_relaxed);
  return false;
}

absl::StatusOr<TierLog::View> TierLog::OpenView(const ScanRange& range, std::optional<Lsn> end) {
  const Lsn until = end.value_or(appended());
  for (;;) {
    const LogMoment moment = applier_.MakeMoment();
    const Lsn at = moment.position.lsn();
    if (end && at > until) {
      return absl::AbortedError("scan: RocksDB has groups that the followers lack; try again");
    }
    if (at >= until) return View{.snapshot = moment.snapshot, .overlay = nullptr};
    applier_.Hurry();
    if (until - at > kWorthApplying) applier_.Wake();
    if (until - at <= kMaxOverlayBytes) {
      absl::StatusOr<std::unique_ptr<ScanOverlay>> overlay =
          ScanOverlay::Read(options_.dir, moment.position, until, range);
      if (overlay.ok()) return View{.snapshot = moment.snapshot, .overlay = *std::move(overlay)};
      // The file may be recycled by now, or there is no descriptor left. The applier has its file open.
    }
    // From then on, the latest moment is not before `until`.
    REMORA_RETURN_IF_ERROR(ApplyAll());
  }
}

}  // namespace remora
