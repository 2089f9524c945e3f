#include "store/engine/disk_health.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "store/base/shortage.h"

namespace remora {
namespace {

// Between two tries to write to a disk that took no writes.
constexpr std::chrono::seconds kTryEvery(1);

}  // namespace

void DiskHealth::NoteSync(const absl::Status& sync) {
  metrics_.Add(Metric::kSyncs, 1);
  if (!sync.ok()) NoteUnknownWrite(sync);
}

void DiskHealth::NoteUnknownWrite(const absl::Status& write) {
  if (!sync_failure_.ok()) return;
  sync_failure_ =
      WithMarksOf(write, absl::UnavailableError(absl::StrCat(
                             "the store takes no more writes until it is opened again, and of the last ones "
                             "it is unknown whether the disk has them: ",
                             write.message())));
  SetStatus(sync_failure_);
}

void DiskHealth::NoteWrite(const absl::Status& write) {
  if (sync_failure_.ok()) SetStatus(write);
}

void DiskHealth::PlanTry(TimePoint now) {
  if (status_.ok() || !sync_failure_.ok()) {
    next_try_.reset();
  } else if (!next_try_) {
    next_try_ = now + kTryEvery;
  }
}

void DiskHealth::NoteTry(const absl::Status& outcome, TimePoint now) {
  if (outcome.ok()) NoteWrite(outcome);
  next_try_.reset();
  PlanTry(now);
}

void DiskHealth::SetStatus(const absl::Status& status) {
  if (status.ok() && status_.ok()) return;
  if (!status.ok()) metrics_.Add(Metric::kDiskFailures, 1);
  status_ = status;
  metrics_.Set(Metric::kDiskRejects, status.ok() ? 0 : 1);
}

}  // namespace remora
