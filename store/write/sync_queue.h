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
//       is read from there waits: Promoter; the expirers leave the key alone, whose deletion would come
//       behind the pending write.
//   S3  That old record may be moved, and evicted. So Publish looks for it anew. (A key that was not loaded
//       would leave open whether a cold entry is its own. While the store loads, the disk is waited for under
//       the lock.)
//       A scan goes through the tier: before it begins, the disk is asked for all that is pending
//       (WritePipeline::PublishAll). A watch ends before the first that is pending
//       (StoreCore::AdvanceChangesEnd).
//   S4  The pending record is held: its segment is not cleaned (ValueLog::Pin).
//   S5  Room in the index was made for it, and counts for what is committed meanwhile; should growth have
//       taken it all the same, the write is published when there is room.
//   S6  A write that is refused for what is pending ends when that is visible: the caller's next read must
//       not say otherwise. Nor is it so where the machine fails before.
// Of a batch, either all writes are synced, or none; they are published under one hold of the lock.
//
// A disk that did not take it leaves open what it has, and asking it again proves nothing. Then nothing that
// was pending ever becomes visible, its keys stay as S2 says, and the store takes no more writes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "store/engine/core.h"
#include "store/engine/writer_lock.h"
#include "store/store.h"
#include "store/write/staged_write.h"

namespace remora {

/// A thread that waits until its writes have ended. Each is woken by itself, and without the store's lock:
/// woken together, they would queue up for that, one behind the other.
class SyncWaiter {
 public:
  std::size_t pending REMORA_WRITERS = 0;  // of its writes

  void Wait();
  void Wake();

 private:
  std::mutex mutex_;
  std::condition_variable woken_;
  bool finished_ = false;  // under mutex_
};

/// Owns the writes that wait for the disk, in the order of their tickets, which is that of their versions;
/// and the thread that syncs. What becomes visible, and when, the pipeline decides (write_pipeline.h).
///
/// Thread Safety: the writer's, unless a method says otherwise.
class SyncQueue {
 public:
  /// A staged write that is in the durable tier, and waits for the disk.
  struct PendingWrite {
    std::uint64_t ticket = 0;
    Write write;                      // a copy, without what it points to
    Write* caller = nullptr;          // gets the outcome; null: it is for TakeOutcomes
    SyncWaiter* waiter = nullptr;     // of the caller
    std::uint64_t logged_before = 0;  // the sequence, before its group
    bool is_refused = false;          // nothing is staged; the write's status says why (S6)
    StagedWrite staged;
  };

  /// `core` outlives it. `on_synced`: as StoreOptions.
  SyncQueue(StoreCore& core, std::function<void()> on_synced)
      : core_(core), on_synced_(std::move(on_synced)) {}
  SyncQueue(const SyncQueue&) = delete;
  SyncQueue& operator=(const SyncQueue&) = delete;

  // --- Pending writes

  bool empty() const REMORA_WRITER { return pending_.empty(); }
  const std::deque<PendingWrite>& pending() const REMORA_WRITER { return pending_; }
  PendingWrite& front() REMORA_WRITER { return pending_.front(); }
  /// Whether the disk has the first one, or never will; or it is a refusal, before which nothing is pending.
  bool front_is_due() const REMORA_WRITER {
    return !pending_.empty() && (pending_.front().ticket <= synced_to_ || pending_.front().is_refused);
  }
  /// Returns the number of writes of the batch that is the next to be published; 1 where none is.
  std::size_t FrontBatchSize() const REMORA_WRITER;

  /// Until the next call, writes that are enqueued are those of a thread that waits. Null: of none.
  void SetWaiter(SyncWaiter* waiter) REMORA_WRITER { waiter_ = waiter; }
  /// Adds a write of a group before which `logged_before` was logged, and takes over its staged one.
  void Enqueue(StagedWrite& staged, std::uint64_t logged_before) REMORA_WRITER;
  /// Adds a write that was refused for what is pending.
  void EnqueueRefusal(Write& write, std::uint64_t logged_before) REMORA_WRITER;
  /// Ends the first write; `tells`: its outcome is that of its batch.
  void PopFront(bool tells) REMORA_WRITER;
  /// Ends the first write, which was refused.
  void PopRefusal() REMORA_WRITER;
  /// Counts what is pending, and moves the end of the changes that may be shown.
  void UpdateChangesEnd() REMORA_WRITER;

  // --- Outcomes

  /// Adds the outcomes that nobody waits for.
  void TakeOutcomes(std::vector<SyncedWrite>* outcomes) REMORA_WRITER;
  /// Whether the write with this ticket, and all before it, are visible. Aborted: it is pending yet.
  /// Unavailable: the disk failed, and it may never be.
  absl::Status CheckEnded(std::uint64_t ticket) const REMORA_WRITER;
  /// Wakes those whose writes have ended, without the lock, which it takes again. A thread that ended pending
  /// writes calls it before it gives up the lock for good.
  void NotifyWaiters(WriterLock& lock) REMORA_WRITER;

  // --- The disk

  /// Asks the disk for all writes so far, of all groups, under the lock.
  absl::Status SyncNow() REMORA_WRITER;
  /// The same where any write waits for it. All that is pending is due then.
  void SyncAll() REMORA_WRITER;
  /// The same, without the lock meanwhile. False: no write waits for the disk.
  bool SyncUnlocked(WriterLock& lock) REMORA_WRITER;
  /// The disk has all writes so far.
  void MarkAllSynced() REMORA_WRITER { synced_to_ = last_ticket_; }

  /// Starts a thread that calls `sync` while writes wait for the disk. `sync` makes them visible, and returns
  /// false where none waits.
  absl::Status Start(std::function<bool(WriterLock&)> sync);
  /// Returns when the thread has ended, if there is one. Any thread, not the writer.
  void Stop();
  /// Whether that thread was started. Any thread.
  bool has_thread() const { return thread_.joinable(); }

 private:
  /// Adds a pending write. Its outcome is its caller's, or is for TakeOutcomes.
  PendingWrite& Add(Write& write, std::uint64_t logged_before) REMORA_WRITER;
  void Complete(const PendingWrite& pending) REMORA_WRITER;
  void Run();

  StoreCore& core_;
  const std::function<void()> on_synced_;
  std::deque<PendingWrite> pending_ REMORA_WRITERS;
  std::uint64_t last_ticket_ REMORA_WRITERS = 0;
  std::uint64_t synced_to_ REMORA_WRITERS = 0;  // the disk has those of these tickets, or never will
  std::vector<SyncedWrite> outcomes_ REMORA_WRITERS;
  SyncWaiter* waiter_ REMORA_WRITERS = nullptr;
  std::vector<SyncWaiter*> finished_waiters_ REMORA_WRITERS;  // to be woken

  // The thread's.
  std::function<bool(WriterLock&)> sync_;
  std::size_t last_in_flight_ REMORA_WRITERS = 0;  // writes that were pending at the end of the last sync
  std::size_t gather_ REMORA_WRITERS = 1;          // as many as the thread waits for
  bool stops_ REMORA_WRITERS = false;
  std::condition_variable sync_wanted_;
  std::thread thread_;
};

}  // namespace remora
