// CONFIG.
#include <fnmatch.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "tools/kvgate/command_table.h"
#include "tools/kvgate/commands/groups.h"
#include "tools/kvgate/commands/help.h"
#include "tools/kvgate/pubsub/change_watcher.h"
#include "tools/kvgate/pubsub/event_flags.h"
#include "tools/kvgate/resp/number_text.h"
#include "tools/kvgate/resp/request_parser.h"

namespace remora::kvgate {
namespace {

constexpr std::int64_t kMostClients = 1'000'000;
constexpr std::string_view kMaxClientsSetting = "maxclients";
constexpr std::string_view kTrackingSetting = "tracking-table-max-keys";

/// The settings that the gate has, and those that programs ask Redis for before anything else.
std::vector<std::pair<std::string, std::string>> Settings(const GateState& gate) {
  return {{"appendonly", "no"},
          {"cluster-enabled", gate.options.cluster ? "yes" : "no"},
          {"databases", "1"},
          {"io-threads", absl::StrCat(gate.options.threads)},
          {std::string(kMaxClientsSetting), absl::StrCat(gate.max_clients.load())},
          {"maxmemory", "0"},
          {std::string(kNotifySetting), gate.watchers->flags().ToString()},
          {"proto-max-bulk-len", absl::StrCat(RequestParser::kMaxStatedLength)},
          {"save", ""},
          {std::string(kTrackingSetting), absl::StrCat(gate.tracking.max_keys())}};
}

void ConfigGet(Call& call) {
  // A name that is no pattern comes back as it was written.
  std::map<std::string, std::string> found;
  for (const auto& [name, value] : Settings(call.services.gate)) {
    for (std::size_t i = 2; i < call.request.size(); ++i) {
      const std::string pattern(call.argument(i));
      if (::fnmatch(pattern.c_str(), name.c_str(), FNM_CASEFOLD) != 0) continue;
      found.emplace(pattern.find_first_of("*?[") == std::string::npos ? pattern : name, value);
    }
  }
  call.reply.Map(found.size());
  for (const auto& [name, value] : found) {
    call.reply.Bulk(name);
    call.reply.Bulk(value);
  }
}

std::string ConfigSetFailed(std::string_view name, std::string_view why) {
  return absl::StrCat("ERR CONFIG SET failed (possibly related to argument '", AbslView(name), "') - ",
                      AbslView(why));
}

/// Settings that CONFIG SET changes together.
struct Changes {
  std::optional<std::int64_t> max_clients{};
  std::optional<EventFlags> flags{};
  std::optional<std::int64_t> tracked_keys{};
};

/// Adds a setting to `changes`. Returns the error; empty: none.
std::string AddChange(const GateState& gate, std::string_view name, std::string_view value,
                      Changes* changes) {
  bool exists = false;
  for (const auto& setting : Settings(gate)) exists |= IsWord(name, setting.first);
  if (!exists) {
    return absl::StrCat("ERR Unknown option or number of arguments for CONFIG SET - '", AbslView(name), "'");
  }
  if (IsWord(name, kNotifySetting)) {
    if (changes->flags) return ConfigSetFailed(name, "duplicate parameter");
    changes->flags = EventFlags::Parse(value);
    return changes->flags ? "" : ConfigSetFailed(name, kUnknownEventClass);
  }
  if (IsWord(name, kTrackingSetting)) {
    if (changes->tracked_keys) return ConfigSetFailed(name, "duplicate parameter");
    changes->tracked_keys = ParseInteger(value);
    if (!changes->tracked_keys) return ConfigSetFailed(name, "argument couldn't be parsed into an integer");
    return *changes->tracked_keys >= 0
               ? ""
               : ConfigSetFailed(name, "argument must be between 0 and 9223372036854775807 inclusive");
  }
  if (!IsWord(name, kMaxClientsSetting)) return ConfigSetFailed(name, "can't set immutable config");
  if (changes->max_clients) return ConfigSetFailed(name, "duplicate parameter");
  changes->max_clients = ParseInteger(value);
  const bool is_good =
      changes->max_clients && *changes->max_clients >= 1 && *changes->max_clients <= kMostClients;
  return is_good ? ""
                 : ConfigSetFailed(
                       name, absl::StrCat("argument must be between 1 and ", kMostClients, " inclusive"));
}

/// Sets the flags. Behind it, all changes have their notifications.
Task<absl::Status> SetFlags(Call& call, EventFlags flags) {
  ChangeWatchers& watchers = *call.services.gate.watchers;
  if (flags.empty()) {
    watchers.SetFlags(flags);
    co_return absl::OkStatus();
  }
  const auto timeout = call.services.gate.options.client.timeout;
  const auto set = co_await call.services.blocking.Run<bool>(
      [&watchers, flags, timeout](ClusterClient& client) -> absl::StatusOr<bool> {
        REMORA_RETURN_IF_ERROR(ChangeWatchers::CanWatch(client));
        watchers.SetFlags(flags);
        watchers.AwaitBegin(timeout);
        return true;
      });
  co_return set.status();
}

Task<void> ConfigSet(Call& call) {
  if (call.request.size() % 2 != 0) co_return call.reply.Error(kSyntaxError);
  Changes changes;
  for (std::size_t i = 2; i < call.request.size(); i += 2) {
    const std::string error = AddChange(call.services.gate, call.argument(i), call.argument(i + 1), &changes);
    if (!error.empty()) co_return call.reply.Error(error);
  }
  if (changes.flags) {
    const absl::Status status = co_await SetFlags(call, *changes.flags);
    if (!status.ok()) {
      co_return call.reply.Error(ConfigSetFailed(
          kNotifySetting,
          absl::StrCat("the server does not show its changes, so there are no notifications: ",
                       status.message())));
    }
  }
  if (changes.tracked_keys) {
    call.services.gate.tracking.SetMaxKeys(static_cast<std::size_t>(*changes.tracked_keys));
  }
  if (changes.max_clients) {
    call.services.gate.max_clients = static_cast<std::size_t>(*changes.max_clients);
  }
  call.reply.Ok();
}

Task<void> Config(Call& call) {
  if (RepliedHelp(call)) co_return;
  const bool is_get = IsWord(call.argument(1), "GET");
  if (!is_get && !IsWord(call.argument(1), "SET")) {
    co_return call.reply.Error(UnknownSubcommand(call.argument(1), "config"));
  }
  if (call.request.size() < (is_get ? 3u : 4u)) {
    co_return call.reply.Error(WrongArity(is_get ? "config|get" : "config|set"));
  }
  if (is_get) co_return ConfigGet(call);
  co_await ConfigSet(call);
}

constexpr Command kConfigCommands[] = {
    // Exclusive: it may wait for the server.
    {"config", -2, Order::kExclusive, kAlwaysFlags, 0, 0, 0, "server", "Shows and changes settings", nullptr,
     Config},
};

}  // namespace

std::span<const Command> ConfigCommands() { return kConfigCommands; }

}  // namespace remora::kvgate
