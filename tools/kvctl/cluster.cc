// cluster: the file of a topology, and the state of its shards.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/client.h"
#include "client/cluster/topology.h"
#include "store/base/random_id.h"
#include "store/base/status_macros.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/slot.h"
#include "tools/kvctl/kvctl.h"

namespace remora::kvctl {
namespace {

// Keys of each shard that status looks at.
constexpr std::uint64_t kSampledKeys = 100;

// By name.
using MetricsByName = std::map<std::string, std::uint64_t, std::less<>>;

/// The slots that a server works for, beside those that the topology gives it.
enum class SlotsServed { kUnknown = 1, kAll, kSame, kOther };

const char* NameOf(SlotsServed slots) {
  switch (slots) {
    case SlotsServed::kAll:
      return "all";
    case SlotsServed::kSame:
      return "same";
    case SlotsServed::kOther:
      return "other";
    default:
      return "-";
  }
}

/// The state of a shard's server.
struct ShardState {
  std::uint64_t keys = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_bytes_free = 0;
  std::uint64_t sampled = 0;    // keys that were looked at
  std::uint64_t misplaced = 0;  // of those, keys of other shards
  std::string example;          // the first of these keys, and its shard
  SlotsServed slots = SlotsServed::kUnknown;
  std::string other_slots;   // of kOther: those of the server, for a text
  std::string failed_moves;  // lines of the last move, if it was given up
};

ClusterSlots SlotsOf(const ShardPlace& shard) {
  ClusterSlots slots;
  for (const SlotRange range : shard.slots) slots.Add(range.first, range.last);
  return slots;
}

/// Returns the slots as an error shows them: their ranges, if these are few.
std::string ShownSlots(const ClusterSlots& slots) {
  constexpr std::size_t kLongest = 60;
  const std::string text = SlotsText(slots);
  return text.size() > kLongest ? absl::StrFormat("%d slots", slots.count()) : "the slots " + text;
}

/// Compares the slots of a server, as its metrics tell of them, with those of the topology. A server of an
/// earlier release does not tell.
absl::Status CompareSlots(const ShardPlace& shard, Client& client, const MetricsByName& metrics,
                          ShardState* state) {
  const auto slots = metrics.find("slots"), checksum = metrics.find("slots_checksum");
  if (slots == metrics.end() || checksum == metrics.end()) return absl::OkStatus();
  const ClusterSlots expected = SlotsOf(shard);
  if (checksum->second == SlotsChecksum(expected) && slots->second == expected.count()) {
    state->slots = SlotsServed::kSame;
    return absl::OkStatus();
  }
  if (slots->second == kSlots) {
    state->slots = SlotsServed::kAll;
    return absl::OkStatus();
  }
  state->slots = SlotsServed::kOther;
  state->other_slots =
      absl::StrFormat("%d %sslots", slots->second, slots->second == expected.count() ? "other " : "");
  // Its settings say which ones, to a client that may write.
  const absl::StatusOr<std::string> setting = ReadSetting(client, "slots");
  if (!setting.ok()) {
    const bool tells_not =
        absl::IsPermissionDenied(setting.status()) || absl::IsFailedPrecondition(setting.status());
    return tells_not ? absl::OkStatus() : setting.status();
  }
  const std::optional<ClusterSlots> has = SlotsIn(*setting);
  if (has && SlotsChecksum(*has) == checksum->second) state->other_slots = ShownSlots(*has);
  return absl::OkStatus();
}

absl::StatusOr<ShardState> StateOf(std::size_t shard, const Topology& topology, const Arguments& arguments,
                                   const Clock& clock) {
  REMORA_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                          Connect(OfShard(arguments, shard), clock, /*reconnects=*/false));
  ShardState state;
  REMORA_ASSIGN_OR_RETURN(state.keys, client->Count());
  REMORA_ASSIGN_OR_RETURN(const auto stats, client->Stats());
  const MetricsByName metrics(stats.begin(), stats.end());
  for (const auto& [name, into] : {std::pair{"memory_bytes", &state.memory_bytes},
                                   std::pair{"memory_bytes_free", &state.memory_bytes_free}}) {
    if (const auto found = metrics.find(name); found != metrics.end()) *into = found->second;
  }
  REMORA_RETURN_IF_ERROR(CompareSlots(topology.shards()[shard], *client, metrics, &state));
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
  // Last: a server of an earlier release may end the connection, and others have no moves.
  if (absl::StatusOr<std::string> failed = client->Move("failures"); failed.ok()) {
    state.failed_moves = *std::move(failed);
  }
  return state;
}

/// The faults of shards whose servers answer: the first one, and how many there are.
class ShardFaults {
 public:
  void Add(std::string fault) {
    if (count_++ == 0) first_ = {kExitProblem, std::move(fault)};
  }
  Outcome outcome() const {
    Outcome outcome = first_;
    if (count_ > 1) absl::StrAppend(&outcome.error, "; and ", count_ - 1, " more");
    return outcome;
  }

 private:
  Outcome first_;
  std::size_t count_ = 0;
};

Outcome ShowStatus(const Arguments& arguments, const Clock& clock) {
  const std::optional<Topology>& topology = arguments.topology;
  constexpr std::uint64_t kShownBytes = std::uint64_t{1} << 20;
  std::string lines = absl::StrFormat("%-12s %6s %12s %9s %9s %6s  %s\n", "shard", "slots", "keys",
                                      "used_MiB", "of_MiB", "serves", "server");
  std::string failed_moves;
  ShardFaults other_slots;
  ShardFaults misplaced;
  ShardFailures failures;
  for (std::size_t i = 0; i < topology->shards().size(); ++i) {
    const ShardPlace& shard = topology->shards()[i];
    absl::StrAppendFormat(&lines, "%-12s %6d ", shard.name, SlotsOf(shard).count());
    const absl::StatusOr<ShardState> state = StateOf(i, *topology, arguments, clock);
    std::string server;
    AppendEscaped(shard.addresses, &server);
    if (!state.ok()) {
      failures.Add(shard, state.status());
      absl::StrAppendFormat(&lines, "%12s %9s %9s %6s  %s: %s\n", "-", "-", "-", "-", server,
                            std::string(state.status().message()));
      continue;
    }
    const std::uint64_t free = std::min(state->memory_bytes_free, state->memory_bytes);
    absl::StrAppendFormat(&lines, "%12d %9d %9d %6s  %s\n", state->keys,
                          (state->memory_bytes - free) / kShownBytes, state->memory_bytes / kShownBytes,
                          NameOf(state->slots), server);
    for (const absl::string_view line : absl::StrSplit(state->failed_moves, '\n', absl::SkipEmpty())) {
      absl::StrAppend(&failed_moves, "shard ", shard.name, " gave up a move of ", line, "\n");
    }
    if (state->slots == SlotsServed::kOther) {
      other_slots.Add(absl::StrFormat(
          "shard %s (%s): the server has %s, and %s gives it %s; start the server with the --slots of its "
          "line there, or correct the file",
          shard.name, server, state->other_slots, arguments.topology_file, ShownSlots(SlotsOf(shard))));
    }
    if (state->misplaced == 0) continue;
    misplaced.Add(absl::StrFormat(
        "shard %s (%s): %d of %d keys looked at belong to other shards, so its address "
        "may be another's; '%s; compare the addresses in %s",
        shard.name, server, state->misplaced, state->sampled, state->example, arguments.topology_file));
  }
  for (Outcome outcome : {WriteOutput(lines + failed_moves), failures.outcome(), other_slots.outcome()}) {
    if (Failed(outcome)) return outcome;
  }
  return misplaced.outcome();
}

}  // namespace

Outcome Cluster(const Arguments& arguments, const Clock& clock) {
  if (arguments.action == "members") return ClusterMembers(arguments, clock);
  if (arguments.action == "switch") return ClusterSwitch(arguments, clock);
  if (arguments.action == "remove") return ClusterRemove(arguments, clock);
  if (arguments.action == "add") return ClusterAdd(arguments, clock);
  if (arguments.action == "force") return ClusterForce(arguments, clock);
  if (arguments.action == "rebuild") return ClusterRebuild(arguments, clock);
  if (arguments.action == "move") return ClusterMove(arguments, clock);
  if (arguments.action == "rebalance") return ClusterRebalance(arguments, clock);
  if (arguments.action == "publish") return ClusterPublish(arguments);
  if (arguments.action == "topology") return WriteOutput(arguments.topology->ToText());
  if (arguments.action == "status") return ShowStatus(arguments, clock);
  const absl::StatusOr<Topology> topology = Topology::Even(arguments.servers, RandomId());
  if (!topology.ok()) return FromStatus(topology.status());
  std::string text = "# Start the server of each shard with --shard=CLUSTER/NAME, as in\n";
  absl::StrAppend(&text, "#   kvserver --shard=", IdentityText(topology->IdentityOfShard(0)), " ...\n");
  return WriteOutput(text + topology->ToText());
}

}  // namespace remora::kvctl
