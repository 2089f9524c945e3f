// cluster: the file of a topology, and the state of its shards.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/client.h"
#include "client/cluster/topology.h"
#include "store/base/random_id.h"
#include "store/base/status_macros.h"
#include "tools/kvctl/kvctl.h"

namespace remora::kvctl {
namespace {

// Keys of each shard that status looks at.
constexpr std::uint64_t kSampledKeys = 100;

/// The state of a shard's server.
struct ShardState {
  std::uint64_t keys = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_bytes_free = 0;
  std::uint64_t sampled = 0;    // keys that were looked at
  std::uint64_t misplaced = 0;  // of those, keys of other shards
  std::string example;          // the first of these keys, and its shard
};

absl::StatusOr<ShardState> StateOf(std::size_t shard, const Topology& topology, const Arguments& arguments,
                                   const Clock& clock) {
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                          Connect(OfShard(arguments, shard), clock, /*reconnects=*/false));
  ShardState state;
  REMORA_ASSIGN_OR_RETURN(state.keys, client->Count());
  REMORA_ASSIGN_OR_RETURN(const auto metrics, client->Stats());
  for (const auto& [name, value] : metrics) {
    if (name == "memory_bytes") state.memory_bytes = value;
    if (name == "memory_bytes_free") state.memory_bytes_free = value;
  }
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<ClientScan> scan,
                          client->Scan({.any_order = true, .limit = kSampledKeys, .keys_only = true}));
  while (scan->Next()) {
    ++state.sampled;
    const std::size_t owner = topology.ShardOf(scan->key());
    if (owner == shard || ++state.misplaced > 1) continue;
    AppendEscaped(scan->key(), &state.example);
    absl::StrAppend(&state.example, "' belongs to shard ", topology.shards()[owner].name);
  }
  REMORA_RETURN_IF_ERROR(scan->status());
  return state;
}

std::uint32_t SlotsOf(const ShardPlace& shard) {
  std::uint32_t slots = 0;
  for (const SlotRange range : shard.slots) slots += range.last - range.first + 1;
  return slots;
}

Outcome ShowStatus(const Arguments& arguments, const Clock& clock) {
  const std::optional<Topology>& topology = arguments.topology;
  constexpr std::uint64_t kShownBytes = std::uint64_t{1} << 20;
  std::string lines = absl::StrFormat("%-12s %6s %12s %9s %9s  %s\n", "shard", "slots", "keys", "used_MiB",
                                      "of_MiB", "server");
  Outcome misplaced;
  ShardFailures failures;
  for (std::size_t i = 0; i < topology->shards().size(); ++i) {
    const ShardPlace& shard = topology->shards()[i];
    absl::StrAppendFormat(&lines, "%-12s %6d ", shard.name, SlotsOf(shard));
    const absl::StatusOr<ShardState> state = StateOf(i, *topology, arguments, clock);
    std::string server;
    AppendEscaped(shard.addresses, &server);
    if (!state.ok()) {
      failures.Add(shard, state.status());
      absl::StrAppendFormat(&lines, "%12s %9s %9s  %s: %s\n", "-", "-", "-", server,
                            std::string(state.status().message()));
      continue;
    }
    const std::uint64_t free = std::min(state->memory_bytes_free, state->memory_bytes);
    absl::StrAppendFormat(&lines, "%12d %9d %9d  %s\n", state->keys,
                          (state->memory_bytes - free) / kShownBytes, state->memory_bytes / kShownBytes,
                          server);
    if (state->misplaced == 0 || Failed(misplaced)) continue;
    misplaced = {
        kExitProblem,
        absl::StrFormat("shard %s (%s): %d of %d keys looked at belong to other shards, so its address "
                        "may be another's; '%s; compare the addresses in %s",
                        shard.name, server, state->misplaced, state->sampled, state->example,
                        arguments.topology_file)};
  }
  for (Outcome outcome : {WriteOutput(lines), failures.outcome()}) {
    if (Failed(outcome)) return outcome;
  }
  return misplaced;
}

}  // namespace

Outcome Cluster(const Arguments& arguments, const Clock& clock) {
  if (arguments.action == "members") return ClusterMembers(arguments, clock);
  if (arguments.action == "switch") return ClusterSwitch(arguments, clock);
  if (arguments.action == "remove") return ClusterRemove(arguments, clock);
  if (arguments.action == "add") return ClusterAdd(arguments, clock);
  if (arguments.action == "force") return ClusterForce(arguments, clock);
  if (arguments.action == "status") return ShowStatus(arguments, clock);
  const absl::StatusOr<Topology> topology = Topology::Even(arguments.servers, RandomId());
  if (!topology.ok()) return FromStatus(topology.status());
  std::string text = "# Start the server of each shard with --shard=CLUSTER/NAME, as in\n";
  absl::StrAppend(&text, "#   kvserver --shard=", IdentityText(topology->IdentityOfShard(0)), " ...\n");
  return WriteOutput(text + topology->ToText());
}

}  // namespace remora::kvctl
