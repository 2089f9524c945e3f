// A cluster of real servers, each in a thread, and a client of it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/cluster/cluster_client.h"
#include "rdma/unique_fd.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/support/loopback.h"
#include "tests/support/server_thread.h"

namespace remora {

/// Each test runs over a transport that maps memory, and over one with messages alone.
class Clusters : public testing::TestWithParam<rdma::TransportKind> {
 protected:
  /// Starts a server for each shard, with an equal part of the slots. `durability`: of its store.
  void StartServers(std::size_t count, Durability durability = Durability::kLogged) {
    for (std::size_t i = 0; i < count; ++i) {
      ServerOptions& options = options_.emplace_back();
      options.store.memory_size = std::size_t{16} << 20;
      options.store.durability = durability;
      if (cluster_ != 0) options.store.shard = IdentityOf(cluster_, std::to_string(i));
      if (durability != Durability::kMemory) {
        options.store.data_dir = directory_.path() + "/data" + std::to_string(i);
      }
      addresses_.push_back(FreshAddress(GetParam(), directory_.path()));
      servers_.emplace_back();
      StartServer(i);
    }
  }
  /// Starts the server of a shard, on the data that it had.
  void StartServer(std::size_t shard) {
    held_ports_.erase(addresses_[shard].port);
    auto server = ServerThread::Start(options_[shard], addresses_[shard]);
    ASSERT_TRUE(server.ok()) << server.status();
    servers_[shard] = *std::move(server);
    addresses_[shard] = *rdma::ParseAddress(servers_[shard]->address());  // with the port that it has
  }
  /// Nobody else gets its port meanwhile.
  void StopServer(std::size_t shard) {
    servers_[shard].reset();
    if (GetParam() == rdma::TransportKind::kTcp) {
      held_ports_[addresses_[shard].port] = HoldPort(addresses_[shard].port);
    }
  }

  Topology TopologyOfServers() const {
    std::vector<std::string> texts;
    for (const rdma::Address& address : addresses_) texts.push_back(address.ToString());
    absl::StatusOr<Topology> topology = Topology::Even(texts, cluster_);
    EXPECT_TRUE(topology.ok()) << topology.status();
    return *std::move(topology);
  }
  std::unique_ptr<ClusterClient> NewClient(const ClientOptions& options = {}) {
    auto client = ClusterClient::Connect(TopologyOfServers(), options, clock_);
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }
  /// Starts the servers, and connects the client.
  void StartCluster(std::size_t count, Durability durability = Durability::kLogged) {
    StartServers(count, durability);
    if (HasFatalFailure()) return;
    kv_ = NewClient();
    ASSERT_NE(kv_, nullptr);
  }

  /// Returns the first key of the form NAME<number> that the shard has.
  static std::string KeyOf(const Topology& topology, std::size_t shard, const std::string& name = "key") {
    for (int i = 0;; ++i) {
      std::string key = name + std::to_string(i);
      if (topology.ShardOf(key) == shard) return key;
    }
  }
  std::string KeyOf(std::size_t shard, const std::string& name = "key") const {
    return KeyOf(kv_->topology(), shard, name);
  }
  static std::string NameOfShard(std::size_t shard) { return "shard " + std::to_string(shard) + " ("; }

  const SteadyClock clock_{};
  /// Returns a socket that has the port. Nobody can connect to it.
  static rdma::UniqueFd HoldPort(std::uint16_t port) {
    rdma::UniqueFd held(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    ::setsockopt(held.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));  // despite earlier connections
    const sockaddr_in at = Loopback(port);
    EXPECT_EQ(::bind(held.get(), reinterpret_cast<const sockaddr*>(&at), sizeof(at)), 0);
    return held;
  }

  std::uint64_t cluster_ = 0x9f86d081884c7d65;  // 0: neither servers nor topology name it
  TempDir directory_;
  std::vector<ServerOptions> options_;
  std::vector<rdma::Address> addresses_;
  std::map<std::uint16_t, rdma::UniqueFd> held_ports_;  // of servers that were stopped
  std::vector<std::unique_ptr<ServerThread>> servers_;
  std::unique_ptr<ClusterClient> kv_;
};

}  // namespace remora
