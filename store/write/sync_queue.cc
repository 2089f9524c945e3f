#include "store/write/sync_queue.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "store/base/start_thread.h"
#include "store/base/status_macros.h"

namespace remora {

// --- Pending writes -------------------------------------------------------------------------------------

std::size_t SyncQueue::FrontBatchSize() const {
  std::size_t size = 1;
  while (pending_[size - 1].write.continues_batch && size < pending_.size()) ++size;
  return size;
}

SyncQueue::PendingWrite& SyncQueue::Add(Write& write, std::uint64_t logged_before) {
  PendingWrite& pending = pending_.emplace_back();
  pending.ticket = ++last_ticket_;
  if (waiter_ != nullptr) {
    pending.caller = &write;
    pending.waiter = waiter_;
    ++waiter_->pending;
  }
  pending.logged_before = logged_before;
  pending.write = write;
  write.ticket = pending.ticket;
  return pending;
}

void SyncQueue::Enqueue(StagedWrite& staged, std::uint64_t logged_before) {
  const std::size_t key_size = staged.key.size();
  PendingWrite& pending = Add(*staged.write, logged_before);
  pending.staged = std::move(staged);
  pending.staged.write = &pending.write;
  if (core_.ships) pending.group = core_.tier->group_number();
  pending.staged.old.is_looked_up = false;  // S3
  // The move of the string has invalidated the view of the key.
  pending.staged.key = pending.staged.is_delete() ? std::string_view(pending.staged.own).substr(0, key_size)
                                                  : core_.log.Key(pending.staged.place);
  std::optional<Place> place;
  if (!pending.staged.is_delete()) place = pending.staged.place;
  core_.unsynced_keys.Set(pending.staged.key,
                          {pending.ticket, place, pending.staged.expiry_ms, pending.staged.version});
  if (!pending.staged.synced) return;
  wanted_to_ = pending.ticket;
  if (pending_.size() >= gather_) sync_wanted_.notify_one();
}

// If no write is pending, the write on which the rejection depends is visible by now, or was abandoned with
// its group.
void SyncQueue::EnqueueRejection(Write& write, std::uint64_t logged_before) {
  if (pending_.empty()) return;
  PendingWrite& pending = Add(write, logged_before);
  pending.is_rejected = true;
  pending.write.continues_batch = false;  // a rejected batch has one outcome
}

void SyncQueue::PopFront(bool tells) {
  const PendingWrite& pending = pending_.front();
  last_ended_group_ = pending.group;
  if (tells || pending.caller != nullptr) Complete(pending);
  pending_.pop_front();
}

void SyncQueue::PopRejection() {
  PendingWrite& pending = pending_.front();
  if (!core_.disk.sync_failure().ok()) pending.write.status = core_.disk.sync_failure();
  fsync_ended_to_ = std::max(fsync_ended_to_, pending.ticket);  // no write before it is pending
  Complete(pending);
  pending_.pop_front();
}

void SyncQueue::EndGroups() {
  for (PendingWrite& pending : pending_) pending.group = 0;
}

void SyncQueue::UpdateChangesEnd() {
  core_.metrics.Set(Metric::kWritesUnsynced, pending_.size());
  // A pending write may never become visible, so no watch may show it.
  core_.changes_held_at = pending_.empty() ? StoreCore::kNothingPending : pending_.front().logged_before;
  core_.AdvanceChangesEnd();
}

// --- Outcomes -------------------------------------------------------------------------------------------

void SyncQueue::Complete(const PendingWrite& pending) {
  const Write& write = pending.write;
  if (pending.caller != nullptr) {
    pending.caller->status = write.status;
    pending.caller->version = write.version;
    pending.caller->slot = write.slot;
    pending.caller->ticket = 0;
    if (--pending.waiter->pending == 0) finished_waiters_.push_back(pending.waiter);
    return;
  }
  outcomes_.push_back({pending.ticket, write.status, write.version, write.slot, write.result});
}

void SyncQueue::TakeOutcomes(std::vector<SyncedWrite>* outcomes) {
  outcomes->insert(outcomes->end(), outcomes_.begin(), outcomes_.end());
  outcomes_.clear();
}

absl::Status SyncQueue::CheckEnded(std::uint64_t ticket) const {
  if (!pending_.empty() && pending_.front().ticket <= ticket) {
    return absl::AbortedError(waits_for_followers() ? "sync: the followers lack the write; wait for them"
                                                    : "sync: the disk lacks the write; wait for it");
  }
  return core_.disk.sync_failure();
}

void SyncQueue::NotifyWaiters(WriterLock& lock) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const bool outcomes = !outcomes_.empty() && on_synced_;
  if (!outcomes && finished_waiters_.empty()) return;
  const std::vector<SyncWaiter*> finished = std::exchange(finished_waiters_, {});
  lock.Unlock();
  for (SyncWaiter* waiter : finished) waiter->Wake();
  if (outcomes) on_synced_();
  lock.Lock();
}

void SyncWaiter::Wait() {
  MutexLock lock(mutex_);
  while (!finished_) lock.Wait(woken_);
}

// Holds the mutex while it notifies: the waiting thread destroys the waiter as soon as it sees `finished_`.
void SyncWaiter::Wake() {
  const MutexLock lock(mutex_);
  finished_ = true;
  woken_.notify_one();
}

// --- The disk -------------------------------------------------------------------------------------------

absl::Status SyncQueue::SyncNow() {
  const TimePoint begin = core_.clock.Now();
  const absl::Status status = core_.tier->Sync();
  core_.metrics.Record(Metric::kSyncTime, core_.clock.Now() - begin);
  core_.disk.NoteSync(status);
  return core_.disk.sync_failure();
}

void SyncQueue::SyncAll() {
  if (wanted_to_ <= fsync_ended_to_) return;
  MarkAllSynced();
  SyncNow().IgnoreError();  // the outcome of each write reports the error
}

bool SyncQueue::SyncUnlocked(WriterLock& lock) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (wanted_to_ <= fsync_ended_to_) return false;
  const std::uint64_t to = last_ticket_;
  lock.Unlock();
  const TimePoint begin = core_.clock.Now();
  const absl::Status status = core_.tier->Sync();
  const Duration took = core_.clock.Now() - begin;
  lock.Lock();
  core_.metrics.Record(Metric::kSyncTime, took);  // one thread at a time, as it holds the lock
  core_.disk.NoteSync(status);
  fsync_ended_to_ = std::max(fsync_ended_to_, to);
  last_in_flight_ = pending_.size();
  return true;
}

absl::Status SyncQueue::Start(std::function<bool(WriterLock&)> sync) {
  sync_ = std::move(sync);
  REMORA_ASSIGN_OR_RETURN(thread_, StartThread([this] { return std::thread([this] { Run(); }); }));
  return absl::OkStatus();
}

// A caller whose write has ended often sends its next one a little too late for an fsync that begins at once.
// Half of the callers would then take turns with the other half. So the thread waits for their writes for a
// small share of the time that an fsync takes.
void SyncQueue::Run() {
  constexpr int kShare = 8;
  constexpr std::chrono::milliseconds kLongest{1};
  WriterLock lock(core_.mutex);
  for (;;) {
    while (!stops_ && wanted_to_ <= fsync_ended_to_) lock.Wait(sync_wanted_);
    const TimePoint start = std::chrono::steady_clock::now();
    if (!sync_(lock)) return;
    const TimePoint now = std::chrono::steady_clock::now();
    const TimePoint until = now + std::min<Duration>((now - start) / kShare, kLongest);
    gather_ = last_in_flight_;
    while (!stops_ && pending_.size() < gather_ && lock.WaitUntil(sync_wanted_, until)) {
    }
    gather_ = 1;
  }
}

void SyncQueue::Stop() {
  if (!thread_.joinable()) return;
  {
    const WriterLock lock(core_.mutex);
    stops_ = true;
  }
  sync_wanted_.notify_one();
  thread_.join();
}

}  // namespace remora
