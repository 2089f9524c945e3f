// cluster move, cluster rebalance: slots go from server to server.
#include <sysexits.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/client.h"
#include "client/cluster/cluster_shard.h"
#include "client/cluster/topology.h"
#include "client/cluster/topology_source.h"
#include "rdma/address_list.h"
#include "store/base/status_macros.h"
#include "store/format/cluster/cluster_slots.h"
#include "tools/kvctl/kvctl.h"
#include "tools/kvctl/moves/slot_mover.h"
#include "tools/kvctl/progress.h"

namespace remora::kvctl {
namespace {

// Bounds of what goes at once, so that the slots pause for a moment only.
constexpr std::uint64_t kKeysAtOnce = 10'000;
constexpr std::uint64_t kBytesAtOnce = std::uint64_t{8} << 20;

/// Clients of the shards' servers, which are connected when they are wanted.
class ShardClients {
 public:
  ShardClients(const Arguments& arguments, const Clock& clock)
      : arguments_(arguments), clock_(clock), clients_(arguments.topology->shards().size()) {}

  /// Returns the topology as the servers know it. One that was asked first may know an older one.
  Topology Latest() {
    const Topology& topology = *arguments_.topology;
    if (!IsOfServers(topology.path())) return topology;
    std::vector<Client*> reached;
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      if (const absl::StatusOr<Client*> client = Get(i); client.ok()) reached.push_back(*client);
    }
    return LatestOf(topology, reached);
  }

  absl::StatusOr<Client*> Get(std::size_t shard) {
    if (clients_[shard] == nullptr) {
      auto client = Connect(OfShard(arguments_, shard), clock_);
      if (!client.ok()) return NameShard(arguments_.topology->shards()[shard], client.status());
      clients_[shard] = *std::move(client);
    }
    return clients_[shard].get();
  }

 private:
  const Arguments& arguments_;
  const Clock& clock_;
  std::vector<std::unique_ptr<Client>> clients_;
};

std::uint32_t SlotCountOf(const ShardPlace& shard) {
  std::uint32_t count = 0;
  for (const SlotRange range : shard.slots) count += range.last - range.first + 1;
  return count;
}

/// Returns how many slots of a shard go at once, from what it has on average.
absl::StatusOr<std::uint32_t> SlotsAtOnce(const ShardPlace& shard, Client& client) {
  REMORA_ASSIGN_OR_RETURN(const std::uint64_t keys, client.Count());
  REMORA_ASSIGN_OR_RETURN(const auto stats, client.Stats());
  std::uint64_t all = 0, free = 0;
  for (const auto& [name, value] : stats) {
    if (name == "memory_bytes") all = value;
    if (name == "memory_bytes_free") free = value;
  }
  const std::uint64_t bytes = all - std::min(all, free);
  const std::uint64_t slots = SlotCountOf(shard);
  const std::uint64_t by_keys = kKeysAtOnce * slots / std::max<std::uint64_t>(keys, 1);
  const std::uint64_t by_bytes = kBytesAtOnce * slots / std::max<std::uint64_t>(bytes, 1);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(std::min(by_keys, by_bytes), 1, kSlots));
}

std::string ShownRanges(const ClusterSlots& slots) {
  constexpr std::size_t kLongest = 60;
  const std::string text = SlotsText(slots);
  return text.size() > kLongest ? absl::StrCat(text.substr(0, text.rfind(',', kLongest)), ",...") : text;
}

std::string LinesOf(const Topology& topology, const std::vector<PlannedMove>& moves) {
  std::string lines;
  for (const PlannedMove& move : moves) {
    absl::StrAppendFormat(&lines, "move %d slots (%s) from shard %s to shard %s\n", move.slots.count(),
                          ShownRanges(move.slots), topology.shards()[move.from].name,
                          topology.shards()[move.to].name);
  }
  return lines;
}

Outcome FailureOfMove(const absl::Status& status, std::uint64_t moved) {
  Outcome outcome = absl::IsAborted(status) || absl::IsCancelled(status)
                        ? Outcome{EX_TEMPFAIL, std::string(status.message())}
                        : FromAnswer(status);
  if (moved > 0) absl::StrAppend(&outcome.error, "; ", moved, " slots have moved before");
  return outcome;
}

Outcome Run(const Arguments& arguments, const Topology& topology, const std::vector<PlannedMove>& moves,
            ShardClients& clients, const Clock& clock) {
  const auto client_of = [&](std::size_t shard) { return clients.Get(shard); };
  SlotMover mover(topology, client_of, clock);
  std::uint64_t total = 0, moved = 0;
  for (const PlannedMove& move : moves) total += move.slots.count();
  Progress progress("slots", total, clock);
  Duration longest{0};
  for (const PlannedMove& move : moves) {
    const absl::StatusOr<Client*> source = clients.Get(move.from);
    const absl::StatusOr<std::uint32_t> most =
        source.ok() ? SlotsAtOnce(topology.shards()[move.from], **source) : source.status();
    if (!most.ok()) return FailureOfMove(most.status(), moved);
    for (const ClusterSlots& part : DivideSlots(move.slots, *most)) {
      progress.Show(moved);
      const absl::Status status = mover.Move({part, move.from, move.to}, arguments.rate);
      if (!status.ok()) {
        progress.Hide();
        return FailureOfMove(status, moved);
      }
      moved += part.count();
      longest = std::max(longest, mover.pause());
    }
  }
  progress.Hide();
  const double ms = std::chrono::duration<double, std::milli>(longest).count();
  return WriteOutput(
      absl::StrFormat("%d slots have moved; each took no writes for %.1f ms at most\n", moved, ms),
      absl::StrFormat("%d slots have moved", moved));
}

/// Returns the shard that --to names; nothing: there is none.
std::optional<std::size_t> ShardNamed(const Topology& topology, const std::string& text) {
  const absl::StatusOr<rdma::Address> wanted = rdma::ParseAddress(text);
  for (std::size_t i = 0; i < topology.shards().size(); ++i) {
    const ShardPlace& shard = topology.shards()[i];
    if (shard.name == text) return i;
    const absl::StatusOr<std::vector<rdma::Address>> addresses = rdma::ParseAddresses(shard.addresses);
    if (!wanted.ok() || !addresses.ok()) continue;
    for (const rdma::Address& address : *addresses) {
      if (address.ToString() == wanted->ToString()) return i;
    }
  }
  return std::nullopt;
}

}  // namespace

Outcome ClusterMove(const Arguments& arguments, const Clock& clock) {
  ShardClients clients(arguments, clock);
  const Topology topology = clients.Latest();
  const std::optional<std::size_t> to = ShardNamed(topology, arguments.to_member);
  if (!to) {
    return {EX_USAGE, absl::StrCat("--to: ", arguments.topology_file, " has no shard '", arguments.to_member,
                                   "', by its name or address; see `kvctl cluster status`")};
  }
  const std::vector<PlannedMove> moves = PlanMove(topology, *SlotsIn(arguments.slots), *to);
  if (moves.empty()) return WriteOutput("the shard has these slots already\n");
  for (const PlannedMove& move : moves) {
    const ShardPlace& shard = topology.shards()[move.from];
    if (move.slots.count() < SlotCountOf(shard)) continue;
    return {EX_USAGE, absl::StrCat("--slots: shard ", shard.name, " would have no slot left; leave it one")};
  }
  return Run(arguments, topology, moves, clients, clock);
}

Outcome ClusterRebalance(const Arguments& arguments, const Clock& clock) {
  ShardClients clients(arguments, clock);
  const Topology topology = clients.Latest();
  const std::vector<PlannedMove> moves = PlanRebalance(topology);
  if (moves.empty()) return WriteOutput("the slots are in balance\n");
  std::string lines = LinesOf(topology, moves);
  if (!arguments.yes) lines += "nothing was moved; --yes does it\n";
  if (Outcome shown = WriteOutput(lines); Failed(shown) || !arguments.yes) return shown;
  return Run(arguments, topology, moves, clients, clock);
}

}  // namespace remora::kvctl
