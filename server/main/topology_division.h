// The division of the slots in the topology file of --shards (server/cluster/slot_division.h).
//
// A server that changes the file holds PATH.swap, a lock file beside it, from its first look at the text
// until the new one is in place by a rename. So the text that it compares is the one that it replaces. The
// file says in a comment how often it has changed (Topology::revision).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cluster/topology.h"
#include "rdma/unique_fd.h"
#include "server/cluster/slot_division.h"
#include "server/main/flags.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/shard_identity.h"

namespace remora {

/// The division of a topology file, for the server of one of its shards.
///
/// Thread safety: as for SlotDivision.
class TopologyDivision final : public SlotDivision {
 public:
  /// Reads the file. Errors are those of Topology::Read, and FailedPrecondition: the file does not have the
  /// shard.
  static absl::StatusOr<std::unique_ptr<TopologyDivision>> Open(const std::string& path,
                                                                const ShardIdentity& self);

  const ShardIdentity& self() const override { return self_; }
  absl::StatusOr<ShardIdentity> Find(std::string_view shard) override;
  absl::StatusOr<ClusterSlots> Own() override;
  absl::Status Prepare(const ClusterSlots& slots, const ShardIdentity& to) override;
  absl::Status Swap() override;
  void GiveUp() override;
  std::string CopyPrefix(const ShardIdentity& to) const override;

 private:
  TopologyDivision(std::string path, const ShardIdentity& self, Topology first)
      : path_(std::move(path)), self_(self), first_(std::move(first)) {}
  /// Reads the file, which has the shards that it had at first. FailedPrecondition: it has others.
  absl::StatusOr<Topology> Read() const;

  const std::string path_;
  const ShardIdentity self_;
  const Topology first_;
  rdma::UniqueFd lock_;  // from Prepare to Swap or GiveUp
};

/// Sets the division of a server of --shards; does nothing for others. Errors are those of Open.
absl::Status ReadDivision(Flags* flags);

/// Takes the lock of a file's changes. Aborted: another process has it. Others: the lock file cannot be made.
absl::StatusOr<rdma::UniqueFd> LockSwaps(const std::string& path);

}  // namespace remora
