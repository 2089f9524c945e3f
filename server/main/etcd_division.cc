#include "server/main/etcd_division.h"

#include "absl/strings/str_cat.h"
#include "client/cluster/topology.h"
#include "store/base/absl_view.h"

namespace remora {
namespace {

absl::StatusOr<Topology> ParseDivision(std::string_view text) {
  absl::StatusOr<Topology> topology = Topology::Parse(text, "topology");
  if (topology.ok()) return topology;
  return absl::FailedPreconditionError(topology.status().message());
}

}  // namespace

absl::StatusOr<DivisionView> TopologyFormat::Read(std::string_view text, const ShardIdentity& self) const {
  const absl::StatusOr<Topology> topology = ParseDivision(text);
  if (!topology.ok()) return topology.status();
  if (topology->cluster() != self.cluster) {
    return absl::FailedPreconditionError(
        absl::StrCat("it is that of cluster ", ClusterText(topology->cluster()), "; compare --shard"));
  }
  DivisionView view;
  bool has_self = false;
  for (const ShardPlace& shard : topology->shards()) {
    view.shards.push_back(shard.name);
    view.addresses.push_back(shard.addresses);
    if (shard.name != self.name()) continue;
    has_self = true;
    for (const SlotRange range : shard.slots) view.own.Add(range.first, range.last);
  }
  if (has_self) return view;
  return absl::FailedPreconditionError(absl::StrCat("it has no shard ", AbslView(self.name()),
                                                    "; start the server with --shard of one of its shards"));
}

absl::StatusOr<std::string> TopologyFormat::WithAddresses(std::string_view text,
                                                          std::span<const std::string> addresses) const {
  const absl::StatusOr<Topology> topology = ParseDivision(text);
  if (!topology.ok()) return topology.status();
  const absl::StatusOr<Topology> changed = topology->WithAddresses(addresses);
  if (!changed.ok()) return absl::FailedPreconditionError(changed.status().message());
  return changed->ToText();
}

absl::StatusOr<std::string> TopologyFormat::WithMoved(std::string_view text, const ClusterSlots& slots,
                                                      const ShardIdentity& from, std::string_view to) const {
  const absl::StatusOr<Topology> topology = ParseDivision(text);
  if (!topology.ok()) return topology.status();
  const absl::StatusOr<Topology> moved = topology->WithMoved(slots, from.name(), to);
  if (!moved.ok()) return absl::FailedPreconditionError(moved.status().message());
  return moved->ToText();
}

}  // namespace remora
