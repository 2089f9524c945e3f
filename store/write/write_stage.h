// The first step of a commit. It checks, copies, verifies and decides each write of a group, in order, and
// reserves space for it. After that, only the durable tier can fail the write.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "store/engine/core.h"
#include "store/engine/writer_lock.h"
#include "store/options.h"
#include "store/reclaim/maintenance.h"
#include "store/write/cold_writes.h"
#include "store/write/group_keys.h"
#include "store/write/large_records.h"
#include "store/write/read_modify_write.h"
#include "store/write/staged_write.h"
#include "store/write/write.h"

namespace remora {

/// Returns the size of the value that a write brings.
std::size_t ValueSize(const Write& write);

/// Returns the number of writes of the batch that `writes` begins with; 1 if it begins with a single write.
std::size_t BatchSize(std::span<const Write> writes);

/// Owns the group that is being committed: its staged writes, and the changes that they will make.
///
/// Thread safety: none; the caller holds the store's lock.
class WriteStage {
 public:
  /// All arguments outlive this.
  WriteStage(StoreCore& core, Maintenance& maintenance, const LargeRecords& large,
             const StoreOptions& options)
      : core_(core),
        maintenance_(maintenance),
        large_(large),
        default_ttl_(options.default_ttl),
        durability_(options.durability),
        cold_writes_(core, large),
        modify_(core) {}
  WriteStage(const WriteStage&) = delete;
  WriteStage& operator=(const WriteStage&) = delete;

  /// Begins a group of at most so many writes.
  void Begin(std::size_t writes) REMORA_WRITER;
  /// Counts the slot that a pending write of this key will take (sync_queue.h, S5).
  void AddPendingKey(std::uint64_t key_hash) REMORA_WRITER { ++growth_[core_.index.MainBucketOf(key_hash)]; }

  /// Stages a write: checks, copies and decides it, and reserves its space.
  /// Aborted: there is no space right now; a reservation of the write stays as it is.
  /// Other errors: those of Write::status.
  /// After an error, the group is as before.
  absl::Status Stage(Write& write, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Stages all writes of a batch, or none of them. Its errors are those of Stage.
  absl::Status StageBatch(std::span<Write> batch, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Implements ServerStore::BeginReads.
  void BeginReads(std::span<const Write> writes,
                  std::vector<std::unique_ptr<ColdRead>>* reads) const REMORA_WRITER {
    for (const Write& write : writes) reads->push_back(cold_writes_.BeginRead(write));
  }
  /// Gives back the record of a staged write that will not be published.
  void Rollback(const StagedWrite& staged) REMORA_WRITER;

  std::vector<StagedWrite>& staged() REMORA_WRITER { return staged_; }
  bool is_one() const REMORA_WRITER { return is_one_; }
  /// Returns whether a write of the group is pending, or was and has been reverted with its batch.
  bool has_pending() const REMORA_WRITER { return has_pending_; }
  /// Returns whether the last decision depended on a pending write (S6).
  bool decided_on_pending() const REMORA_WRITER { return decided_on_pending_; }
  /// Returns the durability that a write asks for.
  Durability LevelOf(const Write& write) const { return write.durability.value_or(durability_); }

 private:
  // Changes that Decide made for a staged write of a batch; UnstageTo reverts them.
  struct Change {
    std::uint32_t* last = nullptr;  // the key's number in keys_, and its value before
    std::uint32_t before = GroupKeys::kNone;
    std::uint64_t bucket = 0;
    std::int64_t growth = 0;
  };

  /// Decides a kCheck of a batch, given all writes staged before.
  absl::Status Test(Write& write, std::int64_t unix_ms) REMORA_WRITER;
  /// Returns where the group has the number of the last write of this key. Null: the group is one write.
  std::uint32_t* LastOf(const StagedWrite& staged) REMORA_WRITER;
  /// Finds the state of the key's record after all writes staged before. `last`: of LastOf.
  absl::Status FindLast(const StagedWrite& staged, const std::uint32_t* last,
                        KnownRecord* known) const REMORA_WRITER;
  /// Reverts the staged writes of a batch, so that `count` writes are left in the group.
  void UnstageTo(std::size_t count) REMORA_WRITER;
  absl::Status CopyAndVerify(StagedWrite& staged, TimePoint now) REMORA_WRITER;
  /// Decides whether the write applies, given all writes staged before; assigns its version and expiry, and
  /// reserves its slot in the index.
  absl::Status Decide(StagedWrite& staged, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Looks up the key's record as it is before this group.
  absl::Status LookUp(const StagedWrite& staged, KnownRecord* known) const REMORA_WRITER;
  /// Returns whether a scan may have to show the record that a write of a cold key replaces: one is open, or
  /// may open while the write is pending.
  bool ViewsMayNeed(const Write& write) const REMORA_WRITER;
  /// Pins the record of a write that may be published later (S4).
  void Pin(StagedWrite& staged) REMORA_WRITER;
  /// Makes all writes of a batch pending if one of them is, or a check holds by a pending write.
  void SyncAllOrNone(std::span<StagedWrite> batch, bool holds_on_pending) REMORA_WRITER;

  StoreCore& core_;
  Maintenance& maintenance_;
  const LargeRecords& large_;
  const std::chrono::milliseconds default_ttl_;
  const Durability durability_;
  const ColdWrites cold_writes_;
  ReadModifyWrite modify_;

  // The group. Its containers are reused, so that a group allocates no memory.
  std::vector<StagedWrite> staged_ REMORA_WRITERS;
  bool is_one_ REMORA_WRITERS = false;                                      // the group has a single write
  GroupKeys keys_ REMORA_WRITERS;                                           // numbers in staged_
  absl::flat_hash_map<std::uint64_t, std::int64_t> growth_ REMORA_WRITERS;  // entries added, by main bucket
  bool has_pending_ REMORA_WRITERS = false;
  bool decided_on_pending_ REMORA_WRITERS = false;
  bool in_batch_ REMORA_WRITERS = false;
  std::vector<Change> batch_changes_ REMORA_WRITERS;
};

}  // namespace remora
