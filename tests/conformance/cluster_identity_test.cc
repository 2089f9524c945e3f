// A client of a cluster uses no server but the shard's own (store/format/cluster/shard_identity.h, N1 to N3).
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "client/cluster/cluster_client.h"
#include "store/store.h"
#include "tests/conformance/cluster_fixture.h"

namespace remora {
namespace {

using testing::HasSubstr;

class ClusterIdentity : public Clusters {
 protected:
  static constexpr std::uint64_t kOtherCluster = 0x60303ae22b998861;

  std::string TextOfAddress(std::size_t server) const { return addresses_[server].ToString(); }
  static Topology Even(const std::vector<std::string>& addresses, std::uint64_t cluster) {
    absl::StatusOr<Topology> topology = Topology::Even(addresses, cluster);
    EXPECT_TRUE(topology.ok()) << topology.status();
    return *std::move(topology);
  }
  /// The topology with the addresses of its two servers exchanged.
  Topology Swapped(std::uint64_t cluster) const {
    return Even({TextOfAddress(1), TextOfAddress(0)}, cluster);
  }
  std::string FaultOf(const Topology& topology, const ClientOptions& options = {}) {
    const absl::Status status = ClusterClient::Connect(topology, options, clock_).status();
    EXPECT_CODE(kFailedPrecondition, status);
    return std::string(status.message());
  }
  /// Starts another server at the address of a shard, without the shard's data.
  void Replace(std::size_t shard, const ShardIdentity& identity) {
    StopServer(shard);
    was_ = std::exchange(options_[shard].store.shard, identity);
    data_dir_ = options_[shard].store.data_dir;
    options_[shard].store.data_dir += "-other" + std::to_string(++others_);
    StartServer(shard);
  }
  /// Starts the shard's own server again.
  void PutBack(std::size_t shard) {
    StopServer(shard);
    options_[shard].store.shard = was_;
    options_[shard].store.data_dir = data_dir_;
    StartServer(shard);
  }
  std::uint64_t KeysOf(std::size_t server) {
    auto client = Client::Connect(TextOfAddress(server), {}, clock_);
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? (*client)->Count().value_or(99) : 99;
  }

  ShardIdentity was_;
  std::string data_dir_;
  int others_ = 0;
};

INSTANTIATE_TEST_SUITE_P(On, ClusterIdentity,
                         testing::Values(rdma::TransportKind::kLocal, rdma::TransportKind::kTcp),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(ClusterIdentity, ExchangedAddressesAreRejected) {
  ASSERT_NO_FATAL_FAILURE(StartServers(2));
  const std::string fault = FaultOf(Swapped(cluster_));
  EXPECT_THAT(fault, HasSubstr("shard 0 (" + TextOfAddress(1) + "): "));
  EXPECT_THAT(fault, HasSubstr("the server there is shard 1 of cluster 9f86d081884c7d65"));
  EXPECT_THAT(fault, HasSubstr("shard 0 of cluster 9f86d081884c7d65 is expected"));
  EXPECT_NE(NewClient(), nullptr);
}

TEST_P(ClusterIdentity, AServerOfAnotherClusterIsRejected) {
  ASSERT_NO_FATAL_FAILURE(StartServers(2));
  const std::string fault = FaultOf(Even({TextOfAddress(0), TextOfAddress(1)}, kOtherCluster));
  EXPECT_THAT(fault, HasSubstr("the server there is shard 0 of cluster 9f86d081884c7d65"));
  EXPECT_THAT(fault, HasSubstr("shard 0 of cluster 60303ae22b998861 is expected"));
}

TEST_P(ClusterIdentity, AServerThatSaysNoShardIsRejected) {
  ASSERT_NO_FATAL_FAILURE(StartServers(2));
  Replace(1, {});
  const std::string fault = FaultOf(TopologyOfServers());
  EXPECT_THAT(fault, HasSubstr("shard 1 (" + TextOfAddress(1) +
                               "): connect: the server there does not say which shard"));
  EXPECT_THAT(fault, HasSubstr("--shard=9f86d081884c7d65/1"));
}

TEST_P(ClusterIdentity, ATopologyWithoutAClusterComparesTheNamesOfServersThatHaveOne) {
  ASSERT_NO_FATAL_FAILURE(StartServers(2));
  EXPECT_THAT(FaultOf(Swapped(0)), HasSubstr("the server there is shard 1"));
  const Topology older = Even({TextOfAddress(0), TextOfAddress(1)}, 0);
  EXPECT_CODE(kOk, ClusterClient::Connect(older, {}, clock_).status());
  Replace(1, {});
  EXPECT_CODE(kOk,
              ClusterClient::Connect(Even({TextOfAddress(0), TextOfAddress(1)}, 0), {}, clock_).status());
}

TEST_P(ClusterIdentity, AClientOfOneServerTakesAShard) {
  ASSERT_NO_FATAL_FAILURE(StartServers(2));
  for (std::size_t server = 0; server < 2; ++server) EXPECT_EQ(KeysOf(server), 0u);
  const ClientOptions first{.expected_shard = IdentityOf(cluster_, "0")};
  EXPECT_CODE(kOk, Client::Connect(TextOfAddress(0), first, clock_).status());
  EXPECT_CODE(kFailedPrecondition, Client::Connect(TextOfAddress(1), first, clock_).status());
  // Of several addresses, the client takes that of the shard.
  const auto client = Client::Connect(TextOfAddress(1) + "," + TextOfAddress(0), first, clock_);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_THAT((*client)->description(),
              HasSubstr("not " + TextOfAddress(1) + ": connect: the server there is shard 1"));
}

TEST_P(ClusterIdentity, AnotherServerAtTheAddressIsRejectedAfterAReconnection) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(2));
  const std::string here = KeyOf(0), there = KeyOf(1);
  const std::vector<std::string_view> keys = {here, there};
  const std::vector<PutRequest> requests = {{here, "value", {}}, {there, "value", {}}};
  std::vector<GetResult> gets(2);
  std::vector<PutResult> puts(2);
  ASSERT_CODE(kOk, kv_->MultiPut(requests, puts));
  ASSERT_CODE(kOk, kv_->MultiGet(keys, gets));
  for (const ShardIdentity& other :
       {IdentityOf(cluster_, "0"), IdentityOf(kOtherCluster, "1"), ShardIdentity{}}) {
    ASSERT_NO_FATAL_FAILURE(Replace(1, other));
    for (int again = 0; again < 2; ++again) {
      const absl::Status got = kv_->Get(there).status();
      EXPECT_CODE(kFailedPrecondition, got);
      EXPECT_THAT(std::string(got.message()),
                  HasSubstr("shard 1 (" + TextOfAddress(1) + "): connect: the server there"));
      EXPECT_CODE(kFailedPrecondition, kv_->Put(there, "lost"));
      EXPECT_CODE(kFailedPrecondition, kv_->DeleteAll().status());
      EXPECT_CODE(kOk, kv_->Put(here, "value"));
      static_cast<void>(kv_->MultiPut(requests, puts));
      EXPECT_CODE(kOk, puts[0].status);
      EXPECT_FALSE(puts[1].status.ok());
      static_cast<void>(kv_->MultiGet(keys, gets));
      EXPECT_CODE(kOk, gets[0].status);
      EXPECT_CODE(kFailedPrecondition, gets[1].status);
    }
    EXPECT_EQ(KeysOf(1), 0u);
    ASSERT_NO_FATAL_FAILURE(PutBack(1));
    EXPECT_EQ(kv_->Get(there).value_or("none"), "value");
    ASSERT_CODE(kOk, kv_->MultiPut(requests, puts));
    EXPECT_CODE(kOk, puts[1].status);
  }
}

TEST_P(ClusterIdentity, TheServersProofCoversIt) {
  const std::string file = directory_.path() + "/tokens",
                    token = "writer read-write 000102030405060708090a0b0c0d0e0f";
  std::ofstream(file) << token << "\n";
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  ASSERT_NO_FATAL_FAILURE(StartServers(2));
  for (std::size_t shard = 0; shard < 2; ++shard) {
    StopServer(shard);
    options_[shard].tokens_file = file;
    ASSERT_NO_FATAL_FAILURE(StartServer(shard));
  }
  const auto client = ClusterClient::Connect(TopologyOfServers(), {.token = token}, clock_);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_CODE(kOk, (*client)->Put("key", "value"));
  EXPECT_THAT(FaultOf(Swapped(cluster_), {.token = token}), HasSubstr("the server there is shard 1"));
  EXPECT_CODE(kPermissionDenied, ClusterClient::Connect(TopologyOfServers(), {}, clock_).status());
  // A client of one server does not ask for the shard, as one of an earlier build.
  EXPECT_CODE(kOk, Client::Connect(TextOfAddress(0), {.token = token}, clock_).status());
}

/// A data directory that servers and programs open.
class ShardOfData : public testing::Test {
 protected:
  static constexpr std::uint64_t kCluster = 0x9f86d081884c7d65;

  absl::Status Open(const ShardIdentity& shard, const std::string& name = "data") const {
    StoreOptions options;
    options.memory_size = kMinMemorySize;
    options.durability = Durability::kLogged;
    options.data_dir = directory_.path() + "/" + name;
    options.shard = shard;
    return Store::Open(options).status();
  }
  std::string file(const std::string& name = "data") const {
    return directory_.path() + "/" + name + "/REMORA-SHARD";
  }
  std::string Kept() const {
    std::ostringstream text;
    text << std::ifstream(file()).rdbuf();
    return text.str();
  }

  TempDir directory_;
  const ShardIdentity first_ = IdentityOf(kCluster, "0"), second_ = IdentityOf(kCluster, "1"),
                      elsewhere_ = IdentityOf(kCluster + 1, "0");
};

TEST_F(ShardOfData, IsKeptAndNoOtherOpens) {
  ASSERT_CODE(kOk, Open(first_));
  EXPECT_EQ(Kept(), "9f86d081884c7d65/0\n");
  EXPECT_CODE(kOk, Open(first_));
  for (const ShardIdentity& other : {second_, elsewhere_}) {
    const absl::Status status = Open(other);
    EXPECT_CODE(kFailedPrecondition, status);
    EXPECT_THAT(std::string(status.message()), HasSubstr("has the data of shard 9f86d081884c7d65/0"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("to be shard " + IdentityText(other)));
    EXPECT_EQ(Kept(), "9f86d081884c7d65/0\n");
  }
  EXPECT_CODE(kOk, Open({})) << "a program that is no shard";
  EXPECT_CODE(kFailedPrecondition, Open(second_)) << "and keeps what is kept";
}

TEST_F(ShardOfData, IsTakenByDataThatHaveNone) {
  ASSERT_CODE(kOk, Open({}));
  EXPECT_FALSE(std::filesystem::exists(file()));
  ASSERT_CODE(kOk, Open(second_));
  EXPECT_CODE(kFailedPrecondition, Open(first_));
}

TEST_F(ShardOfData, DamagedOpensForNoShard) {
  ASSERT_CODE(kOk, Open(first_));
  for (const std::string text :
       {"", "\n", "9f86d081884c7d65/0", "9f86d081884c7d65/0\n\n", "9f86d081884c7d65\n"}) {
    std::ofstream(file(), std::ios::trunc) << text;
    const absl::Status status = Open(first_);
    EXPECT_CODE(kFailedPrecondition, status);
    EXPECT_THAT(std::string(status.message()), HasSubstr("REMORA-SHARD is damaged")) << text;
  }
  std::ofstream(file(), std::ios::trunc) << "9f86d081884c7d65/0\n";
  EXPECT_CODE(kOk, Open(first_));
}

TEST_F(ShardOfData, IsNotTakenByADirectoryThatFailsToOpen) {
  ASSERT_TRUE(std::filesystem::create_directory(directory_.path() + "/other"));
  std::ofstream(directory_.path() + "/other/precious") << "bytes";
  EXPECT_CODE(kFailedPrecondition, Open(first_, "other"));
  EXPECT_FALSE(std::filesystem::exists(file("other")));
}

}  // namespace
}  // namespace remora
