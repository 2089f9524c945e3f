// The operations of a replicated store: it ships its groups to followers, or it follows a primary
// (store/durable/group_sink.h).
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/backup.h"
#include "store/durable/group_sink.h"
#include "store/durable/tier.h"
#include "store/engine/core.h"
#include "store/engine/writer_lock.h"
#include "store/format/types/scan_range.h"
#include "store/reclaim/maintenance.h"
#include "store/reclaim/space_manager.h"
#include "store/write/group_follower.h"
#include "store/write/sync_queue.h"
#include "store/write/write_pipeline.h"

namespace remora {

/// Changes the part that a store plays in replication, and does what it does in that part.
///
/// Thread safety: any thread may call all members; NewCursor needs the store's lock, and the others take it.
class Replication {
 public:
  /// All arguments outlive this.
  Replication(StoreCore& core, SpaceManager& space, Maintenance& maintenance, SyncQueue& queue,
              WritePipeline& pipeline)
      : core_(core),
        maintenance_(maintenance),
        queue_(queue),
        pipeline_(pipeline),
        follower_(core, space, maintenance, pipeline) {}
  Replication(const Replication&) = delete;
  Replication& operator=(const Replication&) = delete;

  /// Implement ServerStore::SetGroupSink, DropGroupSink, Acknowledge, last_group, ApplyGroup and SyncGroups.
  absl::Status SetSink(GroupSink* sink);
  void DropSink();
  absl::Status Acknowledge(std::uint64_t number);
  std::uint64_t last_group() const;
  absl::Status Apply(std::uint64_t number, std::string_view bytes) { return follower_.Apply(number, bytes); }
  absl::StatusOr<std::uint64_t> SyncGroups();
  /// Implements ServerStore::ReadGroups. Takes no lock.
  absl::StatusOr<std::unique_ptr<GroupHistory>> ReadGroups(std::uint64_t from) const;
  /// Implements ServerStore::BeginCopy. Takes the lock for a moment.
  absl::StatusOr<std::unique_ptr<StoreCopy>> BeginCopy() const;
  /// Implements ServerStore::Promote. Returns the completion records as of now.
  absl::StatusOr<std::vector<ClientCompletions>> Promote(GroupSink* sink, std::uint64_t versions_from);

  /// Returns a cursor that shows the writes which are visible at this moment. Aborted: RocksDB has groups
  /// that the followers lack; or a group is visible in part. Unavailable: the disk failed. REQUIRES:
  /// StoreCore::ships.
  absl::StatusOr<std::unique_ptr<DurableTier::Cursor>> NewCursor(const ScanRange& range) REMORA_WRITER;
  /// Implements Store::Backup. REQUIRES: has_tier().
  absl::StatusOr<BackupInfo> Backup(const std::string& dir, std::uint32_t keep, std::stop_token stop);

 private:
  /// Returns why the store cannot ship its groups now.
  absl::Status CheckSink(const GroupSink* sink) const REMORA_WRITER;
  /// Ships all groups from now on. REQUIRES: CheckSink was OK.
  absl::Status BeginShipping(GroupSink* sink) REMORA_WRITER;
  /// Publishes the writes that have become due.
  void PublishDue(WriterLock& lock) REMORA_WRITER;

  StoreCore& core_;
  Maintenance& maintenance_;
  SyncQueue& queue_;
  WritePipeline& pipeline_;
  GroupFollower follower_;
  int backups_ REMORA_WRITERS = 0;  // backups that are being made
};

}  // namespace remora
