// A keeper that may not begin, or not lead: K17 and K18 of server/cluster/keeper.h, with a real etcd.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "keeper_fixture.h"
#include "rdma/address.h"
#include "server/replication/membership.h"
#include "tests/support/server_thread.h"

namespace remora {
namespace {

using testing::IsEmpty;

class KeeperBeginTest : public KeeperFixture {};

TEST_F(KeeperBeginTest, AMemberWithDataWritesNoFirstConfiguration) {  // K17
  Start(*FirstConfiguration(replicas_, 2));
  AwaitOrders(10);
  EXPECT_EQ(Now().second, 0);
  EXPECT_THAT(ended(), IsEmpty());
}

TEST_F(KeeperBeginTest, APrimaryGoesOnAfterEtcdHasLostTheConfiguration) {  // K17
  Put(With("a", {self(), {.id = "b", .life = kLifeOfB}}));
  Start(*FirstConfiguration(replicas_, 2));
  ReportFollowers({.state = LinkState::kConnected, .life = kLifeOfB});
  AwaitLead();
  ASSERT_EQ(etcd_.Control(absl::StrCat("del ", std::string(kKeyOfShard))), 0);
  server_->Report([](MemberReport& report) { report.is_empty = true; });
  AwaitOrders(60);
  EXPECT_EQ(Now().second, 0);
  EXPECT_THAT(ended(), IsEmpty());
  EXPECT_TRUE(server_->orders().lead.has_value());
}

TEST_F(KeeperBeginTest, AMemberDoesNothingIfAnotherServerAnswersAtItsAddress) {  // K18
  const auto membership = std::make_shared<Membership>();
  ServerOptions options;
  options.store.memory_size = std::size_t{16} << 20;
  options.store.durability = Durability::kLogged;
  options.store.data_dir = dir_.path() + "/data of the other";
  options.store.commit_log_bytes = std::uint64_t{64} << 20;
  options.replication.membership = membership;
  auto other = ServerThread::Start(options, *rdma::ParseAddress(replicas_[0].address));
  ASSERT_TRUE(other.ok()) << other.status();
  Put(With("a", {self()}));
  Start();
  const std::uint64_t limit = server_->taken() + 20;
  Await([&] { return server_->taken() > limit || server_->orders().lead; }, "it asks");
  EXPECT_FALSE(server_->orders().lead.has_value());
  EXPECT_EQ(Now().first.epoch, 3);
  other->reset();
  AwaitLead();
  EXPECT_EQ(Now().first.epoch, 4);
}

}  // namespace
}  // namespace remora
