// The path of a group of writes, from the caller's bytes to the records that readers see.
//
//   Stage        each write, in order: check, copy, verify the copy, decide, reserve space, assign a version
//                (write_stage.h)
//   SealAll      complete the records of the group
//   MakeDurable  write the group to the durable tier; this is the last step that can fail
//   Publish      each write, in order; synced writes follow after their fsync (sync_queue.h)
//
// Plain puts of a store without a durable tier, and some puts of a store with a commit log, take the fast
// path (write_fast_path.h).
//
// A group adds maintenance debt (store/reclaim/maintenance.h): growth, cleaning, counters. A caller gets its
// outcomes without waiting for that work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "store/base/timing_sample.h"
#include "store/engine/core.h"
#include "store/engine/writer_lock.h"
#include "store/options.h"
#include "store/reclaim/maintenance.h"
#include "store/reclaim/space_manager.h"
#include "store/write/large_records.h"
#include "store/write/sync_queue.h"
#include "store/write/write.h"
#include "store/write/write_fast_path.h"
#include "store/write/write_prefetch.h"
#include "store/write/write_stage.h"

namespace remora {

/// Commits writes, and publishes synced writes after their fsync.
///
/// The class has more than 25 methods, because writes that wait and those that do not take the same steps.
///
/// Thread safety: any thread may call Commit, CommitNow, Submit, Sync and BeginReads, which take the store's
/// lock. The caller of any other method holds that lock.
class WritePipeline {
 public:
  /// All arguments outlive this.
  WritePipeline(StoreCore& core, SpaceManager& space, Maintenance& maintenance, SyncQueue& queue,
                const LargeRecords& large, const StoreOptions& options);
  WritePipeline(const WritePipeline&) = delete;
  WritePipeline& operator=(const WritePipeline&) = delete;

  /// Implement ServerStore::Commit, ServerStore::Submit and ServerStore::Sync.
  void Commit(std::span<Write> writes);
  void Submit(std::span<Write> writes);
  void Submit(std::span<Write> writes, TimePoint now, std::int64_t unix_ms);
  bool Sync();
  /// Implements ServerStore::BeginReads.
  void BeginReads(std::span<const Write> writes, std::vector<std::unique_ptr<ColdRead>>* reads) const;
  /// Commits writes, and repeats those that are Aborted for lack of space, until none is.
  void CommitNow(std::span<Write> writes);
  /// Commits one write, or one batch, likewise, and returns its outcome. If that is OK and `version` is not
  /// null, stores the version of the first write there.
  absl::Status CommitNow(std::span<Write> writes, std::uint64_t* version);

  /// Ends the pending writes that the disk and the followers have, as far as there is space: publishes them,
  /// or fails them if the disk failed.
  void PublishSynced(TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Calls fsync for all pending writes while it holds the lock, and publishes them.
  /// Aborted: there is no space right now, or a follower does not have them yet.
  /// Unavailable: the disk failed, now or before.
  absl::Status PublishAll() REMORA_WRITER;
  /// Makes sure that no visible write is later than a pending one, so that a scan shows the writes up to one
  /// version. Does nothing if that is so. Else it does the same as PublishAll.
  absl::Status PublishInOrder() REMORA_WRITER;
  /// Calls fsync for all pending writes, without the lock meanwhile, and publishes those that the followers
  /// have. Returns false if no write waits for the disk.
  bool SyncPending(WriterLock& lock) REMORA_WRITER;
  /// Makes a staged write visible. REQUIRES: it is in the durable tier; its slot in the index is reserved. If
  /// it deletes a key and the load is over, the index has the key.
  void Publish(const StagedWrite& staged, TimePoint now) REMORA_WRITER;

 private:
  /// Commits writes as of `now`, and leaves the maintenance debt. `prefetched`: the result of PrefetchOne.
  void SubmitLocked(std::span<Write> writes, std::uint64_t prefetched, TimePoint now,
                    std::int64_t unix_ms) REMORA_WRITER;
  /// Returns whether the fast path may try these writes. If there is a tier, it then flushes the removals of
  /// expired keys, as CommitGroup does.
  bool IsForFastPath(std::span<const Write> writes) REMORA_WRITER;
  /// Commits writes from the start of `writes` until there is no space for the next one. Returns the number
  /// of writes that have an outcome.
  std::size_t CommitGroup(std::span<Write> writes, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Stages writes from the start of `writes` until there is no space for the next one. Returns the number of
  /// writes that are staged or rejected.
  std::size_t StageGroup(std::span<Write> writes, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Stages the write or the batch that `writes` begins with, and returns its size. Its outcome is that of
  /// the first write.
  std::size_t StageNext(std::span<Write> writes, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Returns whether an earlier write of the same sender needs a read.
  bool IsBehindRead(const Write& write) const REMORA_WRITER;
  /// Makes space for a write that was Aborted for lack of it.
  SpaceResult MakeSpaceFor(const Write& write, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  void SealAll() REMORA_WRITER;
  /// `now`: when the group came.
  absl::Status MakeDurable(TimePoint now) REMORA_WRITER;
  void PublishOrEnqueue(TimePoint now) REMORA_WRITER;
  void Abandon(const absl::Status& why) REMORA_WRITER;
  void EnqueueRejections() REMORA_WRITER;
  bool MakeSpaceForPending(std::size_t batch, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;

  StoreCore& core_;
  SpaceManager& space_;
  Maintenance& maintenance_;
  SyncQueue& queue_;
  const LargeRecords& large_;
  const WritePrefetcher prefetcher_;
  WriteFastPath fast_path_;
  WriteStage stage_;
  bool group_is_on_disk_ REMORA_WRITERS = false;
  /// The last version that Publish has made visible. (The fast path does so only while nothing is pending.)
  std::uint64_t last_visible_ REMORA_WRITERS = 0;
  TimingSample timed_ REMORA_WRITERS;                // of the writes to RocksDB
  std::uint64_t logged_before_ REMORA_WRITERS = 0;   // the tier's sequence before the group
  std::vector<const void*> put_off_ REMORA_WRITERS;  // senders of the writes that need a read (D8)
  std::vector<Write*> rejected_ REMORA_WRITERS;      // rejected writes of the group that must wait (S6)
  // Entries that pending writes will add, by main bucket. Reused, to allocate no memory.
  absl::flat_hash_map<std::uint64_t, std::size_t> pending_growth_ REMORA_WRITERS;
};

}  // namespace remora
