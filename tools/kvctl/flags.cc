#include "tools/kvctl/flags.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "rdma/address.h"
#include "server/cluster/shard_configuration.h"
#include "server/main/commit_log_size.h"
#include "server/main/etcd_flags.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/memory/layout.h"
#include "store/options.h"
#include "tools/command_line/command_line.h"
#include "tools/kvctl/kvctl.h"
#include "tools/kvctl/redis/address.h"

namespace remora::kvctl {
namespace {

using command_line::Command;
using command_line::CommandLine;
using command_line::Option;

void AddServerFlags(CommandLine& line, Arguments* arguments) {
  line.Add("--server", arguments->server,
           "verbs://HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT or local:///PATH; or several of them, with "
           "commas between, of which the first that serves is taken (auto: before: verbs, local, then TCP)")
      .Environment("REMORA_SERVER");
  line.Add(
          "--topology", arguments->topology_file,
          "Instead of a server: the topology file of a cluster, or cluster://HOST:PORT[,HOST:PORT]... for "
          "one "
          "whose division is in etcd; for commands of keys, backup, ping, stats, top and cluster status. For "
          "check and restore: the cluster of which the backups have to be")
      .TypeName("FILE|SERVERS");
  line.Add("--timeout", arguments->timeout_ms, "For connecting, and for the operation, in milliseconds")
      .Range(1, 3'600'000)
      .ShowDefault();
  line.Add("--token_file", arguments->token_file,
           "Auth token, as `kvctl create_token` printed it, for a server that requires one")
      .Environment("REMORA_TOKEN_FILE")
      .TypeName("FILE");
  line.Add(
          "--tls_ca", arguments->tls.ca,
          "Over tls://, certificates of the authorities that sign the server's; without, the token has to do")
      .Environment("REMORA_TLS_CA")
      .TypeName("FILE");
  line.Add("--tls_cert", arguments->tls.cert, "This client's certificate, for a server that asks for one")
      .Environment("REMORA_TLS_CERT")
      .TypeName("FILE");
  line.Add("--tls_key", arguments->tls.key, "The key of --tls_cert")
      .Environment("REMORA_TLS_KEY")
      .TypeName("FILE");
}

void AddKey(Command command, Arguments* arguments) {
  command.Add("KEY", arguments->key, "1 to 4096 bytes").Required();
}

Option AddIfVersion(Command command, Arguments* arguments) {
  return command.Add("--if_version", arguments->if_version, "Only if the key has this version")
      .Range(std::uint64_t{1}, kMaxVersion - 1);
}

void AddReadsOfKeys(CommandLine& line, Arguments* arguments) {
  Command get = line.AddCommand("get", "Write the value to standard output, and nothing else");
  AddKey(get, arguments);
  get.AddFlag("--version", arguments->show_version, "Write its version and a newline before the value");
  AddKey(line.AddCommand("exists", "Say by the exit code alone whether there is the key: 0 or 1"), arguments);
}

/// Adds the flags of commands that make a value.
void AddPutFlags(Command command, Arguments* arguments) {
  command
      .Add("--ttl", arguments->ttl_text,
           "Let it expire so long from now; else by put: as the server's default says")
      .TypeName("DURATION");
  const Option absent = command.AddFlag("--if_absent", arguments->if_absent, "Only if there is no such key");
  const Option present =
      command.AddFlag("--if_present", arguments->if_present, "Only if there is such a key").Excludes(absent);
  AddIfVersion(command, arguments).Excludes(absent).Excludes(present);
}

void AddPuts(CommandLine& line, Arguments* arguments) {
  Command put = line.AddCommand("put", "Store a value, from standard input unless VALUE stands there");
  AddKey(put, arguments);
  put.Add("VALUE", arguments->value,
          "Up to 67108864 bytes; write `put -- KEY VALUE` where one of them begins with a dash")
      .MayBeEmpty();
  AddPutFlags(put, arguments);
  Command append = line.AddCommand("append", "Put bytes behind the value, as put; print its new size");
  AddKey(append, arguments);
  append.Add("VALUE", arguments->value, "As for put").MayBeEmpty();
  AddPutFlags(append, arguments);
  Command incr = line.AddCommand("incr", "Add to the number that the value spells; print the sum");
  AddKey(incr, arguments);
  incr.Add("DELTA", arguments->delta_text, "A number of 64 bits; an absent key counts as 0").ShowDefault();
  AddPutFlags(incr, arguments);
}

void AddDelete(CommandLine& line, Arguments* arguments) {
  const Command remove = line.AddCommand("delete", "Remove a key");
  AddKey(remove, arguments);
  AddIfVersion(remove, arguments);
}

void AddExpiry(CommandLine& line, Arguments* arguments) {
  Command touch = line.AddCommand("touch", "Let a key expire so long from now");
  AddKey(touch, arguments);
  AddIfVersion(touch, arguments);
  touch.Add("DURATION", arguments->ttl_text, "See below").Required();
  const Command persist = line.AddCommand("persist", "Let a key never expire");
  AddKey(persist, arguments);
  AddIfVersion(persist, arguments);
  AddKey(line.AddCommand("ttl", "Print for how long the key is there yet, as a DURATION"), arguments);
}

void AddPrefix(Command command, Arguments* arguments) {
  command.Add("--prefix", arguments->prefix, "Only of keys that begin with this; empty: of all").MayBeEmpty();
}

/// Adds the flags of commands that print keys and values.
void AddPrintFlags(Command command, Arguments* arguments) {
  AddPrefix(command, arguments);
  command.Add("--limit", arguments->limit, "Show this number at most; 0: all")
      .Range(std::uint64_t{0}, kMaxVersion)
      .ShowDefault();
  command.AddFlag("--keys_only", arguments->keys_only, "Without values");
}

Option AddAnyOrder(Command command, Arguments* arguments) {
  return command.AddFlag("--any_order", arguments->any_order,
                         "Not as of one moment: for a server that is only in memory");
}

void AddScan(CommandLine& line, Arguments* arguments) {
  Command scan = line.AddCommand(
      "scan", "Print keys and values in the order of the keys, as KEY, tab, VALUE, on a line for each");
  AddPrintFlags(scan, arguments);
  const Option reverse = scan.AddFlag("--reverse", arguments->reverse, "From the last key to the first");
  const Option any_order = AddAnyOrder(scan, arguments).Excludes(reverse);
  scan.AddFlag("--one_sided", arguments->one_sided,
               "Read the keys in the server's memory, each record as of a moment of its own: for a server\n"
               "that keeps an ordered index, which then has nothing to do")
      .Excludes(any_order);
}

void AddWatch(CommandLine& line, Arguments* arguments) {
  Command watch = line.AddCommand(
      "watch", "Print each write as it is done, as put, tab, KEY, tab, VALUE, or delete, tab, KEY");
  AddPrintFlags(watch, arguments);
  watch.Add("--resume", arguments->resume_token,
            "Continue behind the line that begins with this resume token; else begin now");
  watch.AddFlag("--show_positions", arguments->show_positions,
                "Begin each line with a resume token; print one at the end, too");
  watch.Add("--idle", arguments->idle_text, "End when nothing has come for so long; else never")
      .TypeName("DURATION");
}

void AddCountAndDeleteAll(CommandLine& line, Arguments* arguments) {
  AddPrefix(line.AddCommand("count", "Print how many keys there are"), arguments);
  Command delete_all =
      line.AddCommand("delete_all", "Delete all keys, or those of --prefix; print how many they were");
  delete_all.FormerName("drop");
  // An empty one is that of a variable which is not set, and would delete all keys.
  delete_all.Add("--prefix", arguments->prefix, "Only keys that begin with this; not empty");
  delete_all.AddFlag("--yes", arguments->yes, "Yes, delete them");
}

Option AddRedis(Command command, const char* flag, std::string& where, const char* help) {
  return command.Add(flag, where, help).TypeName("ADDRESS").Check([](const std::string& text) {
    return std::string(ParseRedisAddress(text).status().message());
  });
}

/// Adds the flags of a copy from a Redis, or to one. `redis`: the flag that names it.
void AddCopyFlags(Command command, Option redis, Arguments* arguments) {
  const Option resume =
      command
          .Add("--resume", arguments->resume_token,
               "Go on where a copy stopped that printed this resume token; leave keys alone "
               "that are there")
          .Needs(redis);
  command
      .AddFlag("--overwrite", arguments->overwrite,
               "With --resume: replace keys that are there, also those that clients wrote meanwhile")
      .Needs(resume);
  command
      .AddFlag("--verify", arguments->verify,
               "With a Redis: then read both sides, and compare counts, and hashes over keys and values")
      .Needs(redis);
}

void AddTransfer(CommandLine& line, Arguments* arguments) {
  Command to_output = line.AddCommand(
      "export", "Write all records as of one moment to standard output: JSON, one record a line");
  AddPrefix(to_output, arguments);
  AddAnyOrder(to_output, arguments);
  const Option to = AddRedis(to_output, "--to", arguments->to, "Write them to a Redis instead");
  AddCopyFlags(to_output, to, arguments);
  to_output.AddFlag("--if_absent", arguments->if_absent, "With --to: leave keys alone that are there")
      .Needs(to);
  Command from_input =
      line.AddCommand("import", "Store the records of an export, which standard input brings");
  const Option from = AddRedis(from_input, "--from", arguments->from, "Read the strings of a Redis instead");
  AddCopyFlags(from_input, from, arguments);
  from_input.AddFlag("--if_absent", arguments->if_absent, "Leave keys alone that are there");
  from_input.AddFlag("--skip_bad", arguments->skip_bad, "Leave out lines that are no records").Excludes(from);
  from_input
      .AddFlag("--without_footer", arguments->without_footer,
               "Take an export whose last line is missing, as a filter may have left it")
      .Excludes(from);
}

Option AddDirectory(Command command, const char* flag, std::string& where, const char* help) {
  return command.Add(flag, where, help).TypeName("DIR");
}

/// --data was its name in earlier releases.
Option AddDataDir(Command command, Arguments* arguments, const char* help) {
  return AddDirectory(command, "--data_dir", arguments->data_dir, help).Alias("--data");
}

Option AddFrom(Command command, Arguments* arguments) {
  return AddDirectory(command, "--from", arguments->from,
                      "The directory of backups, of a server or a cluster");
}

void AddBackupId(Command command, Option from, Arguments* arguments) {
  command
      .Add("--id", arguments->id, "The number of the backup, or of the set of a cluster; else the newest one")
      .Range(std::uint32_t{1}, ~std::uint32_t{0})
      .Needs(from);
}

void AddBackup(Command backup, Arguments* arguments) {
  const Option to = AddDirectory(backup, "--to", arguments->to,
                                 "With --data_dir: the directory of backups. With --topology: that of the "
                                 "cluster, in which server NAME has the --backup_dir NAME");
  const Option data =
      AddDataDir(backup, arguments, "Without a server: the data directory of a stopped one").Needs(to);
  backup
      .Add("--keep", arguments->keep,
           "With --data_dir: delete all but this number of the newest ones; 0: delete none")
      .Needs(data);
}

void AddBackups(CommandLine& line, Arguments* arguments) {
  AddBackup(line.AddCommand("backup",
                            "Have the server make a backup, or all servers of a cluster; print its number"),
            arguments);
  AddFrom(line.AddCommand("backups",
                          "List backups: number, time, last version, bytes, new bytes; tabs in between. Of a "
                          "cluster: number, time, shards, bytes, new bytes, state of each set"),
          arguments)
      .Required();
  const Command restore =
      line.AddCommand("restore", "Make a data directory of a backup, all of it or nothing");
  AddDirectory(restore, "--to", arguments->to,
               "The data directory to be made: new, or empty, as a mount point may be")
      .Required();
  AddBackupId(restore, AddFrom(restore, arguments).Required(), arguments);
  Command check =
      line.AddCommand("check", "Read all of a stopped server's data, or of a backup; print counts");
  const Option data = AddDataDir(check, arguments, "The data directory of a stopped server");
  const Option from = AddFrom(check, arguments).Excludes(data);
  AddBackupId(check, from, arguments);
  check.RequireOneOf({data, from});
}

void AddPing(Command ping, Arguments* arguments) {
  ping.Add("--wait", arguments->wait_seconds, "Try for this number of seconds until a server answers")
      .Range(0, 86'400);
}

/// Returns the fault of the name; empty: none.
std::string IsTokenName(const std::string& name) {
  const bool is_one = !name.empty() && name.size() <= 32 && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_';
  });
  return is_one ? "" : "a token's name has 1 to 32 letters, digits, dots, dashes and underscores";
}

void AddToken(Command token, Arguments* arguments) {
  token.Add("NAME", arguments->key, "Up to 32 letters, digits, dots, dashes and underscores")
      .Required()
      .Check(IsTokenName);
  token.Add("--role", arguments->role, "read-only, read-write or replication")
      .IsOneOf({"read-only", "read-write", "replication"})
      .ShowDefault()
      .TypeName("ROLE");
}

void AddSize(Command size, Arguments* arguments) {
  size.Add("--records", arguments->records, "How many records")
      .Range(std::uint64_t{1}, std::uint64_t{1} << 40)
      .Required();
  size.Add("--value_size", arguments->value_size, "Bytes of a value, on average: 100, 4K")
      .Size()
      .Range(std::uint64_t{0}, std::uint64_t{kMaxValueSize})
      .Required();
  size.Add("--key_size", arguments->key_size, "Bytes of a key, on average")
      .Size()
      .Range(std::uint64_t{kMinKeySize}, std::uint64_t{kMaxKeySize})
      .ShowDefault();
  size.Add("--clients", arguments->clients, "Clients that are connected at once")
      .Range(std::uint64_t{1}, std::uint64_t{65536})
      .ShowDefault();
}

void AddTop(Command top, Arguments* arguments) {
  top.Add("--interval", arguments->interval_text, "How often; 10ms to 1h").ShowDefault().TypeName("DURATION");
  top.Add("--count", arguments->limit, "End after so many; 0: never")
      .Range(std::uint64_t{0}, kMaxVersion)
      .ShowDefault();
  top.AddFlag("--json", arguments->json, "As one JSON object a line");
}

void AddDoctor(Command doctor, Arguments* arguments) {
  AddDataDir(doctor, arguments, "Check the disk for this data directory, too");
  doctor.Add("--memory", arguments->memory, "The server's --memory; else its default for this machine")
      .Size()
      .Range(std::uint64_t{1}, std::uint64_t{kMaxMemorySize});
  doctor
      .Add("--commit_log", arguments->commit_log,
           "The server's --commit_log: its size, or off; else its default for this disk")
      .Check(FaultOfCommitLogSize)
      .TypeName("SIZE");
  doctor
      .Add("--device", arguments->device,
           "RDMA is to be used: a lack of it is a problem. Try READs, WRITEs and SENDs of the device to "
           "itself")
      .TypeName("NAME")
      .ValueIsOptional();
  doctor.AddFlag("--json", arguments->json, "As one JSON object");
}

void AddCluster(Command cluster, Arguments* arguments) {
  cluster
      .Add("ACTION", arguments->action,
           "init: print a topology file for the servers; status: show the shards of --topology; publish: "
           "write "
           "that file to etcd, for shards that fail over; topology: print it; members: show "
           "the members of a shard that fails over by itself; switch: make another of them the primary; "
           "remove: take a member out of it for good; add: put one in; force: make a member the primary that "
           "may lack acknowledged writes, if the others are lost for good; rebuild: write the configuration "
           "anew, if etcd has lost its data; move: give --slots to another shard of --topology; rebalance: "
           "print the moves after which its shards have equally many")
      .Required()
      .IsOneOf({"init", "status", "members", "switch", "remove", "add", "force", "rebuild", "move",
                "rebalance", "publish", "topology"});
  cluster.Add("SERVER", arguments->servers,
              "init: the address of each shard's server, or several of it with commas between");
  const Option etcd = AddEtcdFlags(cluster, &arguments->etcd,
                                   "For members of shards, and publish: the configuration is there");
  cluster.Add("--shard", arguments->shard, "With --etcd: the shard, as CLUSTER/NAME")
      .Check(FaultOfShard)
      .TypeName("SHARD")
      .Needs(etcd);
  cluster
      .Add("--to", arguments->to_member,
           "switch: the ID of the member; without, the first one that is in sync. move: the shard that gets "
           "the slots, by its name or address")
      .TypeName("MEMBER|SHARD");
  cluster.Add("--slots", arguments->slots, "move: the slots, as in 0-99,200")
      .Check([](const std::string& text) {
        return SlotsIn(text) ? ""
                             : "'" + text +
                                   "' is no set of slots; give numbers from 0 to 16383 and ranges, as in "
                                   "0-99,200, and each slot once";
      })
      .TypeName("SLOTS");
  cluster.Add("--rate", arguments->rate, "move, rebalance: bytes a second that are copied; 0: no limit")
      .Size()
      .ShowDefault();
  cluster.AddFlag("--yes", arguments->yes, "rebalance: do the moves");
  cluster
      .Add("--member", arguments->member,
           "remove, add, force: the ID of the member; rebuild: of the primary, if the members disagree")
      .Check([](const std::string& text) { return std::string(CheckMemberId(text).message()); })
      .TypeName("MEMBER")
      .Needs(etcd);
  cluster
      .Add("--initial_member", arguments->initial_members,
           "rebuild: a member, and the address at which the others reach it; once for each")
      .TypeName("ID=ADDRESS")
      .Needs(etcd);
  cluster.Add("--address", arguments->address, "add: the address at which the others reach the member")
      .Check([](const std::string& text) { return std::string(rdma::ParseAddress(text).status().message()); })
      .TypeName("ADDRESS")
      .Needs(etcd);
  cluster
      .Add(
          "--min_in_sync", arguments->min_in_sync,
          "remove, add, rebuild: from now on, so many members have each write before it is answered; else as "
          "before, and for rebuild more than half of them")
      .Range(std::uint32_t{1}, static_cast<std::uint32_t>(kMaxReplicas))
      .TypeName("COUNT")
      .Needs(etcd);
  cluster
      .AddFlag("--accept_lost_writes", arguments->accept_lost_writes,
               "force, rebuild: do it; without, it prints what may be lost")
      .Needs(etcd);
  cluster.AddFlag("--json", arguments->json, "members: as one JSON object").Needs(etcd);
}

void AddOperatorCommands(CommandLine& line, Arguments* arguments) {
  AddPing(line.AddCommand(
              "ping", "Ask the server, or each of a cluster, for an answer and print the round-trip time"),
          arguments);
  AddToken(line.AddCommand("create_token",
                           "Print a new auth token: a line for the server's --tokens, and for its clients"),
           arguments);
  AddSize(line.AddCommand("size", "Print the memory that a server needs for a number of records"), arguments);
  line.AddCommand(
          "stats",
          "Print the server's metrics, a name and a value on each line; of a cluster, behind the shard")
      .AddFlag("--json", arguments->json, "As one JSON object");
  line.AddCommand("config", "Print the server's settings in force: key, value, and what each comes from")
      .AddFlag("--json", arguments->json, "As a JSON array of objects");
  line.AddCommand(
      "promote",
      "Make a follower a primary, which serves clients. It waits up to the server's --lease_time, "
      "so that clients of the primary before read nothing old");
  AddCluster(line.AddCommand("cluster", "Divide the keys among servers, or show the servers that have them"),
             arguments);
  AddTop(line.AddCommand("top", "Show operations a second, memory and backlog, again and again"), arguments);
  AddDoctor(line.AddCommand("doctor", "Check this machine, and the server if one is named; say what to do"),
            arguments);
}

}  // namespace

void AddFlags(CommandLine& line, Arguments* arguments) {
  AddServerFlags(line, arguments);
  AddReadsOfKeys(line, arguments);
  AddPuts(line, arguments);
  AddDelete(line, arguments);
  AddExpiry(line, arguments);
  AddScan(line, arguments);
  AddWatch(line, arguments);
  AddCountAndDeleteAll(line, arguments);
  AddTransfer(line, arguments);
  AddBackups(line, arguments);
  AddOperatorCommands(line, arguments);
}

}  // namespace remora::kvctl
