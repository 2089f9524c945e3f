// All writes: a group of them, from the caller's bytes to what readers see.
//
//   Stage        each, in order: check, copy, verify the copy, decide, make sure of room, assign its version
//                (write_stage.h)
//   SealAll      completes their records
//   MakeDurable  one write for the group; the last thing that can fail
//   Publish      each, in order; but those that are to be synced, when the disk has them (sync_queue.h)
//
// A plain put of a store that is only in memory takes a shorter way: write_fast_path.h.
// What follows from it (growth, cleaning, counters) is debt (store/reclaim/maintenance.h): a caller that
// waits for an outcome need not wait for that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "store/engine/core.h"
#include "store/engine/writer_lock.h"
#include "store/reclaim/maintenance.h"
#include "store/reclaim/space_manager.h"
#include "store/store.h"
#include "store/write/large_records.h"
#include "store/write/sync_queue.h"
#include "store/write/write_fast_path.h"
#include "store/write/write_prefetch.h"
#include "store/write/write_stage.h"

namespace remora {

/// Commits writes, and publishes those that wait for the disk once it has them.
///
/// Thread Safety: Commit, CommitNow, Submit and Sync take the store's lock; the rest is the writer's.
class WritePipeline {
 public:
  /// All that it is given outlives it.
  WritePipeline(StoreCore& core, SpaceManager& space, Maintenance& maintenance, SyncQueue& queue,
                const LargeRecords& large, const StoreOptions& options);
  WritePipeline(const WritePipeline&) = delete;
  WritePipeline& operator=(const WritePipeline&) = delete;

  /// As Store::Commit, Submit and Sync.
  void Commit(std::span<Write> writes);
  void Submit(std::span<Write> writes);
  void Submit(std::span<Write> writes, TimePoint now, std::int64_t unix_ms);
  bool Sync();
  /// Commits writes, however long it takes.
  void CommitNow(std::span<Write> writes);
  /// Commits one write, or one batch, however long it takes, and returns its outcome. `version`, unless null,
  /// gets that of the first if it was done.
  absl::Status CommitNow(std::span<Write> writes, std::uint64_t* version);

  /// Publishes what the disk has, as far as there is room.
  void PublishSynced(TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Under the lock, asks the disk for all that is pending, and publishes it. Aborted: there is no room right
  /// now. Unavailable: the disk failed, now or before.
  absl::Status PublishAll() REMORA_WRITER;
  /// Asks the disk for all that is pending, without the lock meanwhile, and publishes it. False: nothing
  /// waits for the disk.
  bool SyncPending(WriterLock& lock) REMORA_WRITER;

 private:
  /// Commits as of `now`. Leaves debt. `prefetched`: what PrefetchOne returned.
  void SubmitLocked(std::span<Write> writes, std::uint64_t prefetched, TimePoint now,
                    std::int64_t unix_ms) REMORA_WRITER;
  /// Whether the fast path may try them. Flushes what has expired, where there is a tier.
  bool IsForFastPath(std::span<const Write> writes) REMORA_WRITER;
  /// Commits from the start of `writes` as many as there is room for; returns how many that were.
  std::size_t CommitGroup(std::span<Write> writes, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Stages them, likewise.
  std::size_t StageGroup(std::span<Write> writes, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Makes sure of space for a write that was Aborted for want of it.
  SpaceResult MakeSpaceFor(const Write& write, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  void SealAll() REMORA_WRITER;
  absl::Status MakeDurable() REMORA_WRITER;
  void PublishOrEnqueue(TimePoint now) REMORA_WRITER;
  void Publish(const StagedWrite& staged, TimePoint now) REMORA_WRITER;
  void Abandon(const absl::Status& why) REMORA_WRITER;
  void EnqueueRefusals() REMORA_WRITER;
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
  std::uint64_t logged_before_ REMORA_WRITERS = 0;  // the sequence, before the group
  std::vector<Write*> refused_ REMORA_WRITERS;      // those of the group that are to be pending
  // By main bucket, the entries that pending writes will add; kept for its memory.
  absl::flat_hash_map<std::uint64_t, std::size_t> pending_growth_ REMORA_WRITERS;
};

}  // namespace remora
