// Members of a cluster as real servers in this process, which get their orders from the test in place of a
// keeper.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "client/async_client.h"
#include "client/client.h"
#include "rdma/address.h"
#include "rdma/tls.h"
#include "server/replication/membership.h"
#include "tests/support/patience.h"
#include "tests/support/server_thread.h"

namespace remora {

class ClusterSlots;

/// A primary and a member that follows it, at addresses that NewAddress gives.
class MembershipFixture : public testing::Test {
 protected:
  /// A member, its orders, and its last report.
  struct Node {
    rdma::Address address{};
    bool has_address = false;  // a member that starts again keeps it
    std::shared_ptr<Membership> membership = std::make_shared<Membership>();
    std::unique_ptr<ServerThread> server{};
    MemberOrders orders{};
    MemberReport report{};

    void Order() {
      const auto told = membership->Ask(orders, std::chrono::seconds(30));
      ASSERT_TRUE(told.has_value()) << "the server thread does not answer";
      report = *told;
    }
    /// Waits until a report says so.
    void Await(const std::function<bool(const MemberReport&)>& is_so, const std::string& what) {
      const auto deadline = std::chrono::steady_clock::now() + Patience(std::chrono::seconds(30));
      for (Order(); !is_so(report); Order()) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "still not so: " << what;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
  };

  virtual rdma::Address NewAddress() { return FreshAddress(rdma::TransportKind::kLocal, dir_.path()); }
  /// Returns the TLS of a server; null: it has none.
  virtual std::shared_ptr<rdma::ServerTls> NewTls() { return nullptr; }
  /// Returns how the primary reaches a member.
  FollowerAddress To(const Node& node) const {
    return {.address = node.address, .tls = client_tls_, .shard = shard_};
  }
  void Start(Node& node, const std::string& name, std::uint64_t life,
             std::chrono::milliseconds lease_time = kMinLeaseTime) {
    if (!node.has_address) node.address = NewAddress();
    node.has_address = true;
    node.orders.life = life;
    ServerOptions options;
    options.store.memory_size = std::size_t{16} << 20;
    options.store.durability = Durability::kLogged;
    options.store.data_dir = dir_.path() + "/" + name;
    options.store.commit_log_bytes = std::uint64_t{64} << 20;
    options.store.loading = Loading::kInBackground;
    options.max_clients = 8;
    options.replication.membership = node.membership;
    options.replication.lease_time = lease_time;
    options.store.shard = shard_;
    options.store.clock = clock_;
    options.replication.copy_rate = copy_rate_;
    options.tls = NewTls();
    options.slots = slots_;
    options.replication.has_division = slots_ != nullptr;
    auto started = ServerThread::Start(options, node.address);
    ASSERT_TRUE(started.ok()) << started.status();
    node.server = *std::move(started);
    node.Await([](const MemberReport& report) { return !report.is_loading; }, "it is loaded");
  }
  /// Has `primary` lead epoch 1, with one follower.
  void Lead(Node& primary, const Node& follower, bool counts, bool has_minimum) {
    primary.orders.min_epoch = 1;
    primary.orders.lead = MemberOrders::Lead{.epoch = 1, .followers = {To(follower)}};
    primary.orders.counts = {counts};
    primary.orders.has_minimum = has_minimum;
    primary.Order();
    ASSERT_EQ(primary.report.failure, "");
    ASSERT_TRUE(primary.report.is_primary);
  }
  /// Has the primary serve, with a follower that counts.
  void StartPair() {
    Start(primary_, "p", 1);
    Start(follower_, "f", 2);
    follower_.orders.min_epoch = 1;
    follower_.Order();
    Lead(primary_, follower_, true, true);
    primary_.Await([](const MemberReport& report) { return report.is_open; }, "it is open");
  }
  /// Starts a member again, with its data and other orders.
  void StartAgain(Node& node, const std::string& name, std::uint64_t life) {
    node.server.reset();
    node.membership = std::make_shared<Membership>();
    node.orders = {};
    Start(node, name, life);
  }
  /// Has a server lead this epoch without followers.
  static void LeadAlone(Node& node, std::uint64_t epoch) {
    node.orders.min_epoch = epoch;
    node.orders.lead = MemberOrders::Lead{.epoch = epoch};
    node.orders.has_minimum = true;
    node.Await([](const MemberReport& report) { return report.is_open; }, "it is open");
  }
  /// Has the primary lead epoch 3, with a follower that has led epoch 2 alone. In epoch 1 they were a pair,
  /// unless the follower is a stranger, whose shard is another one of the same name.
  void StartDiverged(bool is_stranger = false) {
    if (is_stranger) {
      Start(follower_, "f", 2);
      LeadAlone(follower_, 1);
    } else {
      StartPair();
      primary_.server.reset();
    }
    StartAgain(follower_, "f", 2);
    LeadAlone(follower_, 2);
    StartAgain(follower_, "f", 2);
    follower_.orders.min_epoch = min_epoch_;
    follower_.orders.may_copy = may_copy_;
    follower_.Order();
    StartAgain(primary_, "p", 1);
    primary_.orders.min_epoch = 3;
    primary_.orders.lead = MemberOrders::Lead{.epoch = 3, .followers = {To(follower_)}};
    primary_.orders.counts = {false};
    primary_.orders.has_minimum = true;
    primary_.Await([](const MemberReport& report) { return report.is_open; }, "it is open");
  }
  static bool IsRejected(const MemberReport& report) {
    return report.followers[0].state == LinkState::kRejected;
  }

  /// Reads a key, which only Write writes.
  absl::Status Get(std::chrono::milliseconds timeout) {
    auto client = Client::Connect(
        primary_.server->address(),
        {.connect_timeout = std::chrono::seconds(30), .timeout = timeout, .reconnect = false});
    return client.ok() ? (*client)->Get("key").status() : client.status();
  }
  /// Begins a write, and returns once the primary has logged it.
  void Write(Node& primary) {
    ClientOptions options{.connect_timeout = std::chrono::seconds(30), .timeout = std::chrono::seconds(60)};
    auto client = AsyncClient::Connect(primary.server->address(), options);
    ASSERT_TRUE(client.ok()) << client.status();
    const std::uint64_t before = primary.report.last;
    ASSERT_TRUE((*client)->Put("key", "value", [](const AsyncResult&) {}).ok());
    const auto deadline = std::chrono::steady_clock::now() + Patience(std::chrono::seconds(30));
    for (primary.Order(); primary.report.last == before; primary.Order()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      (*client)->Poll();
    }
    client_ = *std::move(client);
  }

  const TempDir dir_;
  Node primary_{}, follower_{};
  bool may_copy_ = true;                              // of the follower of StartDiverged
  std::uint64_t min_epoch_ = 3;                       // of the same
  std::uint64_t copy_rate_ = std::uint64_t{4} << 20;  // as --copy_rate
  rdma::TlsFiles client_tls_{};
  ShardIdentity shard_ = IdentityOf(7, "one");  // of servers that start
  std::shared_ptr<const ClusterSlots> slots_;  // of servers that start, whose division is in etcd; null: none
  const Clock* clock_ = nullptr;               // of servers that start; null: their own
  std::unique_ptr<AsyncClient> client_;
};

}  // namespace remora
