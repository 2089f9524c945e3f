// The text that says which server has which slots, as a server changes it
// (docs/decisions/0098-moves-of-slots-on-one-host.md).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/shard_identity.h"

namespace remora {

/// A division of slots among servers, and the part of one of them. It changes by compare-and-swap alone, and
/// each server gives away its own slots.
///
/// Thread safety: none; one thread at a time.
class SlotDivision {
 public:
  SlotDivision() = default;
  virtual ~SlotDivision() = default;
  SlotDivision(const SlotDivision&) = delete;
  SlotDivision& operator=(const SlotDivision&) = delete;

  /// Returns the identity of this server, and of another one of the cluster.
  virtual const ShardIdentity& self() const = 0;
  /// NotFound: the cluster has no such shard, or it is this one.
  virtual absl::StatusOr<ShardIdentity> Find(std::string_view shard) = 0;

  /// Returns the slots of this server, as the text says now. Errors: it cannot be read, or has a fault.
  virtual absl::StatusOr<ClusterSlots> Own() = 0;

  /// Prepares the swap: from now on until Swap or GiveUp, no other server changes the text.
  ///   Aborted: another one changes it right now; ask again.
  ///   FailedPrecondition: not all of the slots are this server's, or it would have none left, or the text
  ///   has other shards than it had when this server started. Others: it cannot be read or written.
  virtual absl::Status Prepare(const ClusterSlots& slots, const ShardIdentity& to) = 0;
  /// Gives the slots to the other server. OK: the text says so, and the disk has it. Otherwise, Own tells.
  /// REQUIRES: Prepare was OK. It ends the preparation.
  virtual absl::Status Swap() = 0;
  virtual void GiveUp() = 0;

  /// Returns the path of what the names of copies for a server begin with.
  virtual std::string CopyPrefix(const ShardIdentity& to) const = 0;
};

}  // namespace remora
