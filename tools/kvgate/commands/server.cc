// Commands about the gate and its server.
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "tools/kvgate/command_table.h"
#include "tools/kvgate/commands/groups.h"
#include "tools/kvgate/commands/help.h"
#include "tools/kvgate/commands/redis_version.h"
#include "tools/kvgate/commands/store_calls.h"

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

/// Facts that INFO asks the server for.
struct ServerFacts {
  std::uint64_t incarnation = 0;
  std::uint64_t keys = 0;
  std::uint64_t used_bytes = 0;  // of its memory
};

absl::StatusOr<ServerFacts> AskServer(Client& client, bool has_keys, bool has_memory) {
  REMORA_RETURN_IF_ERROR(client.Ping());
  ServerFacts facts{.incarnation = client.incarnation()};
  if (has_keys) {
    REMORA_ASSIGN_OR_RETURN(facts.keys, client.Count());
  }
  if (!has_memory) return facts;
  REMORA_ASSIGN_OR_RETURN(const auto metrics, client.Stats());
  std::uint64_t free_bytes = 0;
  for (const auto& [name, value] : metrics) {
    if (name == "memory_bytes") facts.used_bytes = value;
    if (name == "memory_bytes_free") free_bytes = value;
  }
  facts.used_bytes -= std::min(facts.used_bytes, free_bytes);
  return facts;
}

/// `facts`: none if the server is away. The run is that of the gate, which knows the cursors of SCAN, and of
/// its server, which has the data.
void AddServerSection(const GateState& gate, std::int64_t now_ms, const absl::StatusOr<ServerFacts>& facts,
                      std::string* text) {
  const std::int64_t uptime = (now_ms - gate.started_ms) / 1000;
  absl::StrAppend(text, "# Server\r\nredis_version:", AbslView(kRedisVersion),
                  "\r\nredis_mode:standalone\r\n", "remora_version:", gate.options.version,
                  "\r\nremora_server:", gate.options.server, "\r\nprocess_id:", ::getpid(),
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
                  "\r\ntracking_total_keys:", tracked.keys, "\r\ntracking_total_items:", tracked.items,
                  "\r\ntracking_total_prefixes:", tracked.prefixes, "\r\n");
}

void AppendSeconds(std::string_view name, const timeval& time, std::string* text) {
  absl::StrAppendFormat(text, "%s:%d.%06d\r\n", name, time.tv_sec, time.tv_usec);
}

/// Adds the time that the gate has taken, without its server.
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
  if (has_keys || has_memory || wanted.contains("server")) {
    facts = co_await call.services.blocking.Run<ServerFacts>(
        [=](Client& client) { return AskServer(client, has_keys, has_memory); });
  }
  if ((has_keys || has_memory) && !facts.ok()) co_return FailCall(call, facts.status());
  if (std::string* const text = add("server")) {
    AddServerSection(gate, call.services.clock.UnixMillis(), facts, text);
  }
  if (std::string* const text = add("clients")) AddClientsSection(gate, text);
  if (has_memory) {
    absl::StrAppend(&sections.emplace_back(), "# Memory\r\nused_memory:", facts->used_bytes, "\r\n");
  }
  if (std::string* const text = add("stats")) AddStatsSection(gate, text);
  if (std::string* const text = add("cpu")) AddCpuSection(text);
  if (has_keys) AddKeyspaceSection(facts->keys, &sections.emplace_back());
  std::string text;
  for (const std::string& section : sections) absl::StrAppend(&text, text.empty() ? "" : "\r\n", section);
  call.reply.Verbatim(text);
}

constexpr Command kServerCommands[] = {
    {"command", -1, Order::kLocal, kAlwaysFlags, 0, 0, 0, "server", "Describes commands", ShowCommands,
     nullptr},
    {"info", -1, Order::kExclusive, kAlwaysFlags, 0, 0, 0, "server", "Describes the gate and its server",
     nullptr, Info},
    {"time", 1, Order::kLocal, kAlwaysFlags | kFlagFast, 0, 0, 0, "server", "Returns the time of the gate",
     Time, nullptr},
};

}  // namespace

std::span<const Command> ServerCommands() { return kServerCommands; }

}  // namespace remora::kvgate
