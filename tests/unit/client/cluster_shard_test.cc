// The options of the clients of a cluster's shards.
#include "client/cluster/cluster_shard.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "client/cluster/topology.h"
#include "client/options.h"

namespace remora {
namespace {

/// Returns whether the client of each shard gets the files for TLS.
std::vector<bool> GetTls(const std::vector<std::string>& servers) {
  const Topology topology = *Topology::Even(servers, 7);
  std::vector<bool> get;
  for (std::size_t i = 0; i < servers.size(); ++i) {
    const ClientOptions options =
        OptionsOfShard(topology, i, {.tls = {.ca = "ca.crt", .cert = "", .key = ""}});
    EXPECT_EQ(options.expected_shard, topology.IdentityOfShard(i));
    get.push_back(!options.tls.empty());
  }
  return get;
}

TEST(OptionsOfShardTest, TheFilesForTlsAreForShardsThatHaveIt) {
  EXPECT_EQ(GetTls({"tls://kv:1", "local:///a", "tcp://kv:2,tls://kv:3"}),
            (std::vector<bool>{true, false, true}));
  // With none at all they are a mistake, which the client reports.
  EXPECT_EQ(GetTls({"tcp://kv:1", "local:///a"}), (std::vector<bool>{true, true}));
}

}  // namespace
}  // namespace remora
