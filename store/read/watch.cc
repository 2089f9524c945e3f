// Watches: they read the durable tier's log behind the writers, or the change log of a store without a tier.
//
// A watch shows a change once the change and all before it in the log are visible. These are the changes up
// to changes_end: those that were logged before the first group with a pending write. After a failed sync,
// changes_end stays where it is.
#include "store/watch.h"

#include <algorithm>
#include <future>
#include <utility>

#include "store/base/start_thread.h"
#include "store/base/status_macros.h"
#include "store/durable/change_log.h"
#include "store/engine/core.h"
#include "store/engine/store_engine.h"
#include "store/format/types/scan_range.h"
#include "store/format/wire/resume_token.h"
#include "store/read/ring_change_feed.h"
#include "store/server_store.h"

namespace remora {
namespace {

// Log files come and go while a watch reads them; then it opens the log again. If it does so this often
// without progress, the log is incomplete.
constexpr int kMaxOpenedInVain = 8;

constexpr std::chrono::milliseconds kFirstPause{1};
constexpr std::chrono::milliseconds kLongestPause{16};

}  // namespace

struct StoreWatch::Rep {
  StoreEngine& engine;
  const ScanRange range;
  absl::Status failed{};  // the final outcome, unless OK
  std::future<absl::StatusOr<std::unique_ptr<ChangeLog>>> opening{};
  std::unique_ptr<ChangeLog> log{};
  int opened_in_vain = 0;
};

StoreWatch::StoreWatch(std::unique_ptr<Rep> rep, const ChangePosition& position)
    : rep_(std::move(rep)), position_(position) {}
StoreWatch::~StoreWatch() = default;
std::string StoreWatch::resume_token() const { return MakeChangeToken(position_); }

absl::StatusOr<std::unique_ptr<StoreWatch>> Store::Watch(const WatchOptions& options) {
  ScanRange range;
  ChangePosition position;
  if (const char* why = ResolveWatch(options, &range, &position)) return absl::InvalidArgumentError(why);
  return StoreWatch::Begin(*engine_, range, position);
}

absl::StatusOr<std::unique_ptr<StoreWatch>> ServerStore::Watch(const ScanRange& range,
                                                               const ChangePosition& position) {
  return StoreWatch::Begin(*engine_, range, position);
}

absl::StatusOr<std::unique_ptr<StoreWatch>> StoreWatch::Begin(StoreEngine& engine, const ScanRange& range,
                                                              const ChangePosition& position) {
  const StoreCore& core = engine.core();
  if (!core.keeps_changes()) {
    return absl::FailedPreconditionError(
        "watch: a store that is only in memory keeps no log of its writes; open it with "
        "StoreOptions::change_log_bytes (kvserver --change_log=64M) to watch it, or with Durability::kLogged "
        "(--durability=logged)");
  }
  const std::uint64_t end = core.changes_end.load(std::memory_order_acquire);
  ChangePosition from = position;
  if (from.incarnation == 0) {
    from.sequence = end + 1;
  } else {
    const absl::StatusOr<std::uint64_t> sequence =
        core.has_tier() ? core.tier->Continue(position, end) : ContinueInRing(core, position, end);
    if (absl::IsOutOfRange(sequence.status())) core.metrics.Add(Metric::kWatchesOvertaken, 1);
    REMORA_ASSIGN_OR_RETURN(from.sequence, sequence);
  }
  from.incarnation = core.superblock.incarnation;
  engine.BeginToBeWatched();
  return std::unique_ptr<StoreWatch>(new StoreWatch(std::unique_ptr<Rep>(new Rep{engine, range}), from));
}

absl::StatusOr<bool> StoreWatch::Next(std::chrono::milliseconds wait) {
  const Clock& clock = rep_->engine.core().clock;
  const TimePoint until = clock.Now() + wait;
  const TimePoint remove_until = until + kLongestPause;
  for (Duration pause = kFirstPause;;) {
    const bool removed = rep_->engine.RemoveExpired();  // without writes, no other thread may do so
    REMORA_ASSIGN_OR_RETURN(const Step step, Advance());
    if (step == Step::kChange) return true;
    if (step == Step::kNotYet) continue;
    const TimePoint now = clock.Now();
    if (removed && now < remove_until) continue;
    if (now >= until) return false;
    if (step == Step::kOpening) {
      rep_->opening.wait_for(until - now);
      continue;
    }
    clock.Sleep(std::min<Duration>(pause, until - now));
    pause = std::min<Duration>(2 * pause, kLongestPause);
  }
}

absl::StatusOr<StoreWatch::Step> StoreWatch::Advance() {
  REMORA_RETURN_IF_ERROR(rep_->failed);
  absl::StatusOr<Step> step = Try();
  if (step.ok()) return step;
  if (absl::IsOutOfRange(step.status())) {
    rep_->failed = step.status();
    rep_->engine.core().metrics.Add(Metric::kWatchesOvertaken, 1);
  }
  rep_->log.reset();  // the next call opens it again, at the watch's position
  rep_->opened_in_vain = 0;
  return step;
}

absl::StatusOr<StoreWatch::Step> StoreWatch::Try() {
  const StoreCore& core = rep_->engine.core();
  const std::uint64_t end = core.changes_end.load(std::memory_order_acquire);
  if (rep_->log == nullptr && !core.has_tier()) {
    rep_->log = std::make_unique<RingChangeFeed>(core, position_.sequence);
  } else if (rep_->log == nullptr) {
    const bool in_thread = !rep_->engine.syncs_in_steps();
    if (!rep_->opening.valid()) {
      if (position_.sequence > end) return Step::kNone;
      const auto open = [&tier = *core.tier, from = position_.sequence] { return tier.ReadLog(from); };
      REMORA_ASSIGN_OR_RETURN(rep_->opening, StartThread([&] {
                                return std::async(in_thread ? std::launch::async : std::launch::deferred,
                                                  open);
                              }));
    }
    if (in_thread && rep_->opening.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      return Step::kOpening;
    }
    REMORA_ASSIGN_OR_RETURN(rep_->log, rep_->opening.get());
  }
  REMORA_ASSIGN_OR_RETURN(const ChangeLog::Step step, rep_->log->Next(end, &change_));
  const bool moved = rep_->log->position() > position_.sequence;
  position_.sequence = rep_->log->position();
  if (step == ChangeLog::Step::kLost) {
    rep_->log.reset();
    rep_->opened_in_vain = moved ? 0 : rep_->opened_in_vain + 1;
    if (rep_->opened_in_vain <= kMaxOpenedInVain) return Step::kNotYet;
    return absl::UnavailableError(
        "watch: the log of the data directory lacks writes that were made; begin anew");
  }
  if (step == ChangeLog::Step::kNone) return Step::kNone;
  rep_->opened_in_vain = 0;
  return rep_->range.Contains(change_.key) ? Step::kChange : Step::kNotYet;
}

}  // namespace remora
