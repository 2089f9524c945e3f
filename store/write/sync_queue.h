// Synced writes: those that are on disk before any reader sees them (Durability::kSynced). And the writes of
// a store with followers, which have them before any reader sees them.
//
// The pipeline stages such a write, and writes it to the durable tier in its group, as any other. Then the
// write is pending: its record is in the log, sealed and dead, and no slot leads to it. A thread calls fsync
// for all pending writes so far. Meanwhile the pipeline commits other groups, and publishes those of their
// writes that are not synced. After the fsync, it publishes the pending writes in the order of their
// versions.
//
// For a key that has a pending write, these invariants hold:
//   S1  The next write of the key is synced, too, and is decided as if the pending write were visible. So the
//       writes of a key become visible in their order.
//   S2  Readers get the record of the previous write, or miss. The tier has the pending write already, so
//       reads of the tier wait (Promoter). The expirers leave the key alone, because their deletion would
//       come behind the pending write.
//   S3  The previous record may be moved or evicted, so Publish looks it up again. That works only for loaded
//       keys: for a key not loaded yet, a cold entry may be another key's. So while the store loads, the
//       writer calls fsync under the lock, and publishes at once. A scan reads the tier, so it begins after
//       the fsync of all pending writes (WritePipeline::PublishAll). A scan over the ordered index does so
//       only if a later write is visible already (PublishInOrder). A watch ends before the first pending
//       write (StoreCore::AdvanceChangesEnd).
//   S4  The pending record stays where it is: its segment is not cleaned (ValueLog::Pin).
//   S5  The write has reserved its space in the index, and later groups count that space as taken. If the
//       growth of the index has used it all the same, the write is published when there is space.
//   S6  A write that is rejected because of a pending one ends when the pending write is visible. Otherwise
//       the caller's next read could contradict the rejection, or the machine could fail before and lose the
//       pending write.
// All writes of a batch are synced, or none is. They are published in one hold of the lock.
//
// While the groups are shipped to followers (store/durable/group_sink.h), every write is pending, of any
// level. It is published once the followers have its group, and, if it is synced, after its fsync. S1 to S6
// hold with "pending" in place of "synced"; the order of the queue is that of all writes.
//
// If fsync fails, nobody knows which writes the disk has, and another fsync proves nothing. Then no pending
// write ever becomes visible, their keys stay as S2 says, and the store takes no more writes.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "store/base/mutex.h"
#include "store/engine/core.h"
#include "store/engine/writer_lock.h"
#include "store/options.h"
#include "store/write/staged_write.h"
#include "store/write/write.h"

namespace remora {

/// One thread that waits for the outcomes of its writes. Each thread has its own condition variable, and
/// needs no store's lock to wake: threads that wake together would queue up for that lock.
class SyncWaiter {
 public:
  std::size_t pending REMORA_WRITERS = 0;  // writes of the thread that have no outcome yet

  /// Blocks until Wake was called.
  void Wait();
  /// Wakes the thread, which may destroy this at once.
  void Wake();

 private:
  Mutex mutex_;
  std::condition_variable woken_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

/// Owns the pending writes, in the order of their tickets, which is that of their versions. Also owns the
/// thread that calls fsync. The pipeline decides when a write becomes visible (write_pipeline.h).
///
/// The class has more than 25 methods and 15 fields, because a pending write may wait for two things: the
/// disk and the followers. Each has its part here.
///
/// Thread safety: the caller holds the store's lock, unless a method says otherwise.
class SyncQueue {
 public:
  /// A staged write that is in the durable tier, and waits for the disk, or for the followers.
  struct PendingWrite {
    std::uint64_t ticket = 0;
    Write write;                   // a copy; its pointers may be invalid
    Write* caller = nullptr;       // the caller's write, which gets the outcome; null: TakeOutcomes gets it
    SyncWaiter* waiter = nullptr;  // of the caller
    std::uint64_t logged_before = 0;  // the tier's sequence before the group of the write
    std::uint64_t group = 0;          // the number of its group; 0: the followers need not have it
    bool is_rejected = false;         // rejected (S6): nothing is staged, and write.status is the error
    StagedWrite staged;
  };

  /// `core` outlives this. `on_synced`: StoreOptions::on_synced.
  SyncQueue(StoreCore& core, std::function<void()> on_synced)
      : core_(core), on_synced_(std::move(on_synced)) {}
  SyncQueue(const SyncQueue&) = delete;
  SyncQueue& operator=(const SyncQueue&) = delete;

  // --- Pending writes

  bool empty() const REMORA_WRITER { return pending_.empty(); }
  const std::deque<PendingWrite>& pending() const REMORA_WRITER { return pending_; }
  PendingWrite& front() REMORA_WRITER { return pending_.front(); }
  /// Returns whether the first write can end. A rejection can, because it has no pending write before it by
  /// now. Of another write, the fsync is over, or has failed, and the followers have it.
  bool front_is_due() const REMORA_WRITER {
    if (pending_.empty()) return false;
    const PendingWrite& first = pending_.front();
    const bool on_disk = first.ticket <= fsync_ended_to_ || !first.staged.synced;
    return (on_disk && !waits_for_followers()) || first.is_rejected;
  }
  /// Returns whether the first write waits for the followers. After a failed fsync, none does.
  bool waits_for_followers() const REMORA_WRITER {
    return !pending_.empty() && pending_.front().group > acknowledged_ && core_.disk.sync_failure().ok();
  }
  /// Returns the number of writes of the batch that the queue begins with; 1 if it begins with a single
  /// write. REQUIRES: the queue is not empty.
  std::size_t FrontBatchSize() const REMORA_WRITER;

  /// Assigns the writes that are enqueued until the next call to a waiting thread. Null: to none.
  void SetWaiter(SyncWaiter* waiter) REMORA_WRITER { waiter_ = waiter; }
  /// Adds a staged write, and takes ownership of its state. `logged_before`: the tier's sequence before the
  /// group of the write.
  void Enqueue(StagedWrite& staged, std::uint64_t logged_before) REMORA_WRITER;
  /// Adds a write that was rejected because of a pending one (S6). Does nothing if none is pending any more.
  void EnqueueRejection(Write& write, std::uint64_t logged_before) REMORA_WRITER;
  /// Removes the first write. Reports its outcome if `tells`, or if a waiting caller wants it. Only the first
  /// write of a batch reports the outcome of the batch.
  void PopFront(bool tells) REMORA_WRITER;
  /// Removes the first write, which was rejected, and reports its outcome.
  void PopRejection() REMORA_WRITER;

  // --- The followers

  /// Says that the groups get numbers from `last` + 1 on, and that the followers have all others.
  void BeginGroups(std::uint64_t last) REMORA_WRITER { acknowledged_ = last; }
  /// Says that the followers have the groups up to this number.
  void Acknowledge(std::uint64_t number) REMORA_WRITER { acknowledged_ = std::max(acknowledged_, number); }
  /// Has no pending write wait for the followers any more.
  void EndGroups() REMORA_WRITER;
  /// Returns whether a group may be visible in part. If not, the visible writes are those of all groups up to
  /// one. True, too, while a write is pending that precedes BeginGroups.
  bool is_within_group() const REMORA_WRITER {
    return !pending_.empty() && (pending_.front().group == 0 || pending_.front().group == last_ended_group_);
  }

  // --- Watches

  /// Updates the counter of pending writes, and the end of the changes that watches may show.
  void UpdateChangesEnd() REMORA_WRITER;

  // --- Outcomes

  /// Moves the outcomes for which no thread waits to the end of `outcomes`.
  void TakeOutcomes(std::vector<SyncedWrite>* outcomes) REMORA_WRITER;
  /// Returns OK if the write with this ticket, and all before it, are visible.
  /// Aborted: the write is still pending.
  /// Unavailable: the disk failed, and the write may never be visible.
  absl::Status CheckEnded(std::uint64_t ticket) const REMORA_WRITER;
  /// Wakes the threads whose writes have ended. If there are any, it releases the lock meanwhile. A thread
  /// that ended pending writes calls this before it releases the lock for good.
  void NotifyWaiters(WriterLock& lock) REMORA_WRITER;

  // --- The disk

  /// Calls fsync for the writes of all groups so far, while it holds the lock. Returns the disk's failure, of
  /// now or before.
  absl::Status SyncNow() REMORA_WRITER;
  /// Calls SyncNow if any write waits for the disk. Afterwards no write waits for it: the disk has all
  /// pending writes, or has failed (DiskHealth::sync_failure).
  void SyncAll() REMORA_WRITER;
  /// Calls fsync for all pending writes, without the lock meanwhile. Afterwards the disk has them, or has
  /// failed (DiskHealth::sync_failure). Returns false if no write waits for the disk.
  bool SyncUnlocked(WriterLock& lock) REMORA_WRITER;
  /// Lets no write so far wait for another fsync. The caller holds the lock until its own call of fsync has
  /// ended, or knows that the disk has all these writes.
  void MarkAllSynced() REMORA_WRITER { fsync_ended_to_ = last_ticket_; }

  /// Starts a thread that calls `sync` while writes wait for the disk. `sync` calls fsync, ends those writes,
  /// and returns false if none waits.
  absl::Status Start(std::function<bool(WriterLock&)> sync);
  /// Stops that thread, if there is one, and returns when it has ended. Thread safety: any thread that does
  /// not hold the lock.
  void Stop();
  /// Returns whether that thread was started. Thread safety: any thread.
  bool has_thread() const { return thread_.joinable(); }

 private:
  /// Adds a pending write. Its outcome goes to the waiting caller, or else to TakeOutcomes.
  PendingWrite& Add(Write& write, std::uint64_t logged_before) REMORA_WRITER;
  /// Reports the outcome of a write.
  void Complete(const PendingWrite& pending) REMORA_WRITER;
  void Run();

  StoreCore& core_;
  const std::function<void()> on_synced_;
  std::deque<PendingWrite> pending_ REMORA_WRITERS;
  std::uint64_t last_ticket_ REMORA_WRITERS = 0;
  std::uint64_t wanted_to_ REMORA_WRITERS = 0;       // ticket of the last write that waits for an fsync
  std::uint64_t fsync_ended_to_ REMORA_WRITERS = 0;  // the fsync of tickets up to this one is over, or failed
  std::uint64_t acknowledged_ REMORA_WRITERS = 0;    // the followers have the groups up to this number
  std::uint64_t last_ended_group_ REMORA_WRITERS = 0;  // of the last write that has ended
  std::vector<SyncedWrite> outcomes_ REMORA_WRITERS;
  SyncWaiter* waiter_ REMORA_WRITERS = nullptr;
  std::vector<SyncWaiter*> finished_waiters_ REMORA_WRITERS;  // NotifyWaiters wakes them

  // State of the thread that syncs.
  std::function<bool(WriterLock&)> sync_;
  std::size_t last_in_flight_ REMORA_WRITERS = 0;  // writes that were pending at the end of the last sync
  std::size_t gather_ REMORA_WRITERS = 1;          // so many pending writes wake the thread
  bool stops_ REMORA_WRITERS = false;
  std::condition_variable sync_wanted_;
  std::thread thread_;
};

}  // namespace remora
