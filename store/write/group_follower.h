// The path of a group of a primary into a store that follows it (store/durable/group_sink.h, G6 to G8).
//
//   ReadShippedGroup  decode and check the bytes; nothing of a damaged group is applied
//   StageRecords      copy the last value of each key into the value log, and make space for it
//   ReserveSlots      make space in the index
//   FindColdKeys      ask the tier whose the cold entries are
//   Log               write the group, as it is, to the commit log; this is the last step that can fail
//   Publish           each key. Records of another store, which have its versions, are in RocksDB before
//
// If retired memory is to become free first, the group waits. Apply then returns Aborted, and keeps the
// records that it has staged. The caller calls it again with the same group. So each call comes further, and
// no group is dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "store/base/clock.h"
#include "store/durable/tier_log/shipped_group.h"
#include "store/engine/core.h"
#include "store/engine/writer_lock.h"
#include "store/reclaim/maintenance.h"
#include "store/reclaim/space_manager.h"
#include "store/write/write_pipeline.h"

namespace remora {

/// Applies the groups of a primary.
///
/// Thread safety: any thread may call Apply, which takes the store's lock. The caller of GiveUp holds it.
class GroupFollower {
 public:
  /// All arguments outlive this.
  GroupFollower(StoreCore& core, SpaceManager& space, Maintenance& maintenance, WritePipeline& pipeline)
      : core_(core), space_(space), maintenance_(maintenance), pipeline_(pipeline) {}
  GroupFollower(const GroupFollower&) = delete;
  GroupFollower& operator=(const GroupFollower&) = delete;

  /// Implements ServerStore::ApplyGroup.
  absl::Status Apply(std::uint64_t number, std::string_view bytes);
  /// Gives back the records of a group that was not applied.
  void GiveUp() REMORA_WRITER;

 private:
  /// The last write of a key in the group.
  struct Change {
    LogEntry entry;
    std::uint64_t key_hash = 0;
    std::size_t record = 0;      // kPut: the number of its record in staged_
    bool is_cold = false;        // the index has a cold entry of this key
    OrderedIndex::Record old{};  // if so: a copy for the views of scans (V5), or null
  };

  /// Returns why a group with this number may not be applied now.
  absl::Status CheckNext(std::uint64_t number) const REMORA_WRITER;
  /// Returns DataLoss if the versions do not follow those that were applied.
  absl::Status CheckVersions(const ShippedGroup& group) const REMORA_WRITER;
  absl::Status ApplyChecked(const ShippedGroup& group, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  void CollectChanges(const ShippedGroup& group) REMORA_WRITER;
  absl::Status StageRecords(TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  absl::Status ReserveSlots(TimePoint now, std::int64_t unix_ms) REMORA_WRITER;
  absl::Status FindColdKeys() REMORA_WRITER;
  absl::Status Log(const ShippedGroup& group) REMORA_WRITER;
  void Publish(const Change& change, TimePoint now) REMORA_WRITER;
  /// Tries to have memory free, and `run` bytes of it for a large record.
  /// Aborted: retired memory will be free.
  /// ResourceExhausted: there is none, and none will come of itself.
  absl::Status MakeSpace(std::size_t run, TimePoint now, std::int64_t unix_ms) REMORA_WRITER;

  StoreCore& core_;
  SpaceManager& space_;
  Maintenance& maintenance_;
  WritePipeline& pipeline_;

  // The group that is being applied.
  std::vector<Change> changes_ REMORA_WRITERS;
  std::vector<Place> staged_ REMORA_WRITERS;          // the records of its first puts; sealed and pinned
  std::uint64_t staged_checksum_ REMORA_WRITERS = 0;  // of the group to which these belong
  // Entries that it will add, by main bucket. Reused, to allocate no memory.
  absl::flat_hash_map<std::uint64_t, std::size_t> growth_ REMORA_WRITERS;

  bool knows_versions_ REMORA_WRITERS = false;  // a version was applied since the store was opened
};

}  // namespace remora
