// The text of a division in etcd (server/cluster/division.h): that of a topology.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/cluster/division.h"
#include "store/format/cluster/shard_identity.h"

namespace remora {

/// Reads it by the client's reader of topologies.
class TopologyFormat final : public DivisionFormat {
 public:
  absl::StatusOr<DivisionView> Read(std::string_view text, const ShardIdentity& self) const override;
  absl::StatusOr<std::string> WithAddresses(std::string_view text,
                                            std::span<const std::string> addresses) const override;
  absl::StatusOr<std::string> WithMoved(std::string_view text, const ClusterSlots& slots,
                                        const ShardIdentity& from, std::string_view to) const override;
};

}  // namespace remora
