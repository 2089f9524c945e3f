#include "server/main/redis_gate.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rdma/address.h"
#include "server/main/listen_checks.h"
#include "store/base/absl_view.h"
#include "store/base/status_macros.h"
#include "tools/kvgate/cluster/redis_cluster.h"
#include "tools/kvgate/network/listen.h"

namespace remora {

absl::StatusOr<std::string> FindGate() {
  REMORA_ASSIGN_OR_RETURN(std::string path, ThisProgram());
  path.resize(path.rfind('/') + 1);
  path += "kvgate";
  if (::access(path.c_str(), X_OK) == 0) return path;
  return absl::NotFoundError(
      absl::StrCat("--redis: ", path, ": ", std::strerror(errno), "; install kvgate beside kvserver"));
}

void AddGateFlags(command_line::CommandLine& line, GateFlags* gate) {
  const command_line::Option redis =
      line.Add("--redis", gate->addresses,
               "Start a kvgate beside this server, and end it with it: it takes programs that speak to "
               "Redis, at redis://HOST:PORT or redis:///PATH; may be repeated. It reaches the server by a "
               "local address of --listen")
          .TypeName("ADDRESS");
  line.Add("--redis_token_file", gate->token_file,
           "With --tokens: the auth token with which the gate of --redis is a client")
      .TypeName("FILE")
      .Needs(redis);
  const command_line::Option nodes =
      line.Add("--cluster_nodes", gate->cluster_nodes,
               "Have the gate of --redis be a node of a Redis Cluster, whose nodes are gates: the addresses "
               "of all of them as clients reach them, with commas between, as for kvgate")
          .TypeName("ADDRESSES")
          .Needs(redis);
  line.Add("--cluster_announce", gate->cluster_announce,
           "The one of --cluster_nodes that leads to the gate of --redis, where it is none of its addresses")
      .TypeName("ADDRESS")
      .Needs(nodes);
}

namespace {

/// Returns OK if the address is redis://HOST:PORT or redis:///PATH, and other machines do not reach it, or
/// may (`is_open`). Else InvalidArgument, which says what to do.
absl::Status CheckGateAddress(std::string_view address, bool is_open) {
  constexpr std::string_view kScheme = "redis://";
  constexpr absl::string_view kForms =
      "an address of the gate is redis://HOST:PORT, redis://[IPV6]:PORT or redis:///PATH";
  if (!address.starts_with(kScheme)) return absl::InvalidArgumentError(kForms);
  const std::string_view rest = address.substr(kScheme.size());
  const auto parsed =
      rdma::ParseAddress(absl::StrCat(rest.starts_with('/') ? "local://" : "tcp://", AbslView(rest)));
  if (!parsed.ok()) return absl::InvalidArgumentError(kForms);
  if (is_open || IsLoopback(*parsed)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("other machines reach ", AbslView(address),
                   ", and could read and change everything: name 127.0.0.1, ::1 or a Unix socket or, where "
                   "the network lets nobody else through, add --insecure_open"));
}

/// Checks --cluster_nodes as the gate does, so that a start fails before anything is made.
absl::Status CheckNodes(const GateFlags& gate) {
  if (gate.cluster_nodes.empty()) return absl::OkStatus();
  std::vector<kvgate::ListenAddress> listen;
  for (const std::string& address : gate.addresses) {
    REMORA_ASSIGN_OR_RETURN(listen.emplace_back(), kvgate::ParseListenAddress(address));
  }
  return kvgate::RedisCluster::Create(gate.cluster_nodes, gate.cluster_announce, listen).status();
}

}  // namespace

absl::Status CheckGateFlags(const Flags& flags) {
  const GateFlags& gate = flags.gate;
  for (const std::string& address : gate.addresses) {
    const absl::Status usable = CheckGateAddress(address, flags.insecure_open);
    if (!usable.ok())
      return absl::InvalidArgumentError(absl::StrCat("--redis=", address, ": ", usable.message()));
  }
  if (gate.addresses.empty()) return absl::OkStatus();
  REMORA_RETURN_IF_ERROR(CheckNodes(gate));
  if (flags.server.tokens_file.empty() && !gate.token_file.empty()) {
    return absl::InvalidArgumentError(
        "--redis_token_file: the server has no tokens; leave it out, or name their file with --tokens=FILE");
  }
  const bool has_local = std::ranges::any_of(
      flags.listen, [](const rdma::Address& address) { return address.kind == rdma::TransportKind::kLocal; });
  if (!has_local) {
    return absl::InvalidArgumentError(
        "--redis: the gate reaches this server by a local address; add --listen=local:///PATH");
  }
  if (flags.server.tokens_file.empty() || flags.insecure_open || !gate.token_file.empty()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "--redis with --tokens: the gate needs a token, too; name the file of one with "
      "--redis_token_file=FILE");
}

std::string GatesServer(const Flags& flags) {
  const auto local = std::ranges::find(flags.listen, rdma::TransportKind::kLocal, &rdma::Address::kind);
  return local == flags.listen.end() ? "" : absl::StrCat("--server=", local->ToString());
}

ChildProgramOptions GateProgram(const Flags& flags, std::string path, std::string servers) {
  const GateFlags& gate = flags.gate;
  std::vector<std::string> arguments = {std::move(servers)};
  for (const std::string& address : gate.addresses) arguments.push_back("--listen=" + address);
  if (flags.insecure_open) arguments.emplace_back("--insecure_open");
  if (!gate.token_file.empty()) arguments.push_back("--token_file=" + gate.token_file);
  if (!gate.cluster_nodes.empty()) arguments.push_back("--cluster_nodes=" + gate.cluster_nodes);
  if (!gate.cluster_announce.empty()) arguments.push_back("--cluster_announce=" + gate.cluster_announce);
  return {.name = "the gate of --redis",
          .program = std::move(path),
          .arguments = std::move(arguments),
          .log = {},
          .hung_event = LogEvent::kGateHung,
          .hang_timeout = flags.shards.hang_timeout,
          .on_ready = {},
          .on_failure = {}};
}

}  // namespace remora
