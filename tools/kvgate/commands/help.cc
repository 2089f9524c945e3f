#include "tools/kvgate/commands/help.h"

#include <cctype>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "tools/kvgate/command_table.h"

namespace remora::kvgate {
namespace {

struct SubcommandHelp {
  std::string_view form;
  std::string_view meaning;
};

constexpr SubcommandHelp kOfClient[] = {
    {"CACHING (YES|NO)", "Sets whether the keys of the next command are tracked, with OPTIN or OPTOUT."},
    {"GETNAME", "Returns the name of this connection."},
    {"GETREDIR", "Returns the ID of the connection that gets the invalidations."},
    {"ID", "Returns the ID of this connection."},
    {"INFO", "Describes this connection."},
    {"KILL <address> | <option> <value> [<option> <value> [...]]",
     "Ends connections: ADDR, LADDR, ID, TYPE, USER, SKIPME."},
    {"LIST [TYPE <type> | ID <id> [<id> ...]]", "Describes connections."},
    {"NO-EVICT (ON|OFF)", "Does nothing: the gate ends no connection to save memory."},
    {"REPLY (ON|OFF|SKIP)", "Sets whether this connection gets replies."},
    {"SETINFO (LIB-NAME|LIB-VER) <text>", "Names the library of this connection."},
    {"SETNAME <name>", "Names this connection."},
    {"TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]] [OPTIN] [OPTOUT] [NOLOOP]",
     "Sets whether this connection gets invalidations of keys that it has read."},
    {"TRACKINGINFO", "Describes the tracking of this connection."},
};
constexpr SubcommandHelp kOfCluster[] = {
    {"INFO", "Describes the state of the cluster, which is always ok."},
    {"KEYSLOT <key>", "Returns the slot of a key."},
    {"LINKS", "Returns an empty array: the nodes have no links to each other."},
    {"MYID", "Returns the ID of this node."},
    {"NODES", "Returns a line for each node."},
    {"REPLICAS <id>", "Returns an empty array: the nodes have no replicas."},
    {"SHARDS", "Returns the slots of each node, and the node."},
    {"SLAVES <id>", "Returns an empty array: the nodes have no replicas."},
    {"SLOTS", "Returns the slots of each node, and its address."},
};
constexpr SubcommandHelp kOfCommand[] = {
    {"(no subcommand)", "Describes all commands."},
    {"COUNT", "Returns the number of commands."},
    {"DOCS [<command> [<command> ...]]", "Returns the summary and the group of commands."},
    {"INFO [<command> [<command> ...]]", "Describes commands."},
};
constexpr SubcommandHelp kOfConfig[] = {
    {"GET <pattern> [<pattern> ...]", "Returns the settings whose names fit a pattern."},
    {"SET <name> <value> [<name> <value> ...]",
     "Sets maxclients, notify-keyspace-events and tracking-table-max-keys; others are fixed."},
};
constexpr SubcommandHelp kOfMemory[] = {
    {"USAGE <key> [SAMPLES <count>]", "Returns the bytes of the record of a key."},
};
constexpr SubcommandHelp kOfObject[] = {
    {"ENCODING <key>", "Returns how Redis keeps such a value after SET."},
    {"FREQ <key>", "Returns an error: the gate does not know how often a key is read."},
    {"REFCOUNT <key>", "Returns 1."},
};

constexpr SubcommandHelp kOfPubsub[] = {
    {"CHANNELS [<pattern>]", "Returns the subscribed channels that fit a pattern."},
    {"NUMPAT", "Returns the number of subscribed patterns."},
    {"NUMSUB [<channel> ...]", "Returns the number of subscribers of channels, without those by patterns."},
    {"SHARDCHANNELS [<pattern>]", "Returns the subscribed channels of shards that fit a pattern."},
    {"SHARDNUMSUB [<channel> ...]", "Returns the number of subscribers of channels of shards."},
};

struct CommandHelp {
  std::string_view name;
  std::span<const SubcommandHelp> subcommands;
};
constexpr CommandHelp kHelps[] = {{"client", kOfClient}, {"cluster", kOfCluster}, {"command", kOfCommand},
                                  {"config", kOfConfig}, {"memory", kOfMemory},   {"object", kOfObject},
                                  {"pubsub", kOfPubsub}};

std::span<const SubcommandHelp> SubcommandsOf(std::string_view command) {
  for (const CommandHelp& help : kHelps) {
    if (help.name == command) return help.subcommands;
  }
  return {};
}

std::set<std::string, std::less<>> NamesOfSubcommands() {
  std::set<std::string, std::less<>> names;
  for (const CommandHelp& help : kHelps) {
    for (const SubcommandHelp& one : help.subcommands) {
      const std::string_view word = one.form.substr(0, one.form.find(' '));
      names.insert(absl::StrCat(AbslView(help.name), "|", absl::AsciiStrToLower(AbslView(word))));
    }
    names.insert(absl::StrCat(AbslView(help.name), "|help"));
  }
  return names;
}

}  // namespace

bool HasSubcommands(const Command& command) { return !SubcommandsOf(command.name).empty(); }

const char* FullName(const Command& command, const Request& request) {
  // No command that names keys has subcommands, but for these.
  static const std::set<std::string, std::less<>> names = NamesOfSubcommands();
  const std::string_view name = command.name;
  const bool may_have = command.first_key == 0 || name == "object" || name == "memory";
  if (!may_have || request.size() < 2 || !HasSubcommands(command)) return command.name;
  const auto found =
      names.find(absl::StrCat(AbslView(name), "|", absl::AsciiStrToLower(AbslView(request[1]))));
  return found == names.end() ? command.name : found->c_str();
}

bool RepliedHelp(Call& call) {
  if (call.request.size() < 2 || !IsWord(call.argument(1), "HELP")) return false;
  const std::string_view name = call.command->name;
  if (call.request.size() != 2) {
    call.reply.Error(WrongArity(absl::StrCat(AbslView(name), "|help")));
    return true;
  }
  const std::span<const SubcommandHelp> subcommands = SubcommandsOf(name);
  std::string upper(name);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  call.reply.Array(2 * subcommands.size() + 3);
  call.reply.Simple(absl::StrCat(upper, " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
  for (const SubcommandHelp& subcommand : subcommands) {
    call.reply.Simple(subcommand.form);
    call.reply.Simple(absl::StrCat("    ", AbslView(subcommand.meaning)));
  }
  call.reply.Simple("HELP");
  call.reply.Simple("    Prints this help.");
  return true;
}

}  // namespace remora::kvgate
