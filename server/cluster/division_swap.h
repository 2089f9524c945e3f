// The swap by which a primary gives slots of its shard to another one, where etcd has the division
// (docs/decisions/0102-slots-of-replicated-shards.md; the model is tests/models/shard_moves.pml).
//
//   K20  The swap compares three things: the division, and the configurations of both shards. That of the own
//        shard is the one in which this primary leads. So a takeover on either side ends the move, unless the
//        swap was done before it.
//   K21  The configuration of the destination has the epoch in which it has confirmed the copy. So all of its
//        members in sync have the copy, the minimum at least.
//   K22  After a swap whose outcome is unknown, the source swaps once more from the same revision, without a
//        change. Then the first one cannot be done any more, and the text tells whether it was. Until then,
//        nobody serves the slots.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/cluster/config_store.h"
#include "server/cluster/division.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/shard_identity.h"

namespace remora {

/// Slots of a shard that are to be another one's.
struct WantedSwap {
  std::uint64_t move = 0;  // its number; not 0
  ClusterSlots slots{};
  ShardIdentity to{};
  std::uint64_t to_epoch = 0;  // in which the destination has confirmed
};

/// Does one swap, in steps that can be repeated. Each call blocks as ConfigStore does.
///
/// Thread safety: none.
class DivisionSwap {
 public:
  DivisionSwap(std::shared_ptr<const DivisionFormat> format, const ShardIdentity& self, WantedSwap wanted)
      : format_(std::move(format)), self_(self), wanted_(std::move(wanted)) {}

  /// Goes on. `own`: the configuration of this shard, in which this process leads.
  ///
  /// - OK: the slots are the destination's.
  /// - FailedPrecondition: they are this shard's, and that does not change by this swap any more.
  /// - Unavailable: that is not known yet; call it again.
  absl::Status Step(ConfigStore& store, const ConfigStore::Revision& own);
  /// Returns whether a swap was sent whose outcome is unknown. If not, nothing comes of this one without
  /// Step.
  bool was_sent() const { return sent_.has_value(); }
  const WantedSwap& wanted() const { return wanted_; }

 private:
  /// The division from which a swap was sent that may be done at any time.
  struct Sent {
    std::string text;
    std::int64_t revision = 0;
  };
  absl::Status Try(ConfigStore& store, const ConfigStore::Revision& own);
  absl::Status Settle(ConfigStore& store);

  const std::shared_ptr<const DivisionFormat> format_;
  const ShardIdentity self_;
  const WantedSwap wanted_;
  std::optional<Sent> sent_;
};

}  // namespace remora
