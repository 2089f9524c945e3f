// Watches: the durable tier's log, read behind the writers.
//
// A change is shown when it is visible, and so is all that is before it in the log: up to changes_end, which
// is what was logged before the first group that has a write which waits for the disk. A failure of the disk
// leaves that where it is.
#include "store/watch.h"

#include <algorithm>
#include <utility>

#include "store/base/status_macros.h"
#include "store/store_impl.h"

namespace remora {
namespace {

// Log files come and go while they are read. Not so often.
constexpr int kMaxOpenedInVain = 8;

constexpr std::chrono::milliseconds kFirstPause{1};
constexpr std::chrono::milliseconds kLongestPause{16};

}  // namespace

StoreWatch::StoreWatch(const Store::Impl& store, ScanRange range, const ChangePlace& place)
    : store_(store), range_(std::move(range)), place_(place) {}
StoreWatch::~StoreWatch() = default;

absl::StatusOr<std::unique_ptr<StoreWatch>> Store::Watch(const WatchOptions& options) {
  ScanRange range;
  ChangePlace place;
  if (const char* why = ResolveWatch(options, &range, &place)) return absl::InvalidArgumentError(why);
  return Watch(range, place);
}

absl::StatusOr<std::unique_ptr<StoreWatch>> Store::Watch(const ScanRange& range, const ChangePlace& place) {
  if (!impl_->has_tier()) {
    return absl::FailedPreconditionError(
        "a store that is only in memory keeps no log of its writes: open it with Durability::kLogged "
        "(kvserver --durability=logged) to watch it");
  }
  const std::uint64_t end = impl_->changes_end();
  ChangePlace from = place;
  if (from.incarnation == 0) {
    from.sequence = end + 1;
  } else {
    REMORA_ASSIGN_OR_RETURN(from.sequence, impl_->tier().Continue(place, end));
  }
  from.incarnation = superblock().incarnation;
  return std::unique_ptr<StoreWatch>(new StoreWatch(*impl_, range, from));
}

absl::StatusOr<bool> StoreWatch::Next(std::chrono::milliseconds wait) {
  const Clock& clock = store_.clock();
  const TimePoint until = clock.Now() + wait;
  for (Duration pause = kFirstPause;;) {
    REMORA_ASSIGN_OR_RETURN(const Step step, Advance());
    if (step == Step::kChange) return true;
    if (step == Step::kNotYet) continue;
    const TimePoint now = clock.Now();
    if (now >= until) return false;
    if (step == Step::kOpening) {
      opening_.wait_for(until - now);
      continue;
    }
    clock.Sleep(std::min<Duration>(pause, until - now));
    pause = std::min<Duration>(2 * pause, kLongestPause);
  }
}

absl::StatusOr<StoreWatch::Step> StoreWatch::Advance() {
  REMORA_RETURN_IF_ERROR(failed_);
  absl::StatusOr<Step> step = Try();
  failed_ = step.status();
  return step;
}

absl::StatusOr<StoreWatch::Step> StoreWatch::Try() {
  const std::uint64_t end = store_.changes_end();
  if (log_ == nullptr) {
    const bool in_thread = !store_.syncs_in_steps();
    if (!opening_.valid()) {
      if (place_.sequence > end) return Step::kNone;
      opening_ = std::async(in_thread ? std::launch::async : std::launch::deferred,
                            [&tier = store_.tier(), from = place_.sequence] { return tier.ReadLog(from); });
    }
    if (in_thread && opening_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      return Step::kOpening;
    }
    REMORA_ASSIGN_OR_RETURN(log_, opening_.get());
  }
  REMORA_ASSIGN_OR_RETURN(const ChangeLog::Step step, log_->Next(end, &change_));
  const bool moved = log_->position() > place_.sequence;
  place_.sequence = log_->position();
  if (step == ChangeLog::Step::kLost) {
    log_.reset();
    opened_in_vain_ = moved ? 0 : opened_in_vain_ + 1;
    if (opened_in_vain_ <= kMaxOpenedInVain) return Step::kNotYet;
    return absl::UnavailableError("the log of the data directory does not have what was written to it");
  }
  if (step == ChangeLog::Step::kNone) return Step::kNone;
  opened_in_vain_ = 0;
  return range_.Contains(change_.key) ? Step::kChange : Step::kNotYet;
}

}  // namespace remora
