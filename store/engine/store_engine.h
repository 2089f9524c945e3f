// A store, assembled: its parts, and the operations that need several of them.
//
//   core.h                          the state that all parts share, and its lock
//   write/write_pipeline.h          commits; write/sync_queue.h: writes of level synced
//   write/large_records.h           values of several segments
//   read/point_read.h               point reads; read/promote.h: records that come back to memory
//   reclaim/maintenance.h           work between commits; reclaim/space_manager.h: free memory
//   recovery/index_loader.h         the load at the start
//   engine/replication.h            groups for followers, or of a primary
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/durable/group_sink.h"
#include "store/engine/core.h"
#include "store/engine/replication.h"
#include "store/options.h"
#include "store/read/ordered_scan.h"
#include "store/read/point_read.h"
#include "store/read/promote.h"
#include "store/reclaim/maintenance.h"
#include "store/reclaim/space_manager.h"
#include "store/recovery/index_loader.h"
#include "store/write/large_records.h"
#include "store/write/sync_queue.h"
#include "store/write/write.h"
#include "store/write/write_pipeline.h"

namespace remora {

/// Owns the parts of a store.
///
/// The class has more than 25 methods, because operations that need several parts are here.
///
/// Thread safety: any thread may call all members, but TakeCompletions only once. Each part documents its own
/// thread safety.
class StoreEngine {
 public:
  /// Opens a store in `region`, or in memory of its own if that is nullopt. Outcomes as for Store::Open.
  static absl::StatusOr<std::unique_ptr<StoreEngine>> Open(const StoreOptions& options,
                                                           std::optional<std::span<std::byte>> region);
  ~StoreEngine();
  StoreEngine(const StoreEngine&) = delete;
  StoreEngine& operator=(const StoreEngine&) = delete;

  StoreCore& core() { return core_; }
  PointReader& reader() { return reader_; }
  WritePipeline& pipeline() { return pipeline_; }
  LargeRecords& large() { return large_; }
  IndexLoader& loader() { return loader_; }
  Replication& replication() { return replication_; }
  SpaceManager& space() { return space_; }
  Maintenance& maintenance() { return maintenance_; }
  SyncQueue& queue() { return queue_; }

  /// Implement Store::RunMaintenance, ServerStore::PayMaintenanceDebt and Store::next_maintenance.
  bool RunMaintenance();
  void PayMaintenanceDebt();
  std::optional<TimePoint> NextMaintenance() const;
  /// Calls RunMaintenance if a record has expired. A watch that waits for such a deletion calls this, because
  /// no other thread may be working. Returns false if there was nothing to do.
  bool RemoveExpired();
  /// Returns false only if no record has expired.
  bool MayHaveExpired() const REMORA_WRITER;
  /// Notes that a watch has begun: from now on, the store removes expired records soon. REQUIRES: the store
  /// keeps its changes.
  void BeginToBeWatched();

  /// Returns a cursor that shows the writes which are published at this moment. Outcomes as for
  /// WritePipeline::PublishAll. Aborted: `may_wait` is false, and much of the commit log is to be applied
  /// first; or RocksDB has groups that the followers lack; ask again. REQUIRES: has_tier().
  absl::StatusOr<std::unique_ptr<DurableTier::Cursor>> NewCursor(const ScanRange& range, bool may_wait);
  /// Returns whether the ordered index has all keys. Once it has, it always has.
  bool has_order() const { return core_.ordered != nullptr && !core_.is_loading(); }
  /// Returns a scan over the ordered index that shows the writes up to one version, as NewCursor does.
  /// Outcomes as for WritePipeline::PublishInOrder. REQUIRES: has_order().
  absl::StatusOr<std::unique_ptr<OrderedScan>> NewOrderedScan(const ScanRange& range, bool keys_only);
  /// Returns OK, or the error of a sync: then nobody knows what the disk has.
  absl::Status CheckSync() const;
  /// Returns a number greater than the versions of all writes so far.
  std::uint64_t VersionsEnd() const;
  /// Call SyncQueue::TakeOutcomes and CheckEnded under the lock.
  void TakeSynced(std::vector<SyncedWrite>* outcomes);
  absl::Status CheckEnded(std::uint64_t ticket) const;
  /// Implements Store::disk_status.
  absl::Status disk_status() const;
  /// Implements ServerStore::SegmentMap.
  std::vector<MappedSegment> SegmentMap() const;
  /// Returns whether the store has no thread that syncs (Syncing::kInSteps). Then a watch starts no thread
  /// either.
  bool syncs_in_steps() const { return syncs_in_steps_; }

  /// Implements ServerStore::Promote.
  absl::Status Promote(GroupSink* sink, std::uint64_t versions_from);

  /// Implement ServerStore::RegisterClient and TakeCompletions.
  absl::Status RegisterClient(std::uint64_t client, std::span<const std::uint64_t> forgotten);
  std::vector<ClientCompletions> TakeCompletions() { return std::move(completions_); }

 private:
  StoreEngine(const StoreOptions& options, const Clock& clock, std::unique_ptr<AnonymousMemory> own_memory,
              std::span<std::byte> region, std::unique_ptr<DurableTier> tier,
              std::unique_ptr<ChangeRing> changes);
  absl::Status Start(const StoreOptions& options);

  StoreCore core_;
  SpaceManager space_;
  Maintenance maintenance_;
  LargeRecords large_;
  Promoter promoter_;
  PointReader reader_;
  SyncQueue queue_;
  WritePipeline pipeline_;
  Replication replication_;
  IndexLoader loader_;
  std::vector<ClientCompletions> completions_;  // from Start or Promote to TakeCompletions
  bool syncs_in_steps_ = false;                 // from Start on
};

}  // namespace remora
