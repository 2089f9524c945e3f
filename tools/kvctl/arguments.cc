// Reads the command line, and finds what is wrong with it.
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "client/cluster/cluster_shard.h"
#include "client/cluster/topology.h"
#include "client/cluster/topology_source.h"
#include "store/format/memory/layout.h"
#include "store/format/types/duration_text.h"
#include "store/store.h"
#include "tools/command_line/command_line.h"
#include "tools/command_line/place.h"
#include "tools/kvctl/flags.h"
#include "tools/kvctl/kvctl.h"

namespace remora::kvctl {
namespace {

using command_line::CommandLine;

constexpr char kExitCodes[] =
    "Exit codes:\n"
    "   0  done\n"
    "   1  there is no such key; nothing was done. check, restore: damaged; nothing was restored.\n"
    "      backups: the file of a set is damaged, and the others are listed.\n"
    "      doctor: it found a problem. import, export: --verify found a difference. cluster status: a\n"
    "      shard has keys of another one, or other slots than the file says. cluster members: one is not\n"
    "      in sync, or does not answer.\n"
    "      cluster switch: the member is not in sync, or the primary goes on; remove, add, force: the\n"
    "      shard does not allow it, and nothing was done\n"
    "   2  --if_absent: there is such a key; --if_version: it has another version; incr: its value is\n"
    "      no number; nothing was done\n"
    "   3  check: the log ends torn, as a machine leaves it that fails; a server starts, and drops\n"
    "      what is behind that, none of which was synced\n"
    "  64  usage: an unknown flag, a bad address, duration or number, a key out of bounds; a file of a\n"
    "      token that is missing, or holds none\n"
    "  65  the topology file has a fault; cluster members: the configuration has one;\n"
    "      put: the value is larger than 67108864 bytes; append: it would be larger than 262144;\n"
    "      incr: the sum is no number of 64 bits; nothing was done. import: a line is no record, or\n"
    "      the last line is missing; what stood before it was imported\n"
    "  66  there is no such directory, no such backup in it, or no such topology file; a set of backups\n"
    "      lacks one;\n"
    "      cluster members: etcd has no such shard\n"
    "  69  the server, or the Redis, cannot be reached, rejected the client, or did not answer in time;\n"
    "      cluster members: no primary serves, or etcd cannot be reached\n"
    "  70  an error inside kvctl or the server\n"
    "  71  the system lacks something, as descriptors, memory, or memory that may be locked; or the\n"
    "      server's does\n"
    "  73  the server, or the Redis, has no space; nothing was stored, or the line says what was\n"
    "  74  standard input or output failed (the line says what was done all the same); or the disk of\n"
    "      the server, or of backups, is full, fails, or has damaged data\n"
    "  75  a store is open there; another backup is under way, or one is being read;\n"
    "      export: the output was not taken for 30 s, or the connection broke. import, export with a\n"
    "      Redis: a signal stopped it, and the line says how it goes on\n"
    "  77  not permitted: another user's local server, no token or a wrong one, or one for reading alone;\n"
    "      a file of a secret that this user may not read, or that others may; no password of the Redis or\n"
    "      of etcd, or a wrong one\n"
    "  78  a directory of something else, or not empty, or of a format that this kvctl does not know;\n"
    "      the key's slot is another server's; a set of backups is of another cluster or with other slots\n"
    "DURATION: 500ms, 30s, 15m, 12h, 7d (whole numbers), or never\n";
static_assert(kMaxValueSize == 67108864 && kMaxSmallValueSize == 262144, "the help text names them");

/// Reads standard input to its end, and no further than shows that it is too much for a value.
Outcome ReadInput(std::string* value) {
  std::size_t size = 0;
  while (size <= kMaxValueSize) {
    if (size == value->size()) value->resize(std::clamp(2 * size, std::size_t{4096}, kMaxValueSize + 1));
    const ssize_t got = read(STDIN_FILENO, value->data() + size, value->size() - size);
    if (got == 0) break;
    if (got > 0) {
      size += static_cast<std::size_t>(got);
    } else if (errno != EINTR) {
      return {EX_IOERR, absl::StrFormat("standard input: %s", std::strerror(errno))};
    }
  }
  value->resize(size);
  return {};
}

/// Reads --interval. Returns its fault; empty: none.
std::string ReadInterval(Arguments* arguments) {
  constexpr std::chrono::milliseconds kMin{10};
  std::string why;
  arguments->interval = ParseTtl(arguments->interval_text, &why);
  if (!arguments->interval) return absl::StrFormat("--interval: %s", why);
  if (*arguments->interval >= kMin && *arguments->interval <= std::chrono::hours(1)) return "";
  return absl::StrFormat("--interval: '%s' is not between 10ms and 1h", arguments->interval_text);
}

/// Returns the flag of cluster that is not for this action, and says for which it is; or "".
std::string FindFlagOfAnother(const CommandLine& line, const std::string& action) {
  struct FlagOf {
    const char* flag;
    std::vector<std::string> actions;
  };
  static const std::vector<FlagOf> kFlags = {
      {"--to", {"switch", "move"}},
      {"--slots", {"move"}},
      {"--rate", {"move", "rebalance"}},
      {"--yes", {"rebalance"}},
      {"--json", {"members"}},
      {"--member", {"remove", "add", "force", "rebuild"}},
      {"--initial_member", {"rebuild"}},
      {"--address", {"add"}},
      {"--min_in_sync", {"remove", "add", "rebuild"}},
      {"--shard", {"members", "switch", "remove", "add", "force", "rebuild"}},
      {"--accept_lost_writes", {"force", "rebuild"}}};
  for (const FlagOf& one : kFlags) {
    if (!line.Has(one.flag) || std::ranges::find(one.actions, action) != one.actions.end()) continue;
    std::string actions;
    for (const std::string& of : one.actions) actions += (actions.empty() ? "cluster " : ", ") + of;
    return std::string(one.flag) + ": is for " + actions + "; leave it out";
  }
  return "";
}

/// Returns what is wrong with cluster where --topology names servers, whose division is in etcd, or "".
std::string FindWrongOfServers(const Arguments& arguments) {
  if (!IsOfServers(arguments.topology_file)) return "";
  if (arguments.action == "publish") return "cluster publish: it writes a file to etcd; name that";
  return "";
}

/// Returns what is wrong with the arguments of cluster, or "".
std::string FindWrongOfCluster(const CommandLine& line, const Arguments& arguments) {
  if (arguments.command != "cluster") return "";
  if (line.Has("--server")) return "--server: cluster takes the servers from elsewhere; leave it out";
  const bool has_etcd = !arguments.etcd.store.endpoints.empty();
  const bool is_init = arguments.action == "init";
  const bool is_members = IsOfMembers(arguments.action);
  const bool is_publish = arguments.action == "publish";
  if (has_etcd && !is_members && !is_publish) {
    return "--etcd: is for cluster members, switch, remove, add, force, rebuild and publish; leave it, and "
           "the flags that need it, out";
  }
  if (std::string wrong = FindWrongOfServers(arguments); !wrong.empty()) return wrong;
  if (std::string wrong = FindFlagOfAnother(line, arguments.action); !wrong.empty()) return wrong;
  if (!is_init && !arguments.servers.empty()) {
    return "cluster " + arguments.action + ": takes the servers from " +
           (is_members ? "etcd" : "the file of --topology") + "; leave SERVER out";
  }
  if ((is_init || is_members) && !arguments.topology_file.empty()) {
    return is_init
               ? std::string(
                     "--topology: is for cluster status, topology, publish, move and rebalance; cluster init "
                     "prints a file, as in `kvctl cluster init SERVER... > FILE`")
               : "--topology: is for cluster status, topology, publish, move and rebalance; cluster " +
                     arguments.action + " asks etcd, so leave it out";
  }
  if (is_init && arguments.servers.empty()) return "cluster init: name a SERVER for each shard";
  if (!is_init && !is_members && arguments.topology_file.empty()) {
    return "cluster " + arguments.action + ": name the file with --topology=FILE";
  }
  if (arguments.action == "move" && arguments.slots.empty()) return "cluster move: name the --slots";
  if (arguments.action == "move" && arguments.to_member.empty()) {
    return "cluster move: name the shard with --to, by its name or its address";
  }
  if (!is_members && !is_publish) return "";
  const std::string name = "cluster " + arguments.action;
  if (!has_etcd) return name + ": name an address of etcd with --etcd=http://HOST:PORT";
  if (is_publish) return std::string(CheckEtcdFlags(arguments.etcd).message());
  if (arguments.shard.empty()) return name + ": name the shard with --shard=CLUSTER/NAME";
  const bool is_of_member =
      arguments.action == "remove" || arguments.action == "add" || arguments.action == "force";
  if (is_of_member && arguments.member.empty()) return name + ": name the member with --member=ID";
  if (arguments.action == "add" && arguments.address.empty()) {
    return name + ": say where the others reach the member, with --address=ADDRESS";
  }
  if (arguments.action == "rebuild" && arguments.initial_members.empty()) {
    return name + ": name each member with --initial_member=ID=ADDRESS, as their servers do";
  }
  return std::string(CheckEtcdFlags(arguments.etcd).message());
}

bool IsOneOf(std::string_view command, std::initializer_list<std::string_view> commands) {
  return std::ranges::find(commands, command) != commands.end();
}

/// Returns what is wrong with --topology, or "".
std::string FindWrongOfTopology(const CommandLine& line, const Arguments& arguments) {
  if (arguments.command == "cluster") return "";
  if (arguments.command == "backup" && arguments.data_dir.empty() &&
      arguments.topology_file.empty() != arguments.to.empty()) {
    return arguments.to.empty() ? "backup: name the directory of the cluster's backups with --to=DIR"
                                : "--to: is for --topology and --data_dir; leave it out, as the server has "
                                  "its own --backup_dir";
  }
  if (arguments.topology_file.empty()) return "";
  if (IsOneOf(arguments.command, {"check", "restore"})) {
    return arguments.from.empty() ? "--topology: is for backups; name their directory with --from" : "";
  }
  if (arguments.is_offline()) {
    return absl::StrFormat("--topology: %s asks no server; leave it out", arguments.command);
  }
  if (!MayBeOfCluster(arguments)) {
    return absl::StrFormat(
        "--topology: %s asks one server; name that with --server=ADDRESS, which stands in the topology",
        arguments.command);
  }
  return line.Has("--server") ? "--server: --topology names the servers already; leave one out" : "";
}

/// Returns what is wrong with flags that reach no server, or "".
std::string FindUselessFlag(const CommandLine& line, const Arguments& arguments) {
  if (!arguments.is_offline()) return "";
  const char* const how = arguments.command == "backup"    ? "backup --data_dir"
                          : arguments.command == "cluster" ? "cluster init"
                                                           : arguments.command.c_str();
  for (const char* const flag : kServerFlags) {
    if (!line.Has(flag)) continue;
    return absl::StrFormat("%s: is for commands that ask a server, and %s asks none; leave it out", flag,
                           how);
  }
  return "";
}

bool TakesKey(std::string_view command) {
  return !IsOneOf(command, {"ping", "stats", "config", "top", "doctor", "scan", "watch", "count",
                            "delete_all", "export", "import", "backup", "promote", "cluster"});
}

}  // namespace

bool MayBeOfCluster(const Arguments& arguments) {
  return !arguments.is_offline() && !IsOneOf(arguments.command, {"config", "doctor", "promote", "cluster"});
}

Outcome Prepare(Arguments* arguments) {
  if (arguments->command == "backup" && command_line::IsSamePlace(arguments->data_dir, arguments->to)) {
    return {EX_USAGE, "--data_dir and --to are the same directory; backups need one of their own"};
  }
  if (arguments->command == "restore" && command_line::IsSamePlace(arguments->from, arguments->to)) {
    return {EX_USAGE, "--from and --to are the same directory; name a new one with --to"};
  }
  if (arguments->is_offline() && arguments->topology_file.empty()) return {};
  if (!arguments->topology_file.empty()) {
    Outcome outcome = ReadTopology(arguments);
    if (Failed(outcome)) return outcome;
    if (std::ranges::none_of(arguments->topology->shards(), HasTls)) arguments->tls = {};
    if (arguments->is_offline()) return {};
  } else if (!arguments->server.empty()) {
    absl::StatusOr<Topology> alone = Topology::OfServer(arguments->server);
    if (!alone.ok()) return FromStatus(alone.status());
    arguments->topology.emplace(*std::move(alone));
  } else if (arguments->may_be_without_server()) {
    return {};
  } else {
    return {EX_USAGE, MayBeOfCluster(*arguments)
                          ? "say which server: --server=ADDRESS, the environment variable REMORA_SERVER, or "
                            "--topology=FILE for a cluster"
                          : "say which server: --server=ADDRESS, or the environment variable REMORA_SERVER"};
  }
  if (arguments->command == "delete_all" && !arguments->yes) {
    return {EX_USAGE, "it deletes for good; confirm it with --yes"};
  }
  if (arguments->command == "top") {
    if (std::string why = ReadInterval(arguments); !why.empty()) return {EX_USAGE, why};
  }
  if (arguments->idle_text) {
    std::string why;
    arguments->idle = ParseTtl(*arguments->idle_text, &why);
    if (!arguments->idle) return {EX_USAGE, absl::StrFormat("--idle: %s", why)};
  }
  if (!TakesKey(arguments->command)) return {};
  if (arguments->key.size() < kMinKeySize || arguments->key.size() > kMaxKeySize) {
    return {EX_USAGE, absl::StrFormat("the key has %d bytes; a key has %d to %d", arguments->key.size(),
                                      kMinKeySize, kMaxKeySize)};
  }
  if (arguments->ttl_text) {
    std::string why;
    arguments->ttl = ParseTtl(*arguments->ttl_text, &why);
    const char* const where = arguments->command == "touch" ? "DURATION" : "--ttl";
    if (!arguments->ttl) return {EX_USAGE, absl::StrFormat("%s: %s", where, why)};
  }
  if (arguments->command == "incr") {
    const char* const end = arguments->delta_text.data() + arguments->delta_text.size();
    const auto [parsed, error] = std::from_chars(arguments->delta_text.data(), end, arguments->delta);
    if (error != std::errc() || parsed != end) {
      return {EX_USAGE,
              absl::StrFormat("%s is no whole number from -2^63 to 2^63 - 1", arguments->delta_text)};
    }
  }
  if (arguments->if_absent) arguments->condition = Condition::Absent();
  if (arguments->if_present) arguments->condition = Condition::Present();
  if (arguments->if_version != 0) arguments->condition = Condition::Version(arguments->if_version);
  if (arguments->command != "put" && arguments->command != "append") return {};
  if (!arguments->value_given) {
    if (Outcome outcome = ReadInput(&arguments->value); Failed(outcome)) return outcome;
  }
  if (arguments->value.size() > kMaxValueSize) {
    return {EX_DATAERR, absl::StrFormat("the value is larger than %d bytes, the most that a value may have",
                                        kMaxValueSize)};
  }
  return {};
}

int Parse(int argc, char** argv, Arguments* arguments) {
  CommandLine line("Does one operation on a Remora server.", "kvctl");
  line.Version(absl::StrFormat("kvctl %s, format %d", REMORA_VERSION, kFormatVersion));
  line.Footer(kExitCodes);
  AddFlags(line, arguments);
  if (const std::optional<int> exit_code = line.Parse(argc, argv)) return *exit_code;
  arguments->command = line.command();
  if (const std::string wrong = FindUselessFlag(line, *arguments); !wrong.empty()) return line.Fail(wrong);
  if (const std::string wrong = FindWrongOfCluster(line, *arguments); !wrong.empty()) return line.Fail(wrong);
  if (const std::string wrong = FindWrongOfTopology(line, *arguments); !wrong.empty())
    return line.Fail(wrong);
  const bool has_tls_flag = line.Has("--tls_ca") || line.Has("--tls_cert") || line.Has("--tls_key");
  // The environment is for all addresses, and some of them have no TLS. Those of a topology have not been
  // read.
  const bool may_be_tls = !arguments->topology_file.empty() || arguments->command == "cluster" ||
                          arguments->server.find("tls://") != std::string::npos;
  if (!has_tls_flag && !may_be_tls) arguments->tls = {};
  arguments->value_given = line.Has("VALUE");
  return -1;
}

}  // namespace remora::kvctl
