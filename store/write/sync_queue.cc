// Writes that the disk is to have before anybody sees them (Durability::kSynced).
//
// Such a write is staged and written to the durable tier in its group, as any other is. Then it is pending:
// its record is in the log, sealed and dead, and no slot leads there. A thread asks the disk to take all that
// the tier has written so far (fsync), for as many pending writes as there are by then; meanwhile other
// groups are committed, and those of their writes that are not to be synced become visible at once. When the
// disk has it, the pending writes are published, in the order of their versions.
//
// What holds meanwhile, for a key that has a pending write:
//   S1  Whatever is written to it next is synced, too, and decided as of the pending write. So a key's writes
//       become visible in their order.
//   S2  Readers get the record of the write before, or miss. The tier has the pending one already, so what
//       is read from there waits: FindOrFetch; the sweepers leave the key alone, whose deletion would come
//       behind the pending write.
//   S3  That old record may be moved, and evicted. So Publish looks for it anew. (A key that was not loaded
//       would leave open whether a cold entry is its own. While the store loads, the disk is waited for under
//       the lock.)
//       A scan goes through the tier: before it begins, the disk is asked for all that is pending
//       (PublishAll). A watch ends before the first that is pending (SetChangesEnd).
//   S4  The pending record is held: its segment is not cleaned (ValueLog::Hold).
//   S6  Who is refused for what is pending hears so when that is visible: his next read must not say
//   otherwise.
//       Nor is it so where the machine fails before.
//   S5  Room in the index was made for it, and counts for what is committed meanwhile; should growth have
//       taken it all the same, the write is published when there is room.
// Of a batch, either all writes are synced, or none; they are published under one hold of the lock.
//
// A disk that did not take it leaves open what it has, and asking it again proves nothing. Then nothing that
// was pending ever becomes visible, its keys stay as S2 says, and the store takes no more writes.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/start_thread.h"
#include "store/base/status_macros.h"
#include "store/engine/store_impl.h"

namespace remora {

Durability Store::Impl::LevelOf(const Write& write) const { return write.durability.value_or(durability_); }

void Store::Impl::Hold(Staged& staged) {
  group_has_synced_ |= staged.synced;
  if (!group_has_synced_ || staged.place.extent_code == 0) return;
  core_.log.Hold(staged.place);
  staged.held = true;
}

void Store::Impl::SyncAllOrNone(std::span<Staged> batch) {
  if (std::ranges::none_of(batch, &Staged::synced)) return;
  for (Staged& staged : batch) staged.synced = true;
  for (const Change& change : batch_changes_) {
    if (change.growth < 0) group_growth_[change.bucket] -= change.growth;  // as Decide
  }
}

void Store::Impl::PublishOrAwait(TimePoint now) {
  for (Staged& staged : staged_) {
    if (staged.synced) {
      Await(staged);
    } else {
      Publish(staged, now);
      if (staged.held) core_.log.LetGo(staged.place, now);
    }
  }
}

void Store::Impl::SetChangesEnd() {
  core_.metrics.Set(Counter::kWritesUnsynced, pending_.size());
  // What is pending may never become visible. After a failure, nothing does any more.
  if (!sync_failed_.ok()) return;
  const std::uint64_t end = pending_.empty() ? core_.tier->logged_to() : pending_.front().logged_before;
  changes_end_.store(end, std::memory_order_release);
  core_.metrics.Set(Counter::kChangesEnd, end);
}

Store::Impl::Pending& Store::Impl::AddPending(Write& write) {
  Pending& pending = pending_.emplace_back();
  pending.ticket = ++last_ticket_;
  if (waiter_ != nullptr) {
    pending.caller = &write;
    pending.waiter = waiter_;
    ++waiter_->pending;
  }
  pending.logged_before = logged_before_;
  pending.write = write;
  write.ticket = pending.ticket;
  return pending;
}

// Where nothing is pending, what they were decided on is visible, or was abandoned with their group.
void Store::Impl::AwaitRefusals() {
  if (refused_.empty()) return;
  for (Write* const write : std::exchange(refused_, {})) {
    if (pending_.empty()) continue;
    Pending& pending = AddPending(*write);
    pending.is_refused = true;
    pending.write.with_next = false;  // one outcome for all of a batch
  }
}

void Store::Impl::Await(Staged& staged) {
  const std::size_t key_size = staged.key.size();
  Pending& pending = AddPending(*staged.write);
  pending.staged = std::move(staged);
  pending.staged.write = &pending.write;
  pending.staged.old.is_looked_up = false;  // S3
  // The string has moved.
  pending.staged.key = pending.staged.is_delete() ? std::string_view(pending.staged.own).substr(0, key_size)
                                                  : core_.log.Key(pending.staged.place);
  std::optional<Place> place;
  if (!pending.staged.is_delete()) place = pending.staged.place;
  core_.unsynced_keys.Set(pending.staged.key,
                          {pending.ticket, place, pending.staged.expiry_ms, pending.staged.version});
  if (pending_.size() >= gather_) sync_wanted_.notify_one();
}

std::size_t Store::Impl::PendingBatch() const {
  std::size_t size = 1;
  while (pending_[size - 1].write.with_next && size < pending_.size()) ++size;
  return size;
}

void Store::Impl::ReservePending() {
  for (const Pending& pending : pending_) {
    if (!pending.is_refused && !pending.staged.is_delete())
      ++group_growth_[core_.index.MainBucketOf(pending.staged.key_hash)];
  }
}

bool Store::Impl::MakeRoomForPending(std::size_t batch, TimePoint now, std::int64_t unix_ms) {
  for (;;) {
    group_growth_.clear();
    bool fits = true;
    for (std::size_t i = 0; i < batch && fits; ++i) {
      const Staged& staged = pending_[i].staged;
      if (staged.is_delete() || core_.index.Find(staged.key, staged.key_hash)) continue;
      const std::int64_t more = ++group_growth_[core_.index.MainBucketOf(staged.key_hash)];
      fits = core_.index.Reserve(staged.key_hash, static_cast<std::size_t>(more));
    }
    if (fits) return true;
    if (MakeRoom(now, unix_ms) != Room::kNow) return false;
  }
}

void Store::Impl::PublishSynced(TimePoint now, std::int64_t unix_ms) {
  const std::uint64_t keys = core_.index.entry_count();
  bool ended = false;
  while (!pending_.empty() && (pending_.front().ticket <= synced_to_ || pending_.front().is_refused)) {
    ended = true;
    if (pending_.front().is_refused) {
      Pending& pending = pending_.front();
      if (!sync_failed_.ok()) pending.write.status = sync_failed_;
      synced_to_ = std::max(synced_to_, pending.ticket);  // nothing before it is pending
      Tell(pending);
      pending_.pop_front();
      continue;
    }
    const std::size_t batch = PendingBatch();
    if (sync_failed_.ok() && !MakeRoomForPending(batch, now, unix_ms)) break;
    for (std::size_t i = 0; i < batch; ++i) {
      Pending& pending = pending_.front();
      pending.write.status = sync_failed_;
      if (sync_failed_.ok()) {
        Publish(pending.staged, now);
        core_.unsynced_keys.Remove(pending.staged.key, pending.ticket);
        if (pending.staged.held) core_.log.LetGo(pending.staged.place, now);
        core_.metrics.Add(Counter::kSyncedWrites, 1);
      }
      if (i == 0 || pending.caller != nullptr) Tell(pending);
      pending_.pop_front();
    }
  }
  if (!ended) return;
  SetChangesEnd();
  if (core_.index.entry_count() > keys) core_.index.Grow(core_.index.entry_count() - keys, now);
}

void Store::Impl::Tell(const Pending& pending) {
  const Write& write = pending.write;
  if (pending.caller != nullptr) {
    pending.caller->status = write.status;
    pending.caller->version = write.version;
    pending.caller->slot = write.slot;
    pending.caller->ticket = 0;
    if (--pending.waiter->pending == 0) over_.push_back(pending.waiter);
    return;
  }
  outcomes_.push_back({pending.ticket, write.status, write.version, write.slot, write.result});
}

void Store::Impl::TakeSynced(std::vector<SyncedWrite>* outcomes) {
  const std::lock_guard lock(core_.mutex);
  outcomes->insert(outcomes->end(), outcomes_.begin(), outcomes_.end());
  outcomes_.clear();
}

absl::Status Store::Impl::Ended(std::uint64_t ticket) const {
  const std::lock_guard lock(core_.mutex);
  if (!pending_.empty() && pending_.front().ticket <= ticket) {
    return absl::AbortedError("the disk does not have yet what was written");
  }
  return sync_failed_;
}

// --- The disk -------------------------------------------------------------------------------------------

absl::Status Store::Impl::SyncNow() {
  NoteSynced(core_.tier->Sync());
  return sync_failed_;
}

void Store::Impl::NoteSynced(const absl::Status& status) {
  core_.metrics.Add(Counter::kSyncs, 1);
  if (status.ok() || !sync_failed_.ok()) return;
  sync_failed_ = absl::UnavailableError(absl::StrCat(
      "the store takes no more writes until it is opened again, and of the last ones it is unknown "
      "whether the disk has them: ",
      status.message()));
  NoteDisk(sync_failed_);
}

void Store::Impl::NoteDisk(const absl::Status& status) {
  if (status.ok() && disk_status_.ok()) return;
  if (!status.ok()) core_.metrics.Add(Counter::kDiskFailures, 1);
  disk_status_ = status;
  core_.metrics.Set(Counter::kDiskRefuses, status.ok() ? 0 : 1);
}

absl::Status Store::Impl::PublishAll() {
  if (pending_.empty()) return sync_failed_;
  if (last_ticket_ > synced_to_) {
    synced_to_ = last_ticket_;
    SyncNow().IgnoreError();  // PublishSynced tells
  }
  PublishSynced(core_.clock.Now(), core_.clock.UnixMillis());
  FinishWork();
  if (!pending_.empty()) return absl::AbortedError("no room right now for what the disk has");
  return sync_failed_;
}

bool Store::Impl::SyncPending(std::unique_lock<std::mutex>& lock) {
  if (last_ticket_ == synced_to_) return false;
  const std::uint64_t to = last_ticket_;
  lock.unlock();
  const absl::Status status = core_.tier->Sync();
  lock.lock();
  NoteSynced(status);
  synced_to_ = std::max(synced_to_, to);
  last_under_way_ = pending_.size();
  PublishSynced(core_.clock.Now(), core_.clock.UnixMillis());
  FinishWork();
  TellAll(lock);
  return true;
}

void Store::Impl::TellAll(std::unique_lock<std::mutex>& lock) {
  const bool outcomes = !outcomes_.empty() && on_synced_;
  if (!outcomes && over_.empty()) return;
  const std::vector<Waiter*> over = std::exchange(over_, {});
  lock.unlock();
  for (Waiter* waiter : over) waiter->Wake();
  if (outcomes) on_synced_();
  lock.lock();
}

void Store::Impl::Waiter::Wait() {
  std::unique_lock lock(mutex_);
  woken_.wait(lock, [this] { return over_; });
}

// Under its lock to the end: it is gone as soon as its thread has seen it.
void Store::Impl::Waiter::Wake() {
  const std::lock_guard lock(mutex_);
  over_ = true;
  woken_.notify_one();
}

void Store::Impl::Submit(std::span<Write> writes) {
  const std::uint64_t hash = ForeseeOne(writes);
  std::unique_lock lock(core_.mutex);
  const TimePoint now = core_.clock.Now();
  SubmitLocked(writes, hash, now, core_.clock.UnixMillisAt(now));
  CatchUpLocked();
  TellAll(lock);
}

void Store::Impl::Submit(std::span<Write> writes, TimePoint now, std::int64_t unix_ms) {
  std::unique_lock lock(core_.mutex);
  // Behind the lock, for who writes for others: that takes its time, in which the key comes from their
  // processor.
  const std::uint64_t hash = ForeseeOne(writes);
  SubmitLocked(writes, hash, now, unix_ms);
  TellAll(lock);
}

bool Store::Impl::Sync() {
  std::unique_lock lock(core_.mutex);
  return SyncPending(lock);
}

void Store::Impl::Commit(std::span<Write> writes) {
  Waiter waiter;
  const std::uint64_t hash = ForeseeOne(writes);
  {
    std::unique_lock lock(core_.mutex);
    const TimePoint now = core_.clock.Now();
    waiter_ = &waiter;
    SubmitLocked(writes, hash, now, core_.clock.UnixMillisAt(now));
    waiter_ = nullptr;
    CatchUpLocked();
    const bool waits = waiter.pending > 0;
    TellAll(lock);
    if (!waits) return;
    while (!syncer_.joinable() && waiter.pending > 0) SyncPending(lock);
  }
  waiter.Wait();
}

absl::Status Store::Impl::StartSyncing(const StoreOptions& options) {
  if (options.syncing == Syncing::kInSteps) return absl::OkStatus();
  REMORA_ASSIGN_OR_RETURN(syncer_, StartThread([this] { return std::thread([this] { SyncInThread(); }); }));
  return absl::OkStatus();
}

// Who was told that its write is done comes with the next one, often, and a little too late for the sync that
// would begin at once: so half of the writers would take turns with the other half. A little of the time that
// a sync takes is worth waiting for them.
void Store::Impl::SyncInThread() {
  constexpr int kShare = 8;
  constexpr std::chrono::milliseconds kLongest{1};
  std::unique_lock lock(core_.mutex);
  for (;;) {
    sync_wanted_.wait(lock, [&] { return stop_syncing_ || last_ticket_ > synced_to_; });
    const TimePoint start = std::chrono::steady_clock::now();
    if (!SyncPending(lock)) return;
    const Duration patience =
        std::min<Duration>((std::chrono::steady_clock::now() - start) / kShare, kLongest);
    gather_ = last_under_way_;
    sync_wanted_.wait_for(lock, patience, [&] { return stop_syncing_ || pending_.size() >= gather_; });
    gather_ = 1;
  }
}

void Store::Impl::StopSyncing() {
  if (!syncer_.joinable()) return;
  {
    const std::lock_guard lock(core_.mutex);
    stop_syncing_ = true;
  }
  sync_wanted_.notify_one();
  syncer_.join();
}

}  // namespace remora
