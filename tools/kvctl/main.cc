// kvctl: one operation on a server, for people and for scripts. See --help.
#include <sysexits.h>

#include <csignal>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "store/base/clock.h"
#include "store/base/standard_streams.h"
#include "tools/command_line/say.h"
#include "tools/kvctl/kvctl.h"
#include "tools/kvctl/redis/transfer.h"

namespace remora::kvctl {
namespace {

/// Does a command of one server.
Outcome RunOnServer(const Arguments& arguments, const Clock& clock) {
  const auto client = Connect(arguments, clock);
  if (!client.ok()) return FromStatus(client.status());
  if (arguments.command == "config") return Config(**client, arguments);
  return Promote(**client);
}

/// Does a command of one server or several.
Outcome RunOnAll(const Arguments& arguments, const Clock& clock) {
  const auto client = ConnectToAll(arguments, clock);
  if (!client.ok()) return FromStatus(client.status());
  if (arguments.command == "get") return Get(**client, arguments);
  if (arguments.command == "ttl") return Ttl(**client, arguments);
  if (arguments.command == "exists") return Exists(**client, arguments);
  if (arguments.command == "scan") return Scan(**client, arguments);
  if (arguments.command == "watch") return Watch(**client, arguments);
  if (arguments.command == "export") {
    return arguments.to.empty() ? Export(**client, arguments) : ExportToRedis(**client, arguments, clock);
  }
  if (arguments.command == "import") {
    return arguments.from.empty() ? Import(**client, arguments) : ImportFromRedis(**client, arguments, clock);
  }
  if (arguments.command == "backup") return Backup(**client, arguments, clock);
  if (arguments.command == "count" || arguments.command == "delete_all")
    return CountOrDeleteAll(**client, arguments);
  return Write(**client, arguments);
}

Outcome Run(Arguments arguments) {
  const SteadyClock clock;
  if (Outcome outcome = Prepare(&arguments); Failed(outcome)) return outcome;
  if (arguments.is_offline()) {
    if (arguments.command == "create_token") return MakeToken(arguments);
    if (arguments.command == "size") return Size(arguments);
    if (arguments.command == "cluster") return Cluster(arguments, clock);
    if (arguments.command == "backup") return BackupOffline(arguments);
    if (arguments.command == "backups") return Backups(arguments);
    return arguments.command == "restore" ? Restore(arguments, clock) : Check(arguments, clock);
  }
  if (arguments.command == "doctor") return Doctor(arguments);
  if (arguments.command == "cluster") return Cluster(arguments, clock);
  if (arguments.command == "ping") return Ping(arguments, clock);
  if (arguments.command == "stats") return Stats(arguments, clock);
  if (arguments.command == "top") return Top(arguments, clock);

  if (!MayBeOfCluster(arguments)) return RunOnServer(arguments, clock);
  return RunOnAll(arguments, clock);
}

/// Returns an error with its command before it, unless it names that already, with or without its action.
std::string WithCommand(const std::string& command, const std::string& action, std::string error) {
  // The error of a shard names the command behind the shard.
  const std::string again = absl::StrCat(": ", command, ": ");
  const std::size_t inner = absl::StartsWith(error, "shard ") ? error.find(again) : std::string::npos;
  if (inner != std::string::npos) error.erase(inner, again.size() - 2);
  const bool is_named =
      absl::StartsWith(error, command + ": ") ||
      (!action.empty() && absl::StartsWith(error, absl::StrCat(command, " ", action, ": ")));
  return is_named ? error : absl::StrCat(command, ": ", error);
}

}  // namespace
}  // namespace remora::kvctl

int main(int argc, char** argv) {
  remora::command_line::EndWithoutMemory("kvctl");

  if (const absl::Status streams = remora::OccupyStandardStreams(); !streams.ok()) {
    remora::command_line::SayError(absl::StrCat("kvctl: ", streams.message()));
    return EX_OSERR;
  }
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond `ulimit -f` fails by itself
  remora::kvctl::Arguments arguments;
  if (const int exit_code = remora::kvctl::Parse(argc, argv, &arguments); exit_code >= 0) return exit_code;
  const std::string command = arguments.command, action = arguments.action;
  const remora::kvctl::Outcome outcome = remora::kvctl::Run(std::move(arguments));
  if (!outcome.error.empty()) {
    remora::command_line::SayError("kvctl: " + remora::kvctl::WithCommand(command, action, outcome.error));
  }
  return outcome.exit_code;
}
