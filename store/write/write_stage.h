// The first step of a commit: each write of a group, in order, is checked, copied, verified and decided, and
// room is made sure of, until nothing but the durable tier can fail it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "store/engine/core.h"
#include "store/engine/writer_lock.h"
#include "store/reclaim/maintenance.h"
#include "store/store.h"
#include "store/write/group_keys.h"
#include "store/write/large_records.h"
#include "store/write/read_modify_write.h"
#include "store/write/staged_write.h"

namespace remora {

/// Returns the size of the value that a write brings.
std::size_t ValueSize(const Write& write);

/// Returns the number of writes of the batch that begins here; 1 where none does.
std::size_t BatchSize(std::span<const Write> writes);

/// Owns the group that is being committed: the writes that are staged, and what they will change.
///
/// Thread Safety: none; the writer's.
class WriteStage {
 public:
  /// All that it is given outlives it.
  WriteStage(StoreCore& core, Maintenance& maintenance, const LargeRecords& large,
             const StoreOptions& options)
      : core_(core),
        maintenance_(maintenance),
        large_(large),
        default_ttl_(options.default_ttl),
        durability_(options.durability),
        modify_(core) {}
  WriteStage(const WriteStage&) = delete;
  WriteStage& operator=(const WriteStage&) = delete;

  /// Begins a group of so many writes at most.
  void Begin(std::size_t writes) REMORA_WRITER;
  /// Counts a pending write of this key, which will take a slot (sync_queue.h, S5).
  void AddPendingKey(std::uint64_t key_hash) REMORA_WRITER { ++growth_[core_.index.MainBucketOf(key_hash)]; }

  /// Checks and copies a write, and makes sure that there is room for it. When not OK, nothing of it is left.
  /// Aborted: no room.
  absl::Status Stage(Write& write, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// The same of a batch: all of it, or nothing.
  absl::Status StageBatch(std::span<Write> batch, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Takes back what is left of a staged write that will not be published.
  void Rollback(const StagedWrite& staged) REMORA_WRITER;

  std::vector<StagedWrite>& staged() REMORA_WRITER { return staged_; }
  bool is_one() const REMORA_WRITER { return is_one_; }
  /// Whether a write of the group is to be synced.
  bool has_synced() const REMORA_WRITER { return has_synced_; }
  /// Whether the write that was decided last was so by one that is pending (S6).
  bool decided_on_pending() const REMORA_WRITER { return decided_on_pending_; }
  /// Returns the durability that a write asks for.
  Durability LevelOf(const Write& write) const { return write.durability.value_or(durability_); }

 private:
  // What Decide changed for the writes that were staged of a batch.
  struct Change {
    std::uint32_t* last = nullptr;  // of the key in keys_, and what that was
    std::uint32_t before = GroupKeys::kNone;
    std::uint64_t bucket = 0;
    std::int64_t growth = 0;
  };

  /// Takes back what was staged of a batch; nothing shows that it ever was.
  void UnstageTo(std::size_t count) REMORA_WRITER;
  absl::Status CopyAndVerify(StagedWrite& staged, TimePoint now) REMORA_WRITER;
  /// Decides existence as of all writes staged before, and reserves room in the index.
  absl::Status Decide(StagedWrite& staged, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  /// Looks up what the key's record is before this group.
  absl::Status LookUp(const StagedWrite& staged, KnownRecord* known) const REMORA_WRITER;
  /// Keeps a record that is to be published later where it is.
  void Pin(StagedWrite& staged) REMORA_WRITER;
  void SyncAllOrNone(std::span<StagedWrite> batch) REMORA_WRITER;

  StoreCore& core_;
  Maintenance& maintenance_;
  const LargeRecords& large_;
  const std::chrono::milliseconds default_ttl_;
  const Durability durability_;
  ReadModifyWrite modify_;

  // The group. Its containers are kept for their memory.
  std::vector<StagedWrite> staged_ REMORA_WRITERS;
  bool is_one_ REMORA_WRITERS = false;                                      // write: none comes after it
  GroupKeys keys_ REMORA_WRITERS;                                           // by numbers in staged_
  absl::flat_hash_map<std::uint64_t, std::int64_t> growth_ REMORA_WRITERS;  // by main bucket: entries more
  bool has_synced_ REMORA_WRITERS = false;
  bool decided_on_pending_ REMORA_WRITERS = false;
  bool in_batch_ REMORA_WRITERS = false;
  std::vector<Change> batch_changes_ REMORA_WRITERS;
};

}  // namespace remora
