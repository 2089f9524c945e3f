// kvctl: declarations that its parts share.
//
//   arguments.cc   the command line: what it says, and what is wrong with it
//   flags.cc       the commands and flags that it may have, and their help
//   commands.cc    a connection, and one operation over it
//   backup.cc      backup, backups, restore and check; of a cluster, sets/
//   transfer.cc    export and import; with a Redis, redis/
//   history_check.cc  whether servers have lost records during a copy
//   config.cc      config
//   size.cc        size
//   cluster.cc     cluster init and status
//   moves.cc       cluster move and rebalance; one move is in moves/
//   members.cc     cluster members, cluster switch; the report, and the other commands, are in members/
//   diagnosis.cc   doctor; its checks are in doctor/
//   top.cc         top; its lines and pages are in top/
//   main.cc        which part does which command
#pragma once

#include <sysexits.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/cluster/cluster_client.h"
#include "client/cluster/topology.h"
#include "server/main/etcd_flags.h"
#include "store/backup.h"
#include "store/base/clock.h"
#include "store/format/types/write_options.h"

namespace remora::kvctl {

inline constexpr int kExitNoSuchKey = 1;
inline constexpr int kExitDamaged = 1;
inline constexpr int kExitProblem = 1;
inline constexpr int kExitCondition = 2;
inline constexpr int kExitTorn = 3;

/// Returns whether an action of cluster is about the members of a shard, in etcd.
inline bool IsOfMembers(std::string_view action) {
  return action != "init" && action != "status" && action != "move" && action != "rebalance" &&
         action != "topology" && action != "publish";
}

struct Arguments {
  std::string server;
  std::string topology_file;
  std::optional<Topology> topology;  // of that file or, without one, of the server alone
  int timeout_ms = 5000;
  std::string token_file;
  rdma::TlsFiles tls;
  std::string role = "read-write";
  std::string command;
  std::string key;
  std::string value;
  bool value_given = false;
  std::optional<std::string> ttl_text;
  std::optional<std::chrono::milliseconds> ttl;
  bool if_absent = false;
  bool if_present = false;
  std::uint64_t if_version = 0;
  Condition condition;  // of these
  bool show_version = false;
  std::string delta_text = "1";
  std::int64_t delta = 0;
  int wait_seconds = 0;
  std::string prefix;
  std::uint64_t limit = 0;
  bool reverse = false;
  bool keys_only = false;
  bool any_order = false;
  bool one_sided = false;
  bool yes = false;
  std::string resume_token;
  bool show_positions = false;
  std::optional<std::string> idle_text;
  std::optional<std::chrono::milliseconds> idle;
  bool skip_bad = false;
  bool without_footer = false;
  bool overwrite = false;
  bool verify = false;
  bool json = false;
  // The directory of a stopped server, that of backups, and the target directory. For import and export,
  // `from` and `to` are addresses of a Redis.
  std::string data_dir;  // also of doctor
  std::string from;
  std::string to;
  std::uint32_t id = 0;  // 0: the newest
  std::uint32_t keep = 0;
  // Flags of the command size.
  std::uint64_t records = 0;
  std::uint64_t key_size = 16;
  std::uint64_t value_size = 0;
  std::uint64_t clients = 64;
  // Arguments of the command cluster.
  std::string action;
  std::vector<std::string> servers;          // of the shards, for init
  EtcdFlags etcd{};                          // for all actions but init and status, as is the next one
  std::string shard;                         // CLUSTER/NAME
  std::string to_member;                     // of switch; empty: any. Of move: the shard, by name or address
  std::string slots;                         // of move
  std::uint64_t rate = 0;                    // of move and rebalance, in bytes a second; 0: no limit
  std::string member;                        // of remove, add, force and rebuild
  std::vector<std::string> initial_members;  // of rebuild: ID=ADDRESS
  std::string address;                       // of add
  std::uint32_t min_in_sync = 0;             // of remove, add and rebuild; 0: as it is
  bool accept_lost_writes = false;
  ShardIdentity expected_shard{};  // of the server, as the topology says; all zeros: any
  // Flags of the command doctor.
  std::uint64_t memory = 0;               // 0: the server's default
  std::optional<std::string> commit_log;  // a size, or off; nothing: the server's default
  std::optional<std::string> device;
  // Flags of the command top.
  std::string interval_text = "1s";
  std::optional<std::chrono::milliseconds> interval;

  /// Returns true if the command is of use for a server that serves no clients.
  bool is_admin() const {
    return command == "promote" || command == "ping" || command == "stats" || command == "config" ||
           command == "top" || command == "backup" || command == "doctor" ||
           (command == "cluster" && IsOfMembers(action));
  }
  /// Returns true if the command may have a server, and needs none.
  bool may_be_without_server() const { return command == "doctor" || command == "cluster"; }
  /// Returns true if the command runs here, without a server.
  bool is_offline() const {
    return command == "create_token" || command == "backups" || command == "restore" || command == "check" ||
           command == "size" || (command == "cluster" && action == "init") ||
           (command == "backup" && !data_dir.empty());
  }
};

/// Returns whether the command may ask several servers, as those of keys, backup, ping, stats and top.
bool MayBeOfCluster(const Arguments& arguments);

/// Why kvctl stops: the exit code, and the line that says why (none: the code says it all).
struct Outcome {
  int exit_code = EX_OK;
  std::string error;
};

inline bool Failed(const Outcome& outcome) { return outcome.exit_code != 0; }

Outcome FromStatus(const absl::Status& status);
/// Like FromStatus, of an operation that some servers are not set up for: of those, 78 (EX_CONFIG).
Outcome FromAnswer(const absl::Status& status);
/// Like FromStatus, of an operation that runs here, and not on a server.
Outcome FromOffline(const absl::Status& status);
/// Returns the time at which a backup was made, as text.
std::string TimeOfBackup(std::int64_t unix_s);
/// Reads the topology of --topology, from a file or servers. The outcome is 66 if there is no such file, and
/// 65 if it has a fault.
Outcome ReadTopology(Arguments* arguments);
Outcome WriteOutput(std::string_view bytes);
/// Writes the result of an operation that took effect; an error says that it did. `done`: "the sum is 5, and
/// stored".
Outcome WriteOutput(std::string_view bytes, std::string_view done);
/// Adds bytes so that they are part of one line, and of one of its fields: a backslash as two, a control
/// character as \x0a.
void AppendEscaped(std::string_view bytes, std::string* line);

/// The failures of shards: the first one, which is named, and how many there are.
class ShardFailures {
 public:
  void Add(const ShardPlace& shard, const absl::Status& status);
  /// Returns the outcome of all shards together.
  Outcome outcome() const;

 private:
  Outcome first_;
  std::size_t count_ = 0;
};

/// Returns the arguments for the server of one shard of arguments.topology.
Arguments OfShard(const Arguments& arguments, std::size_t shard);

/// Fills `arguments`. Returns the exit code where there is nothing to run, else -1.
int Parse(int argc, char** argv, Arguments* arguments);
/// Rejects what can be rejected before anything is connected.
Outcome Prepare(Arguments* arguments);

/// Returns the contents of --token_file. Empty: the flag is not given. PermissionDenied, ResourceExhausted,
/// InvalidArgument: the file cannot be used.
absl::StatusOr<std::string> ReadToken(const Arguments& arguments);
/// `reconnects`: the client's calls do, too (ClientOptions::reconnect).
absl::StatusOr<std::unique_ptr<Client>> Connect(const Arguments& arguments, const Clock& clock,
                                                bool reconnects = true);
/// Returns a client of all servers of arguments.topology.
absl::StatusOr<std::unique_ptr<ClusterClient>> ConnectToAll(const Arguments& arguments, const Clock& clock);

// Commands.
Outcome Ping(const Arguments& arguments, const Clock& clock);
Outcome Get(ClusterClient& client, const Arguments& arguments);
Outcome Exists(ClusterClient& client, const Arguments& arguments);
/// put, append, incr, delete, touch, persist.
Outcome Write(ClusterClient& client, const Arguments& arguments);
Outcome Ttl(ClusterClient& client, const Arguments& arguments);
Outcome Stats(const Arguments& arguments, const Clock& clock);
Outcome Config(Client& client, const Arguments& arguments);
/// Returns the value of a server's setting; empty: there is none. Errors: those of Client::Settings.
absl::StatusOr<std::string> ReadSetting(Client& client, std::string_view key);
/// The rates of the server, or of the shards of a topology, again and again.
Outcome Top(const Arguments& arguments, const Clock& clock);
Outcome Scan(ClusterClient& client, const Arguments& arguments);
Outcome Watch(ClusterClient& client, const Arguments& arguments);
Outcome CountOrDeleteAll(ClusterClient& client, const Arguments& arguments);
/// A line for the server's file of tokens, with a new secret.
Outcome MakeToken(const Arguments& arguments);
/// Checks of this machine, and of a server.
Outcome Doctor(const Arguments& arguments);
/// The memory for a number of records.
Outcome Size(const Arguments& arguments);
/// init and status of a cluster.
Outcome Cluster(const Arguments& arguments, const Clock& clock);
/// Move slots between servers.
Outcome ClusterMove(const Arguments& arguments, const Clock& clock);
Outcome ClusterRebalance(const Arguments& arguments, const Clock& clock);
/// The members of a shard that fails over by itself.
Outcome ClusterMembers(const Arguments& arguments, const Clock& clock);
/// Makes another member of such a shard its primary.
Outcome ClusterSwitch(const Arguments& arguments, const Clock& clock);
/// Removes a member from such a shard for good, or adds one.
Outcome ClusterRemove(const Arguments& arguments, const Clock& clock);
Outcome ClusterAdd(const Arguments& arguments, const Clock& clock);
/// Has a member take over that may lack acknowledged writes.
Outcome ClusterForce(const Arguments& arguments, const Clock& clock);
/// Writes the division of the slots of several such shards to etcd.
Outcome ClusterPublish(const Arguments& arguments);
/// Writes the configuration of a shard anew, after etcd has lost it.
Outcome ClusterRebuild(const Arguments& arguments, const Clock& clock);
Outcome Promote(Client& client);
/// Has the server make a backup, or all servers of a cluster a set of them.
Outcome Backup(ClusterClient& client, const Arguments& arguments, const Clock& clock);
/// Has each server make a backup, side by side, and returns their descriptions in the order of the shards.
/// `waits`: while a server makes another one. If one fails, it returns when the others have ended, too.
Outcome BackUpAll(ClusterClient& client, bool waits, const Clock& clock, std::vector<BackupInfo>* made);
Outcome BackupOffline(const Arguments& arguments);
Outcome Backups(const Arguments& arguments);
Outcome Restore(const Arguments& arguments, const Clock& clock);
Outcome Check(const Arguments& arguments, const Clock& clock);
Outcome Export(ClusterClient& client, const Arguments& arguments);
Outcome Import(ClusterClient& client, const Arguments& arguments);

}  // namespace remora::kvctl
