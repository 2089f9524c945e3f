#include "tools/kvgate/flags.h"

#include <sysexits.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cluster/cluster_shard.h"
#include "client/cluster/topology.h"
#include "client/cluster/topology_source.h"
#include "client/session/credentials.h"
#include "rdma/address_list.h"
#include "store/base/status_macros.h"
#include "store/format/memory/layout.h"
#include "tools/command_line/command_line.h"
#include "tools/command_line/say.h"
#include "tools/kvgate/cluster/redis_cluster.h"
#include "tools/kvgate/network/listen.h"
#include "tools/kvgate/pubsub/event_flags.h"

namespace remora::kvgate {
namespace {

constexpr char kExitStatus[] =
    "Prints the line `ready` once it serves. Commands and their differences: docs/guide/redis.md.\n"
    "Exit status: 0 stopped by TERM or INT; 64 a bad flag or address, or a topology or a file of tokens or\n"
    "  for TLS that is missing or wrong; 69 the server cannot be reached, or a host does not exist; 71 too "
    "little\n"
    "  memory, or threads, or descriptors; 73 a socket cannot be made, or the server rejected the gate;\n"
    "  75 the port or socket is in use; 77 no permission there, or for the server.";

int FailToStart(const absl::Status& why) {
  command_line::SayError(absl::StrCat("kvgate: ", why.message()));
  return absl::IsPermissionDenied(why) ? EX_NOPERM : EX_USAGE;
}

/// Says why servers told no topology, and returns the exit status.
int FailToAsk(const absl::Status& why) {
  const int otherwise = FailToStart(why);
  if (absl::IsUnavailable(why) || absl::IsDeadlineExceeded(why)) return EX_UNAVAILABLE;
  return absl::IsFailedPrecondition(why) ? EX_CANTCREAT : otherwise;
}

/// Reads the tokens, and decides which addresses other machines may reach.
absl::Status TakeAccess(bool insecure_open, Flags* flags) {
  GateOptions& gate = flags->gate;
  bool has_tls = false;
  for (const ListenAddress& address : flags->listen) has_tls |= address.has_tls;
  if (has_tls && gate.tls.cert.empty()) {
    return absl::InvalidArgumentError(
        "--listen: a rediss:// address needs a certificate; add --listen_tls_cert and --listen_tls_key");
  }
  if (!has_tls && !gate.tls.empty()) {
    return absl::InvalidArgumentError(
        "--listen: --listen_tls_cert, --listen_tls_key and --listen_tls_ca are for a rediss:// address, and "
        "no --listen has one");
  }
  if (!gate.tokens_file.empty()) {
    REMORA_ASSIGN_OR_RETURN(gate.users, Users::Read(gate.tokens_file));
  }
  if (gate.users.are_required() || !gate.tls.ca.empty()) flags->reach = Reach::kWithTls;
  if (insecure_open) flags->reach = Reach::kAll;
  return absl::OkStatus();
}

/// Adds the flags that decide which clients the gate serves.
void AddClientAccessFlags(GateOptions* gate, bool* insecure_open, command_line::CommandLine* line) {
  line->AddFlag(
      "--insecure_open", *insecure_open,
      "Let --listen name an address that other machines reach: all of them may read and change everything");
  line->Add("--tokens", gate->tokens_file,
            "Serve only clients that show one of these tokens by AUTH or HELLO: a file of lines NAME ROLE "
            "SECRET, as "
            "`kvctl create_token` makes them")
      .TypeName("FILE");
  line->Add("--listen_tls_cert", gate->tls.cert,
            "For rediss://, the gate's certificate, and behind it those between it and the authority (PEM)")
      .TypeName("FILE");
  line->Add("--listen_tls_key", gate->tls.key,
            "The key of --listen_tls_cert (PEM), in a file that others cannot read")
      .TypeName("FILE");
  line->Add("--listen_tls_ca", gate->tls.ca,
            "For rediss://, serve only clients with a certificate of one of these authorities (PEM)")
      .TypeName("FILE");
}

/// Adds the flags by which the gate and the server prove to each other what they are.
void AddServerAccessFlags(std::string* token_file, rdma::TlsFiles* tls, command_line::CommandLine* line) {
  line->Add("--token_file", *token_file,
            "Auth token, as `kvctl create_token` printed it, for a server that requires one")
      .Environment("REMORA_TOKEN_FILE")
      .TypeName("FILE");
  line->Add(
          "--tls_ca", tls->ca,
          "Over tls://, certificates of the authorities that sign the server's; without, the token has to do")
      .Environment("REMORA_TLS_CA")
      .TypeName("FILE");
  line->Add("--tls_cert", tls->cert, "The gate's certificate, for a server that asks for one")
      .Environment("REMORA_TLS_CERT")
      .TypeName("FILE");
  line->Add("--tls_key", tls->key, "The key of --tls_cert").Environment("REMORA_TLS_KEY").TypeName("FILE");
}

/// Takes the topology of the server, or of the servers in a file. That of cluster:// comes later.
absl::Status TakeServers(const std::string& topology_file, bool has_server_flag, GateOptions* gate) {
  if (topology_file.empty() && gate->server.empty()) {
    return absl::InvalidArgumentError(
        "name the server: --server=ADDRESS; or the servers of a cluster: --topology=FILE");
  }
  if (topology_file.empty()) {
    REMORA_ASSIGN_OR_RETURN(gate->topology, Topology::OfServer(gate->server));
    return absl::OkStatus();
  }
  if (has_server_flag) {
    return absl::InvalidArgumentError("--server: --topology names the servers already; leave one out");
  }
  gate->server = topology_file;
  if (IsOfServers(topology_file)) return SeedsOf(topology_file).status();
  REMORA_ASSIGN_OR_RETURN(gate->topology, Topology::Read(topology_file));
  return absl::OkStatus();
}

/// Asks the servers of cluster:// for their topology, if it is not a file's.
absl::Status AskServers(GateOptions* gate) {
  if (gate->topology) return absl::OkStatus();
  REMORA_ASSIGN_OR_RETURN(gate->topology, ReadTopology(gate->server, gate->client, DefaultClock()));
  return absl::OkStatus();
}

absl::Status TakeToken(const std::string& file, ClientOptions* client) {
  if (file.empty()) return absl::OkStatus();
  REMORA_ASSIGN_OR_RETURN(client->token, ReadTokenFile(file));
  return absl::OkStatus();
}

/// Takes the nodes of the Redis Cluster; without any, the gate is in none.
absl::Status TakeCluster(const std::string& nodes, const std::string& announced, Flags* flags) {
  if (nodes.empty()) return absl::OkStatus();
  REMORA_ASSIGN_OR_RETURN(flags->gate.cluster, RedisCluster::Create(nodes, announced, flags->listen));
  return absl::OkStatus();
}

/// Adds the flags by which the gate is a node of a Redis Cluster.
void AddClusterFlags(std::string* nodes, std::string* announced, command_line::CommandLine* line) {
  const command_line::Option cluster =
      line->Add(
              "--cluster_nodes", *nodes,
              "Be a node of a Redis Cluster, whose nodes are gates: the addresses of all of them as clients "
              "reach them, redis://HOST:PORT or rediss://HOST:PORT, with commas between")
          .TypeName("ADDRESSES");
  line->Add("--cluster_announce", *announced,
            "The one of --cluster_nodes that leads to this gate, where it is none of --listen")
      .Needs(cluster)
      .TypeName("ADDRESS");
}

void AddNotifyFlag(std::string* notify, command_line::CommandLine* line) {
  line->Add("--notify_keyspace_events", *notify,
            "Keyspace notifications from the start on: letters, as CONFIG SET notify-keyspace-events takes "
            "them")
      .Check([](const std::string& text) {
        return EventFlags::Parse(text) ? std::string() : std::string(kUnknownEventClass);
      })
      .TypeName("LETTERS");
}

bool IsOverTls(const Topology& topology) { return std::ranges::any_of(topology.shards(), HasTls); }

}  // namespace

std::optional<int> ParseFlags(int argc, char** argv, Flags* flags) {
  command_line::CommandLine line("Lets programs that speak to Redis use a Remora server.", "kvgate");
  flags->gate.version = REMORA_VERSION;
  line.Version(absl::StrFormat("kvgate %s, format %d", REMORA_VERSION, kFormatVersion));
  line.Footer(kExitStatus);
  std::string token_file;
  std::string topology_file;
  bool insecure_open = false;
  int timeout_ms = 5000;
  std::uint64_t max_clients = flags->gate.max_clients;
  rdma::TlsFiles& tls = flags->gate.client.tls;
  line.Add("--listen", flags->gate.listen,
           "Address for clients of Redis: redis://HOST:PORT, redis:///PATH or, with TLS, rediss://HOST:PORT; "
           "may be "
           "repeated")
      .Required()
      .Check([](const std::string& text) { return std::string(ParseListenAddress(text).status().message()); })
      .TypeName("ADDRESS");
  line.Add("--server", flags->gate.server,
           "The Remora server: verbs://HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT or local:///PATH; or "
           "several "
           "of them, with commas between, of which the first that serves is taken")
      .Environment("REMORA_SERVER")
      .Check(
          [](const std::string& text) { return std::string(rdma::ParseAddresses(text).status().message()); })
      .TypeName("ADDRESS");
  line.Add("--topology", topology_file,
           "In place of --server: the servers of a cluster, which share the keys, by the file that "
           "kvserver --shards writes; or cluster://HOST:PORT,... with some members of shards that fail over")
      .TypeName("FILE");
  line.Add("--threads", flags->gate.threads,
           "Threads, each with its share of the clients, and a connection to each server")
      .Range(1, 64)
      .ShowDefault();
  line.Add("--max_clients", max_clients,
           "Clients that are connected at once; CONFIG SET maxclients changes it")
      .Range(std::uint64_t{1}, std::uint64_t{1'000'000})
      .ShowDefault();
  line.Add("--timeout", timeout_ms, "For connecting to the server, and for each operation, in milliseconds")
      .Range(1, 3'600'000)
      .ShowDefault();
  std::string notify;
  AddNotifyFlag(&notify, &line);
  std::string cluster_nodes;
  std::string cluster_announce;
  AddClusterFlags(&cluster_nodes, &cluster_announce, &line);
  AddClientAccessFlags(&flags->gate, &insecure_open, &line);
  AddServerAccessFlags(&token_file, &tls, &line);

  if (const std::optional<int> exit_status = line.Parse(argc, argv)) return exit_status;
  const bool has_tls_flag = line.Has("--tls_ca") || line.Has("--tls_cert") || line.Has("--tls_key");
  for (const std::string& text : flags->gate.listen) flags->listen.push_back(*ParseListenAddress(text));
  if (const absl::Status access = TakeAccess(insecure_open, flags); !access.ok()) return FailToStart(access);
  if (const absl::Status taken = TakeServers(topology_file, line.Has("--server"), &flags->gate);
      !taken.ok()) {
    return FailToStart(taken);
  }
  if (const absl::Status taken = TakeCluster(cluster_nodes, cluster_announce, flags); !taken.ok()) {
    return FailToStart(taken);
  }
  flags->gate.notify = *EventFlags::Parse(notify);
  flags->gate.max_clients = static_cast<std::size_t>(max_clients);
  flags->gate.client.timeout = std::chrono::milliseconds(timeout_ms);
  flags->gate.client.connect_timeout = flags->gate.client.timeout;
  if (const absl::Status token = TakeToken(token_file, &flags->gate.client); !token.ok()) {
    return FailToStart(token);
  }
  if (const absl::Status told = AskServers(&flags->gate); !told.ok()) return FailToAsk(told);
  // The environment is for all addresses, and some of them have no TLS.
  if (!has_tls_flag && !IsOverTls(*flags->gate.topology)) tls = {};
  return std::nullopt;
}

}  // namespace remora::kvgate
