// Commands about the gate and its server.
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cluster/cluster_client.h"
#include "client/cluster/cluster_shard.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "tools/kvgate/command_table.h"
#include "tools/kvgate/commands/groups.h"
#include "tools/kvgate/commands/help.h"
#include "tools/kvgate/commands/redis_version.h"
#include "tools/kvgate/commands/store_calls.h"
#include "tools/kvgate/resp/number_text.h"

namespace remora::kvgate {
namespace {

void Time(Call& call) {
  const std::int64_t now_ms = call.services.clock.UnixMillis();
  call.reply.Array(2);
  call.reply.Bulk(absl::StrCat(now_ms / 1000));
  call.reply.Bulk(absl::StrCat(now_ms % 1000 * 1000));
}

// --- COMMAND --------------------------------------------------------------------------------------------

std::vector<std::string_view> FlagsOf(const Command& command) {
  std::vector<std::string_view> names;
  constexpr std::pair<unsigned, std::string_view> kNames[] = {
      {kFlagWrite, "write"},     {kFlagReadonly, "readonly"}, {kFlagDenyOom, "denyoom"},
      {kFlagLoading, "loading"}, {kFlagStale, "stale"},       {kFlagFast, "fast"},
      {kFlagPubsub, "pubsub"},   {kFlagNoScript, "noscript"}, {kFlagNoMulti, "no_multi"},
      {kFlagNoAuth, "no_auth"}};
  for (const auto& [flag, name] : kNames) {
    if ((command.flags & flag) != 0) names.push_back(name);
  }
  return names;
}

void DescribeCommand(Reply& reply, const Command& command) {
  reply.Array(10);
  reply.Bulk(command.name);
  reply.Integer(command.arity);
  const std::vector<std::string_view> flags = FlagsOf(command);
  reply.Set(flags.size());
  for (const std::string_view flag : flags) reply.Simple(flag);
  reply.Integer(command.first_key);
  reply.Integer(command.last_key);
  reply.Integer(command.key_step);
  reply.Set(0);    // ACL categories
  reply.Array(0);  // tips
  reply.Array(0);  // key specifications
  reply.Array(0);  // subcommands
}

void DocumentCommand(Reply& reply, const Command& command) {
  reply.Bulk(command.name);
  reply.Map(2);
  reply.Bulk("summary");
  reply.Bulk(command.summary);
  reply.Bulk("group");
  reply.Bulk(command.group);
}

void CommandDocs(Call& call) {
  std::set<const Command*> wanted;
  for (std::size_t i = 2; i < call.request.size(); ++i) {
    if (const Command* const command = FindCommand(call.argument(i))) wanted.insert(command);
  }
  const bool all = call.request.size() == 2;
  call.reply.Map(all ? Commands().size() : wanted.size());
  for (const Command& command : Commands()) {
    if (all || wanted.contains(&command)) DocumentCommand(call.reply, command);
  }
}

void CommandInfo(Call& call) {
  if (call.request.size() <= 2) {
    call.reply.Array(Commands().size());
    for (const Command& command : Commands()) DescribeCommand(call.reply, command);
    return;
  }
  call.reply.Array(call.request.size() - 2);
  for (std::size_t i = 2; i < call.request.size(); ++i) {
    const Command* const command = FindCommand(call.argument(i));
    if (command != nullptr) {
      DescribeCommand(call.reply, *command);
    } else {
      call.reply.NullArray();
    }
  }
}

void ShowCommands(Call& call) {
  if (RepliedHelp(call)) return;
  if (call.request.size() == 1 || IsWord(call.argument(1), "INFO")) return CommandInfo(call);
  if (IsWord(call.argument(1), "DOCS")) return CommandDocs(call);
  if (!IsWord(call.argument(1), "COUNT")) {
    return call.reply.Error(UnknownSubcommand(call.argument(1), "command"));
  }
  if (call.request.size() != 2) return call.reply.Error(WrongArity("command|count"));
  call.reply.Integer(static_cast<std::int64_t>(Commands().size()));
}

// --- INFO -----------------------------------------------------------------------------------------------

// Makes one number of the incarnations of several servers; that of one server stays as it is.
constexpr std::uint64_t kMultiplier = 0x9e3779b97f4a7c15;

/// Facts that INFO asks the servers for.
struct ServerFacts {
  std::uint64_t incarnation = 0;  // of all servers: another one once one of them was started anew
  std::uint64_t keys = 0;
  std::uint64_t used_bytes = 0;  // of their memory
  std::uint64_t replicas = 0;    // of each server, at least, that have each acknowledged write
  std::uint64_t connected_replicas = 0;
};

/// Takes what a server's metrics tell.
absl::Status AskMetrics(Client& client, ServerFacts* facts) {
  REMORA_ASSIGN_OR_RETURN(const auto metrics, client.Stats());
  const auto value_of = [&metrics](std::string_view name) -> std::uint64_t {
    const auto found = std::ranges::find(metrics, name, [](const auto& metric) { return metric.first; });
    return found == metrics.end() ? 0 : found->second;
  };
  const std::uint64_t memory = value_of("memory_bytes");
  facts->used_bytes += memory - std::min(memory, value_of("memory_bytes_free"));
  // A primary with a fixed set of followers acknowledges what all of them have, and one that leads a shard
  // what the members in sync have, itself among them.
  const std::uint64_t connected = value_of("followers");
  const std::uint64_t in_sync = value_of("cluster_members_in_sync");
  const std::uint64_t replicas = in_sync > 0 ? in_sync - 1 : connected + value_of("followers_away");
  facts->connected_replicas += connected;
  facts->replicas = std::min(facts->replicas, replicas);
  return absl::OkStatus();
}

absl::StatusOr<ServerFacts> AskServer(ClusterClient& client, bool has_keys, bool has_metrics) {
  ServerFacts facts;
  if (has_metrics) facts.replicas = UINT64_MAX;
  for (std::size_t i = 0; i < client.size(); ++i) {
    const ShardPlace& place = client.topology().shards()[i];
    REMORA_ASSIGN_OR_RETURN(Client* const server, client.shard(i));
    if (const absl::Status pinged = server->Ping(); !pinged.ok()) return NameShard(place, pinged);
    facts.incarnation = facts.incarnation * kMultiplier + server->incarnation();
    if (!has_metrics) continue;
    if (const absl::Status told = AskMetrics(*server, &facts); !told.ok()) return NameShard(place, told);
  }
  if (has_keys) {
    REMORA_ASSIGN_OR_RETURN(facts.keys, client.Count());
  }
  return facts;
}

/// Waits for nothing: each write before it has been acknowledged, and so is at all these replicas.
Task<void> Wait(Call& call) {
  const std::optional<std::int64_t> wanted = ParseInteger(call.argument(1));
  if (!wanted) co_return call.reply.Error(kNotAnInteger);
  const std::optional<std::int64_t> timeout = ParseInteger(call.argument(2));
  if (!timeout) co_return call.reply.Error("ERR timeout is not an integer or out of range");
  if (*timeout < 0) co_return call.reply.Error("ERR timeout is negative");
  const auto facts = co_await call.services.blocking.Run<ServerFacts>(
      [](ClusterClient& client) { return AskServer(client, /*has_keys=*/false, /*has_metrics=*/true); });
  if (!facts.ok()) co_return FailCall(call, facts.status());
  call.reply.Integer(static_cast<std::int64_t>(facts->replicas));
}

/// `facts`: none if a server is away. The run is that of the gate, which knows the cursors of SCAN, and of
/// its servers, which have the data.
void AddServerSection(const GateState& gate, std::int64_t now_ms, const absl::StatusOr<ServerFacts>& facts,
                      std::string* text) {
  const std::int64_t uptime = (now_ms - gate.started_ms) / 1000;
  absl::StrAppend(text, "# Server\r\nredis_version:", AbslView(kRedisVersion),
                  "\r\nredis_mode:", AbslView(gate.options.mode()),
                  "\r\nremora_version:", gate.options.version, "\r\nremora_server:", gate.options.server,
                  "\r\nremora_shards:", gate.options.topology->shards().size(), "\r\nprocess_id:", ::getpid(),
                  "\r\nio_threads:", gate.options.threads, "\r\nuptime_in_seconds:", uptime,
                  "\r\nuptime_in_days:", uptime / 86'400, "\r\n");
  if (!facts.ok()) return;
  absl::StrAppend(text, "run_id:", absl::Hex(gate.run, absl::kZeroPad16),
                  absl::Hex(facts->incarnation, absl::kZeroPad16), absl::Hex(gate.run >> 32, absl::kZeroPad8),
                  "\r\n");
}

void AddClientsSection(const GateState& gate, std::string* text) {
  // The gate has no command that blocks its client.
  absl::StrAppend(text, "# Clients\r\nconnected_clients:", gate.clients.size(),
                  "\r\nmaxclients:", gate.max_clients.load(), "\r\nblocked_clients:0",
                  "\r\ntracking_clients:", gate.tracking.counts().clients, "\r\n");
}

void AddStatsSection(const GateState& gate, std::string* text) {
  const TrackingTable::Counts tracked = gate.tracking.counts();
  absl::StrAppend(text, "# Stats\r\ntotal_connections_received:", gate.connections.load(),
                  "\r\ntotal_commands_processed:", gate.commands.load(),
                  "\r\nrejected_connections:", gate.rejected.load(),
                  "\r\npubsub_channels:", gate.hub.CountNames(NameKind::kChannel),
                  "\r\npubsub_patterns:", gate.hub.CountNames(NameKind::kPattern),
                  "\r\npubsubshard_channels:", gate.hub.CountNames(NameKind::kShardChannel),
                  "\r\ntracking_total_keys:", tracked.keys, "\r\ntracking_total_items:", tracked.items,
                  "\r\ntracking_total_prefixes:", tracked.prefixes, "\r\n");
}

void AppendSeconds(std::string_view name, const timeval& time, std::string* text) {
  absl::StrAppendFormat(text, "%s:%d.%06d\r\n", name, time.tv_sec, time.tv_usec);
}

/// Adds the time that the gate has taken, without its servers.
void AddCpuSection(std::string* text) {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  absl::StrAppend(text, "# CPU\r\n");
  AppendSeconds("used_cpu_sys", used.ru_stime, text);
  AppendSeconds("used_cpu_user", used.ru_utime, text);
}

void AddKeyspaceSection(std::uint64_t keys, std::string* text) {
  absl::StrAppend(text, "# Keyspace\r\n");
  if (keys > 0) absl::StrAppend(text, "db0:keys=", keys, "\r\n");
}

Task<void> Info(Call& call) {
  std::set<std::string> wanted;
  for (std::size_t i = 1; i < call.request.size(); ++i) {
    wanted.insert(absl::AsciiStrToLower(AbslView(call.argument(i))));
  }
  const bool all =
      wanted.empty() || wanted.contains("all") || wanted.contains("default") || wanted.contains("everything");
  std::vector<std::string> sections;
  const GateState& gate = call.services.gate;
  const auto add = [&](const char* name) -> std::string* {
    if (!all && !wanted.contains(name)) return nullptr;
    return &sections.emplace_back();
  };
  absl::StatusOr<ServerFacts> facts = ServerFacts();
  const bool has_keys = all || wanted.contains("keyspace");
  const bool has_memory = all || wanted.contains("memory");
  const bool has_metrics = has_memory || wanted.contains("replication");
  if (has_keys || has_metrics || wanted.contains("server")) {
    facts = co_await call.services.blocking.Run<ServerFacts>(
        [=](ClusterClient& client) { return AskServer(client, has_keys, has_metrics); });
  }
  if ((has_keys || has_metrics) && !facts.ok()) co_return FailCall(call, facts.status());
  if (std::string* const text = add("server")) {
    AddServerSection(gate, call.services.clock.UnixMillis(), facts, text);
  }
  if (std::string* const text = add("clients")) AddClientsSection(gate, text);
  if (has_memory) {
    absl::StrAppend(&sections.emplace_back(), "# Memory\r\nused_memory:", facts->used_bytes, "\r\n");
  }
  if (std::string* const text = add("stats")) AddStatsSection(gate, text);
  if (std::string* const text = add("replication")) {
    absl::StrAppend(text, "# Replication\r\nrole:master\r\nconnected_slaves:", facts->connected_replicas,
                    "\r\n");
  }
  if (std::string* const text = add("cpu")) AddCpuSection(text);
  if (std::string* const text = add("cluster")) {
    absl::StrAppend(text, "# Cluster\r\ncluster_enabled:", gate.options.cluster ? 1 : 0, "\r\n");
  }
  if (has_keys) AddKeyspaceSection(gate.options.PartOf(facts->keys), &sections.emplace_back());
  std::string text;
  for (const std::string& section : sections) absl::StrAppend(&text, text.empty() ? "" : "\r\n", section);
  call.reply.Verbatim(text);
}

constexpr Command kServerCommands[] = {
    {"command", -1, Order::kLocal, kAlwaysFlags, 0, 0, 0, "server", "Describes commands", ShowCommands,
     nullptr},
    {"info", -1, Order::kExclusive, kAlwaysFlags, 0, 0, 0, "server", "Describes the gate and its server",
     nullptr, Info},
    {"wait", 3, Order::kExclusive, kAlwaysFlags, 0, 0, 0, "generic",
     "Returns the number of replicas that have each acknowledged write", nullptr, Wait},
    {"time", 1, Order::kLocal, kAlwaysFlags | kFlagFast, 0, 0, 0, "server", "Returns the time of the gate",
     Time, nullptr},
};

}  // namespace

std::span<const Command> ServerCommands() { return kServerCommands; }

}  // namespace remora::kvgate
