// The command line of kvserver, and its configuration file.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rdma/address.h"
#include "rdma/local_access.h"
#include "rdma/tls.h"
#include "rdma/transport.h"
#include "server/cluster/keeper.h"
#include "server/main/etcd_flags.h"
#include "server/main/server_log.h"
#include "server/main/settings.h"
#include "server/monitoring/log_events.h"
#include "server/server.h"

namespace remora {

/// The flags about a configuration in etcd.
struct ClusterFlags {
  EtcdFlags etcd{};  // without endpoints: the server is no member
  KeeperOptions keeper{};
  std::vector<std::string> members{};
  std::uint32_t min_in_sync = 0;  // 0: more than half of the members; of two, one
  std::uint32_t failover_after_ms = 1000;
};

/// The flags about several servers on this host (shards_flags.h).
struct ShardsFlags {
  std::uint32_t count = 1;
  int number = -1;         // of the shard that this process is; negative: it is none of --shards
  std::string topology{};  // the file for clients
  std::string slots{};     // --slots; empty: none are given
  std::string hang_text = "60s";
  std::chrono::milliseconds hang_timeout{0};  // of these servers, and of the gate; 0: any time
};

/// The flags about the gate that the server starts (redis_gate.h).
struct GateFlags {
  std::vector<std::string> addresses{};  // --redis; empty: there is no gate
  std::string token_file{};              // --redis_token_file
  std::string cluster_nodes{};           // empty: the gate is no node of a Redis Cluster
  std::string cluster_announce{};
};

struct Flags {
  ServerOptions server;
  std::vector<rdma::Address> listen;
  std::size_t memory = 0;
  std::optional<std::uint32_t> max_clients;
  rdma::MemoryWindows memory_windows = rdma::MemoryWindows::kAuto;
  std::uint32_t tcp_threads = 1;
  int nice = 0;  // of the server thread; 0: the process's own
  rdma::LocalAccess local_access;
  rdma::TlsFiles tls{};
  std::vector<std::string> replicate_to{};
  std::string replication_token_file{};
  std::size_t replication_buffer = std::size_t{256} << 20;
  std::string lease_time = "1s";
  rdma::TlsFiles replication_tls{};
  ClusterFlags cluster{};
  ShardsFlags shards{};
  int ready_fd = -1;
  bool insecure_open = false;
  std::string http;  // empty: not served
  GateFlags gate{};
  bool insecure_http = false;
  std::vector<std::string> http_hosts{};  // names of the server beside that of `http`
  LogFormat log_format = LogFormat::kText;
  LogLevel log_level = LogLevel::kInfo;
  bool has_config_file = false;
  bool checks_config = false;  // the program ends then
  Settings settings{};         // of all flags
};

enum class FlagsFor : std::uint8_t {
  kStart,
  kReload,  // of a server that serves already: the call looks at no descriptor
};

/// Reads the command line, and the file that it names. Returns an exit status if the program is to end with
/// it; `report` got the reason, without the program's name.
std::optional<int> ParseFlags(int argc, char** argv, FlagsFor purpose, Flags* flags,
                              const std::function<void(const std::string& error)>& report);

/// Returns the format that the command line, or its file, asks for, also if there are faults elsewhere in
/// them. Text: they ask for none.
LogFormat AskedLogFormat(int argc, char** argv);

}  // namespace remora
