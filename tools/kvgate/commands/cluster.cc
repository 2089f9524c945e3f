// Commands of a Redis Cluster. The replies have Redis' own forms. The nodes have neither links to each other
// nor replicas, so the cluster is always as the command line of the gate says.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "store/base/absl_view.h"
#include "tools/kvgate/cluster/redis_cluster.h"
#include "tools/kvgate/cluster/redis_slot.h"
#include "tools/kvgate/command_table.h"
#include "tools/kvgate/commands/groups.h"
#include "tools/kvgate/commands/help.h"
#include "tools/kvgate/commands/subcommands.h"

namespace remora::kvgate {
namespace {

constexpr std::string_view kDisabled = "ERR This instance has cluster support disabled";

/// Returns the cluster. REQUIRES: the gate has one, as RunCluster has made sure.
const RedisCluster& ClusterOf(const Call& call) { return *call.services.gate.options.cluster; }

/// Returns the epoch of a node's part of the slots: each has another one, as in Redis.
std::size_t EpochOf(std::size_t index) { return index + 1; }

void ClusterInfo(Call& call) {
  const RedisCluster& cluster = ClusterOf(call);
  const std::size_t nodes = cluster.nodes().size();
  call.reply.Verbatim(absl::StrCat(
      "cluster_state:ok\r\ncluster_slots_assigned:", kRedisSlots, "\r\ncluster_slots_ok:", kRedisSlots,
      "\r\ncluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:", nodes,
      "\r\ncluster_size:", nodes, "\r\ncluster_current_epoch:", EpochOf(nodes - 1),
      "\r\ncluster_my_epoch:", EpochOf(cluster.own()),
      "\r\ncluster_stats_messages_sent:0\r\ncluster_stats_messages_received:0"
      "\r\ntotal_cluster_links_buffer_limit_exceeded:0\r\n"));
}

void ClusterKeySlot(Call& call) { call.reply.Integer(RedisSlotOf(call.argument(2))); }

void ClusterLinks(Call& call) { call.reply.Array(0); }

void ClusterMyId(Call& call) { call.reply.Bulk(ClusterOf(call).nodes()[ClusterOf(call).own()].id); }

void ClusterNodes(Call& call) {
  const RedisCluster& cluster = ClusterOf(call);
  std::string text;
  for (std::size_t i = 0; i < cluster.nodes().size(); ++i) {
    const ClusterNode& node = cluster.nodes()[i];
    // The port of the bus between nodes is 0, as there is none. A name stands in the place of the IP address,
    // too: some clients know no other.
    absl::StrAppend(&text, node.id, " ", node.host, ":", node.port, "@0", node.has_name ? "," : "",
                    node.has_name ? node.host : "", i == cluster.own() ? " myself,master" : " master",
                    " - 0 0 ", EpochOf(i), " connected ", node.slots.first);
    if (node.slots.last != node.slots.first) absl::StrAppend(&text, "-", node.slots.last);
    text += "\n";
  }
  call.reply.Verbatim(text);
}

void ClusterReplicas(Call& call) {
  const std::string_view id = call.argument(2);
  const bool exists =
      std::ranges::any_of(ClusterOf(call).nodes(), [id](const ClusterNode& node) { return node.id == id; });
  exists ? call.reply.Array(0) : call.reply.Error(absl::StrCat("ERR Unknown node ", AbslView(id)));
}

void AddField(Reply& reply, std::string_view name, std::string_view value) {
  reply.Bulk(name);
  reply.Bulk(value);
}

void ClusterShards(Call& call) {
  const RedisCluster& cluster = ClusterOf(call);
  Reply& reply = call.reply;
  reply.Array(cluster.nodes().size());
  for (const ClusterNode& node : cluster.nodes()) {
    reply.Map(2);
    reply.Bulk("slots");
    reply.Array(2);
    reply.Integer(node.slots.first);
    reply.Integer(node.slots.last);
    reply.Bulk("nodes");
    reply.Array(1);
    reply.Map(node.has_name ? 8 : 7);
    AddField(reply, "id", node.id);
    reply.Bulk(cluster.has_tls() ? "tls-port" : "port");
    reply.Integer(node.port);
    AddField(reply, "ip", node.host);
    AddField(reply, "endpoint", node.host);
    if (node.has_name) AddField(reply, "hostname", node.host);
    AddField(reply, "role", "master");
    reply.Bulk("replication-offset");
    reply.Integer(0);
    AddField(reply, "health", "online");
  }
}

void ClusterSlots(Call& call) {
  const RedisCluster& cluster = ClusterOf(call);
  Reply& reply = call.reply;
  reply.Array(cluster.nodes().size());
  for (const ClusterNode& node : cluster.nodes()) {
    reply.Array(3);
    reply.Integer(node.slots.first);
    reply.Integer(node.slots.last);
    reply.Array(4);
    reply.Bulk(node.host);
    reply.Integer(node.port);
    reply.Bulk(node.id);
    reply.Map(0);  // further addresses
  }
}

void RunCluster(Call& call) {
  constexpr Subcommand kSubcommands[] = {
      {"help", 2, [](Call& of) { RepliedHelp(of); }},
      {"info", 2, ClusterInfo},
      {"keyslot", 3, ClusterKeySlot},
      {"links", 2, ClusterLinks},
      {"myid", 2, ClusterMyId},
      {"nodes", 2, ClusterNodes},
      {"replicas", 3, ClusterReplicas},
      {"shards", 2, ClusterShards},
      {"slaves", 3, ClusterReplicas},
      {"slots", 2, ClusterSlots},
  };
  const Subcommand* const found = FindSubcommand(call, kSubcommands);
  if (found == nullptr) return;
  call.services.gate.options.cluster ? found->run(call) : call.reply.Error(kDisabled);
}

/// Any gate reads and writes any key, without these words, too.
void AcceptAccess(Call& call) {
  call.services.gate.options.cluster ? call.reply.Ok() : call.reply.Error(kDisabled);
}

constexpr Command kClusterCommands[] = {
    {"asking", 1, Order::kLocal, kFlagFast, 0, 0, 0, "cluster", "Does nothing: any node serves any key",
     AcceptAccess, nullptr},
    {"cluster", -2, Order::kLocal, 0, 0, 0, 0, "cluster", "Describes the nodes of a cluster", RunCluster,
     nullptr},
    {"readonly", 1, Order::kLocal, kAlwaysFlags | kFlagFast, 0, 0, 0, "cluster",
     "Does nothing: any node serves any key", AcceptAccess, nullptr},
    {"readwrite", 1, Order::kLocal, kAlwaysFlags | kFlagFast, 0, 0, 0, "cluster",
     "Does nothing: any node serves any key", AcceptAccess, nullptr},
};

}  // namespace

std::span<const Command> ClusterCommands() { return kClusterCommands; }

}  // namespace remora::kvgate
