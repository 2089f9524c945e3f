// The nodes of a Redis Cluster of gates, and bad ones.
#include "tools/kvgate/cluster/redis_cluster.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/kvgate/cluster/redis_slot.h"
#include "tools/kvgate/network/listen.h"

namespace remora::kvgate {
namespace {

constexpr std::string_view kThree = "redis://b:1,redis://a:2,redis://a:1";

std::vector<ListenAddress> At(const std::vector<std::string>& addresses) {
  std::vector<ListenAddress> listen;
  for (const std::string& address : addresses) listen.push_back(*ParseListenAddress(address));
  return listen;
}

/// Returns HOST:PORT FIRST-LAST of each node, and a star behind the one of the gate.
std::string Show(const absl::StatusOr<RedisCluster>& cluster) {
  if (!cluster.ok()) return std::string(cluster.status().message());
  std::string shown;
  for (std::size_t i = 0; i < cluster->nodes().size(); ++i) {
    const ClusterNode& node = cluster->nodes()[i];
    shown += node.host + ":" + std::to_string(node.port) + " " + std::to_string(node.slots.first) + "-" +
             std::to_string(node.slots.last) + (i == cluster->own() ? "*\n" : "\n");
  }
  return shown;
}

std::string FaultOf(std::string_view nodes, std::string_view announced = {}) {
  const auto cluster =
      RedisCluster::Create(nodes, announced, At({"redis://a:1", "redis:///s", "redis://h:9"}));
  return cluster.ok() ? "none" : std::string(cluster.status().message());
}

TEST(RedisClusterTest, SlotsAreDividedEvenly) {
  EXPECT_EQ(Show(RedisCluster::Create("redis://a:1", "", At({"redis://a:1"}))), "a:1 0-16383*\n");
  EXPECT_EQ(Show(RedisCluster::Create(kThree, "", At({"redis://a:2"}))),
            "a:1 0-5460\na:2 5461-10921*\nb:1 10922-16383\n");
}

TEST(RedisClusterTest, TheOrderOfTheFlagDoesNotMatter) {
  EXPECT_EQ(Show(RedisCluster::Create("redis://a:1,redis://b:1,redis://a:2", "redis://b:1", {})),
            Show(RedisCluster::Create(kThree, "redis://b:1", {})));
}

TEST(RedisClusterTest, EachKeyIsOneNodesOwn) {
  std::vector<RedisCluster> gates;
  for (const char* const own : {"redis://a:1", "redis://a:2", "redis://b:1"}) {
    gates.push_back(*RedisCluster::Create(kThree, own, {}));
  }
  EXPECT_TRUE(gates[2].IsOwn("a"));            // 15495
  EXPECT_TRUE(gates[0].IsOwn("{hash_tag}a"));  // 2515
  for (int i = 0; i < 1000; ++i) {
    const std::string key = std::to_string(i);
    EXPECT_EQ(gates[0].IsOwn(key) + gates[1].IsOwn(key) + gates[2].IsOwn(key), 1) << key;
    EXPECT_TRUE(RedisCluster::Create("redis://a:1", "redis://a:1", {})->IsOwn(key));
  }
  for (std::uint64_t count = 0; count < 10; ++count) {
    EXPECT_EQ(gates[0].OwnPartOf(count) + gates[1].OwnPartOf(count) + gates[2].OwnPartOf(count), count);
    EXPECT_LE(gates[0].OwnPartOf(count) - gates[2].OwnPartOf(count), 1u);
  }
}

TEST(RedisClusterTest, EachGateKnowsANodeByTheSameId) {
  const auto one = RedisCluster::Create(kThree, "redis://a:1", {});
  const auto other = RedisCluster::Create("redis://B:1,redis://a:1", "redis://a:1", {});
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(one->nodes()[0].id, other->nodes()[0].id);
  EXPECT_EQ(one->nodes()[2].id, other->nodes()[1].id);
  EXPECT_NE(one->nodes()[0].id, one->nodes()[1].id);
  EXPECT_EQ(one->nodes()[0].id.size(), 40u);
  EXPECT_EQ(one->nodes()[0].id.find_first_not_of("0123456789abcdef"), std::string::npos);
}

TEST(RedisClusterTest, NamesAreToldFromAddresses) {
  const auto cluster =
      RedisCluster::Create("redis://10.0.0.1:1,redis://[2001:DB8:0::1]:1,redis://KV-1.example:1", "",
                           At({"redis://[2001:db8::1]:1"}));
  EXPECT_EQ(Show(cluster), "10.0.0.1:1 0-5460\n2001:db8::1:1 5461-10921*\nkv-1.example:1 10922-16383\n");
  EXPECT_FALSE(cluster->nodes()[0].has_name || cluster->nodes()[1].has_name);
  EXPECT_TRUE(cluster->nodes()[2].has_name);
  EXPECT_FALSE(cluster->has_tls());
}

TEST(RedisClusterTest, NodesWithTls) {
  const auto cluster =
      RedisCluster::Create("rediss://a:1,rediss://b:1", "", At({"redis://a:2", "rediss://a:1"}));
  ASSERT_TRUE(cluster.ok());
  EXPECT_TRUE(cluster->has_tls());
  EXPECT_NE(RedisCluster::Create("rediss://a:1", "", At({"redis://a:1"})).status().message().find("--listen"),
            std::string::npos);
}

TEST(RedisClusterTest, BadNodes) {
  for (const char* const node :
       {"", "a:1", "redis://a", "redis://a:0", "redis://a:65536", "redis:///path", "tcp://a:1",
        "redis://::1:1", "redis://[::1:1", "redis://:1", " redis://a:1"}) {
    const std::string fault =
        std::string("--cluster_nodes: '") + node + "' is no node; write redis://HOST:PORT";
    EXPECT_TRUE(FaultOf(node).starts_with(fault)) << FaultOf(node);
    EXPECT_TRUE(FaultOf(std::string("redis://a:1,") + node).starts_with(fault)) << FaultOf(node);
  }
  for (const char* const node : {"redis://0.0.0.0:1", "redis://[::]:1", "redis://[0:0::0]:1", "redis://a@b:1",
                                 "redis://a\x01:1", "redis://\xc3\xa4:1", "redis://[fe80::1%eth0]:1"}) {
    EXPECT_NE(FaultOf(node).find("names no host to which clients connect"), std::string::npos)
        << FaultOf(node);
  }
}

TEST(RedisClusterTest, NodesThatDoNotGoTogether) {
  EXPECT_EQ(FaultOf("redis://a:1,redis://b:1,redis://A:1"),
            "--cluster_nodes: 'redis://a:1' comes twice; name each gate once");
  EXPECT_EQ(FaultOf("redis://[::1]:1,redis://[0::1]:1"),
            "--cluster_nodes: 'redis://[::1]:1' comes twice; name each gate once");
  EXPECT_EQ(FaultOf("redis://a:1,rediss://a:1"),
            "--cluster_nodes: 'rediss://a:1' comes twice; name each gate once");
  EXPECT_EQ(
      FaultOf("redis://a:1,rediss://b:1"),
      "--cluster_nodes: 'rediss://b:1' and redis://a:1: one has TLS; give it to all or to none, as a client "
      "does");
}

TEST(RedisClusterTest, ThisGateIsOneOfThem) {
  EXPECT_TRUE(
      FaultOf("redis://b:1")
          .starts_with("--cluster_nodes: none of them is an address at which this gate listens (--listen, "));
  EXPECT_EQ(FaultOf("redis://a:1,redis://h:9"),
            "--cluster_nodes: 'redis://h:9' and redis://a:1 are this gate; name one of them");
  EXPECT_EQ(FaultOf("redis://b:1,redis://c:1", "redis://c:1"), "none");
  EXPECT_EQ(FaultOf("redis://a:1,redis://c:1", "redis://b:1"),
            "--cluster_announce: 'redis://b:1' is none of --cluster_nodes; add it there, in each gate");
  EXPECT_TRUE(
      FaultOf("redis://a:1", "rediss://a:1").starts_with("--cluster_announce: 'rediss://a:1' is none"));
  EXPECT_TRUE(FaultOf("redis://a:1", "nothing").starts_with("--cluster_announce: 'nothing' is no node"));
}

TEST(RedisClusterTest, ManyNodes) {
  std::string nodes = "redis://a:1";
  for (std::size_t i = 2; i <= RedisCluster::kMaxNodes; ++i) nodes += ",redis://a:" + std::to_string(i);
  const auto cluster = RedisCluster::Create(nodes, "redis://a:1", {});
  ASSERT_TRUE(cluster.ok());
  std::uint32_t next = 0;
  for (const ClusterNode& node : cluster->nodes()) {
    EXPECT_EQ(node.slots.first, next);
    EXPECT_LE(node.slots.first, node.slots.last);
    next = node.slots.last + 1;
  }
  EXPECT_EQ(next, kRedisSlots);
  EXPECT_EQ(FaultOf(nodes + ",redis://b:1"), "--cluster_nodes: 1001 nodes; a cluster has up to 1000");
}

}  // namespace
}  // namespace remora::kvgate
