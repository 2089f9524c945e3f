// kvctl: declarations that its parts share.
//
//   arguments.cc   the command line: what it says, and what is wrong with it
//   flags.cc       the commands and flags that it may have, and their help
//   commands.cc    a connection, and one operation over it
//   backup.cc      backup, backups, restore and check
//   transfer.cc    export and import; with a Redis, redis/
//   history_check.cc  whether a server has lost records during a copy
//   config.cc      config
//   size.cc        size
//   cluster.cc     cluster init and status
//   members.cc     cluster members, cluster switch; the report is in members/
//   diagnosis.cc   doctor; its checks are in doctor/
//   top.cc         top; its lines and pages are in top/
//   main.cc        which part does which command
#pragma once

#include <sysexits.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "server/main/etcd_flags.h"
#include "store/base/clock.h"
#include "store/format/types/write_options.h"

namespace remora::kvctl {

inline constexpr int kExitNoSuchKey = 1;
inline constexpr int kExitDamaged = 1;
inline constexpr int kExitProblem = 1;
inline constexpr int kExitCondition = 2;
inline constexpr int kExitTorn = 3;

struct Arguments {
  std::string server;
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
  std::vector<std::string> servers;  // of the shards, for init
  std::string topology_file;
  EtcdFlags etcd{};                // for members and switch, as is the next one
  std::string shard;               // CLUSTER/NAME
  std::string to_member;           // of switch; empty: any
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
           (command == "cluster" && (action == "members" || action == "switch"));
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

/// Why kvctl stops: the exit code, and the line that says why (none: the code says it all).
struct Outcome {
  int exit_code = EX_OK;
  std::string error;
};

inline bool Failed(const Outcome& outcome) { return outcome.exit_code != 0; }

Outcome FromStatus(const absl::Status& status);
/// Like FromStatus, of an operation that some servers are not set up for: of those, 78 (EX_CONFIG).
Outcome FromAnswer(const absl::Status& status);
Outcome WriteOutput(std::string_view bytes);
/// Writes the result of an operation that took effect; an error says that it did. `done`: "the sum is 5, and
/// stored".
Outcome WriteOutput(std::string_view bytes, std::string_view done);
/// Adds bytes so that they are part of one line, and of one of its fields: a backslash as two, a control
/// character as \x0a.
void AppendEscaped(std::string_view bytes, std::string* line);

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

// Commands.
Outcome Ping(const Arguments& arguments, const Clock& clock);
Outcome Get(Client& client, const Arguments& arguments);
Outcome Exists(Client& client, const Arguments& arguments);
/// put, append, incr, delete, touch, persist.
Outcome Write(Client& client, const Arguments& arguments);
Outcome Ttl(Client& client, const Arguments& arguments);
Outcome Stats(Client& client, const Arguments& arguments);
Outcome Config(Client& client, const Arguments& arguments);
/// The rates of the server, again and again.
Outcome Top(const Arguments& arguments, const Clock& clock);
Outcome Scan(Client& client, const Arguments& arguments);
Outcome Watch(Client& client, const Arguments& arguments);
Outcome CountOrDeleteAll(Client& client, const Arguments& arguments);
/// A line for the server's file of tokens, with a new secret.
Outcome MakeToken(const Arguments& arguments);
/// Checks of this machine, and of a server.
Outcome Doctor(const Arguments& arguments);
/// The memory for a number of records.
Outcome Size(const Arguments& arguments);
/// init and status of a cluster.
Outcome Cluster(const Arguments& arguments, const Clock& clock);
/// The members of a shard that fails over by itself.
Outcome ClusterMembers(const Arguments& arguments, const Clock& clock);
/// Makes another member of such a shard its primary.
Outcome ClusterSwitch(const Arguments& arguments, const Clock& clock);
Outcome Promote(Client& client);
Outcome Backup(Client& client);
Outcome BackupOffline(const Arguments& arguments);
Outcome Backups(const Arguments& arguments);
Outcome Restore(const Arguments& arguments, const Clock& clock);
Outcome Check(const Arguments& arguments, const Clock& clock);
Outcome Export(Client& client, const Arguments& arguments);
Outcome Import(Client& client, const Arguments& arguments);

}  // namespace remora::kvctl
