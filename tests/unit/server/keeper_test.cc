// The decisions of a keeper: K2, K3, K5, K7, K10, K11 and K14 to K16 of server/cluster/keeper.h, with a real
// etcd.
#include "server/cluster/keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "keeper_fixture.h"
#include "server/cluster/config_store.h"
#include "server/cluster/shard_configuration.h"
#include "server/replication/membership.h"
#include "store/base/mutex.h"
#include "tests/support/server_thread.h"

namespace remora {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class KeeperTest : public KeeperFixture {};

TEST_F(KeeperTest, AnEmptyMemberBeginsTheShard) {  // K5
  Start(*FirstConfiguration(replicas_, 2));
  AwaitOrders(3);
  EXPECT_EQ(Now().first.epoch, 0) << "the server has data";
  server_->Report([](MemberReport& report) { report.is_empty = true; });
  AwaitLead();
  const ShardConfiguration now = Now().first;
  EXPECT_EQ(now.epoch, 1);
  EXPECT_EQ(now.primary, "a");
  EXPECT_THAT(now.in_sync, ElementsAre(self()));
  EXPECT_EQ(server_->orders().lead->epoch, 1);
  EXPECT_FALSE(server_->orders().has_minimum) << "K2";
}

TEST_F(KeeperTest, AMemberIsAddedOnceItHasAnsweredALaterRound) {  // K3, K10
  Put(With("a", {self()}, {}));
  Start();
  AwaitLead();
  server_->Report([](MemberReport& report) { report.begun = 5; });
  MemberReport::Follower b{
      .state = LinkState::kConnected, .life = kLifeOfB, .acknowledged = 60, .answered = 5};
  ReportFollowers(b);
  AwaitOrders(10);
  EXPECT_THAT(server_->orders().counts, ElementsAre(true, false));
  EXPECT_THAT(Now().first.in_sync, ElementsAre(self())) << "it has answered no round that began since";
  b.answered = 6;
  ReportFollowers(b);
  const Member added{.id = "b", .life = kLifeOfB};
  Await([&] { return Now().first.IsInSync(added); }, "b is in sync");
  Await([&] { return server_->orders().has_minimum; }, "the minimum is met");  // K2
  const MemberOrders orders = server_->orders();
  EXPECT_THAT((std::vector{orders.members, orders.in_sync, orders.min_in_sync}), ElementsAre(3, 2, 2));
}

TEST_F(KeeperTest, RoundsAreConfirmedByEtcdBelowTheMinimum) {  // K10
  timeout_ = milliseconds(200);
  Put(With("a", {self(), {.id = "b", .life = kLifeOfB}}));
  Start();
  AwaitLead();
  EXPECT_FALSE(server_->orders().lead->was_unasked);
  EXPECT_FALSE(server_->orders().confirmed.has_value()) << "b counts, so etcd is not needed";
  ReportFollowers({});
  Await([&] { return !Now().first.complete.empty(); }, "it goes on without b");
  server_->Report([](MemberReport& report) { report.begun = 9; });
  Await([&] { return server_->orders().confirmed == 9; }, "round 9 is confirmed");
  EXPECT_THAT(server_->orders().counts, ElementsAre(false, false));
  etcd_.Signal(SIGSTOP);
  server_->Report([](MemberReport& report) { report.begun = 10; });
  AwaitOrders(5);
  EXPECT_EQ(server_->orders().confirmed, 9);
  etcd_.Signal(SIGCONT);
  Await([&] { return server_->orders().confirmed == 10; }, "round 10 is confirmed");
}

TEST_F(KeeperTest, ACompleteMemberIsToldToWait) {  // K10
  Put(With("c", {{.id = "c", .life = 9}}, {self()}));
  Start();
  AwaitLead();
  EXPECT_TRUE(server_->orders().lead->was_unasked);
  EXPECT_EQ(Now().first.primary, "a");
}

TEST_F(KeeperTest, AMemberStopsToAnswerBeforeItTakesOver) {  // K7
  Put(With("c", {self(), {.id = "c", .life = 9}}));
  std::vector<std::uint64_t> epochs;  // in etcd, when the member stops to answer
  on_order_ = [&](const MemberOrders& orders) {
    if (!orders.lead && orders.min_epoch == 4) epochs.push_back(Now().first.epoch);
  };
  Start();
  AwaitLead();
  keeper_.reset();
  server_.reset();
  EXPECT_THAT(epochs, ElementsAre(3));
  EXPECT_EQ(Now().first.epoch, 4);
}

TEST_F(KeeperTest, AMemberThatIsNotInSyncDoesNotTakeOver) {  // K7
  Put(With("c", {{.id = "a", .life = life_ + 1}, {.id = "c", .life = 9}}));
  Start();
  AwaitOrders(30);  // several times the silence after which a primary is given up
  EXPECT_FALSE(server_->orders().lead.has_value());
  EXPECT_EQ(Now().first.epoch, 3);
}

TEST_F(KeeperTest, ACopyIsTakenByAMemberOnWhichNobodyCounts) {  // K11
  Put(With("b", {{.id = "b", .life = kLifeOfB}, {.id = "c", .life = 9}}));
  Start();
  Await([&] { return server_->orders().may_copy; }, "it may take a copy");
  EXPECT_THAT(ended(), IsEmpty());
  server_->Report([](MemberReport& report) { report.has_copy = true; });
  Await([&] { return !ended().empty(); }, "it ends");
  EXPECT_THAT(ended(), HasSubstr("this server goes on with it"));
  EXPECT_TRUE(std::filesystem::exists(dir_.path() + "/REMORA-COPY-STATE"));
}

TEST_F(KeeperTest, AMemberInTheConfigurationKeepsItsData) {  // K11
  Put(With("b", {self(), {.id = "b", .life = kLifeOfB}}));
  bool may_copy = false;
  on_order_ = [&](const MemberOrders& orders) { may_copy |= orders.may_copy; };
  Start({}, /*has_copy=*/true);  // from the first order on: b is silent, so a member without one takes over
  Await([&] { return !ended().empty(); }, "it ends");
  EXPECT_THAT(ended(), HasSubstr("the configuration counts on those here"));
  EXPECT_FALSE(std::filesystem::exists(dir_.path() + "/REMORA-COPY-STATE"));
  server_.reset();
  EXPECT_FALSE(may_copy);
}

TEST_F(KeeperTest, AReplacedPrimaryEnds) {  // K5
  Put(With("a", {self(), {.id = "b", .life = kLifeOfB}}));
  Start();
  ReportFollowers({.state = LinkState::kConnected, .life = kLifeOfB});
  AwaitLead();
  AwaitOrders(3);
  EXPECT_THAT(ended(), IsEmpty());
  ShardConfiguration next = *TakeOver(Now().first, {.id = "b", .life = kLifeOfB}, 70);
  next.change = 2;
  Put(next);
  const std::uint64_t limit = server_->taken() + 200;
  Await([&] { return !ended().empty() || server_->taken() > limit; }, "it ends");
  EXPECT_THAT(ended(), HasSubstr("member b is the primary, in epoch 5"));
  EXPECT_EQ(end(), KeeperEnd::kStartsAgain);
}

TEST_F(KeeperTest, APrimaryFollowsAnOperatorsChange) {  // K14
  Put(With("a", {self(), {.id = "b", .life = kLifeOfB}, {.id = "c", .life = kLifeOfB}}));
  Start();
  const MemberReport::Follower follows{.state = LinkState::kConnected, .life = kLifeOfB};
  ReportFollowers(follows, follows);
  AwaitLead();
  server_->Report([](MemberReport& report) { report.is_open = false; });  // so it adds nobody
  const auto has_followers = [&](std::size_t count) {
    return [this, count] { return server_->orders().lead->followers.size() == count; };
  };
  ASSERT_TRUE(has_followers(2)());
  Put(*RemoveReplica(Now().first, "c", 0));
  Await(has_followers(1), "it has no link to c any more");
  MemberOrders orders = server_->orders();
  EXPECT_EQ(orders.lead->followers[0].address.path, dir_.path() + "/b");
  EXPECT_THAT(orders.counts, ElementsAre(true));
  EXPECT_THAT((std::vector{orders.members, orders.in_sync, orders.min_in_sync}), ElementsAre(2, 2, 2));
  Put(*AddReplica(Now().first, {.id = "aa", .address = absl::StrCat("local://", dir_.path(), "/aa")}, 0));
  Await(has_followers(2), "it has a link to aa");
  orders = server_->orders();
  EXPECT_EQ(orders.lead->followers[0].address.path, dir_.path() + "/aa");
  EXPECT_THAT(orders.counts, ElementsAre(false, true));
  EXPECT_THAT(ended(), IsEmpty());
}

TEST_F(KeeperTest, AMemberThatWasRemovedEnds) {  // K14
  Put(With("b", {{.id = "b", .life = kLifeOfB}, {.id = "c", .life = 9}}));
  Start();
  AwaitOrders(2);
  Put(*RemoveReplica(Now().first, "a", 0));
  Await([&] { return !ended().empty(); }, "it ends");
  EXPECT_THAT(ended(), HasSubstr("it was removed from the shard"));
  EXPECT_EQ(end(), KeeperEnd::kRemoved);
}

TEST_F(KeeperTest, APrimaryThatWasReplacedAndRemovedEnds) {  // K5, K14
  Put(With("a", {self(), {.id = "b", .life = kLifeOfB}}));
  Start();
  ReportFollowers({.state = LinkState::kConnected, .life = kLifeOfB});
  AwaitLead();
  const auto taken = TakeOver(Now().first, {.id = "b", .life = kLifeOfB}, 70);
  ASSERT_TRUE(taken.ok()) << taken.status();
  Put(*RemoveReplica(*taken, "a", 1));
  Await([&] { return !ended().empty(); }, "it ends");
  EXPECT_EQ(end(), KeeperEnd::kRemoved);
}

TEST_F(KeeperTest, APrimaryWhoseDiskFailedMakesWayForAMemberInSync) {  // K16
  const MemberReport::Follower follows{.state = LinkState::kConnected, .life = kLifeOfB};
  const MemberReport::Follower silent{.state = LinkState::kConnected};  // it has acknowledged nothing
  Put(With("a", {self(), {.id = "b", .life = kLifeOfB}}));
  Start();
  ReportFollowers(follows);
  AwaitLead();
  server_->Report([](MemberReport& report) { report.disk_failure = "the disk does not sync"; });
  AwaitOrders(10);
  EXPECT_THAT(ended(), IsEmpty()) << "without it, too few are in sync";
  ReportFollowers(silent, silent);
  ShardConfiguration next = Now().first;
  next.in_sync.push_back({.id = "c", .life = kLifeOfB});
  next.change = 2;
  Put(next);
  Await([&] { return server_->orders().in_sync == 3; }, "c is in sync");
  AwaitOrders(10);
  EXPECT_THAT(ended(), IsEmpty()) << "nobody follows it";
  ReportFollowers(silent, follows);
  Await([&] { return !ended().empty(); }, "it ends");
  EXPECT_THAT(ended(), HasSubstr("another member takes over: the disk does not sync"));
  EXPECT_EQ(end(), KeeperEnd::kStartsAgain);
}

TEST_F(KeeperTest, AMemberThatIsOutTakesOverByForce) {  // K7, K15
  Put(With("c", {{.id = "c", .life = 9}}));
  std::vector<std::uint64_t> epochs;  // in etcd, when the member stops to answer
  on_order_ = [&](const MemberOrders& orders) {
    if (!orders.lead && orders.min_epoch == 4) epochs.push_back(Now().first.epoch);
  };
  Start();
  AwaitOrders(30);  // several times the silence after which a primary is given up
  EXPECT_FALSE(server_->orders().lead.has_value());
  server_->Report([](MemberReport& report) { report.wish = MemberWish::kForces; });
  AwaitLead();
  const MemberOrders orders = server_->orders();
  const ShardConfiguration now = Now().first;
  EXPECT_EQ(orders.lead->epoch, 4);
  EXPECT_TRUE(orders.lead->was_unasked);
  EXPECT_GE(orders.lead->versions_from, std::uint64_t{1} << 50);
  EXPECT_EQ(orders.lead->versions_from, now.versions_from);
  EXPECT_THAT(now.in_sync, ElementsAre(self()));
  EXPECT_FALSE(orders.has_minimum) << "K2";
  keeper_.reset();
  server_.reset();
  EXPECT_THAT(epochs, ElementsAre(3));
}

TEST_F(KeeperTest, NobodyIsForcedBesideAPrimary) {  // K15
  const auto membership = std::make_shared<Membership>();
  ServerOptions options;
  options.store.memory_size = std::size_t{16} << 20;
  options.store.durability = Durability::kLogged;
  options.store.data_dir = dir_.path() + "/data of c";
  options.store.commit_log_bytes = std::uint64_t{64} << 20;
  options.replication.membership = membership;
  const auto c = ServerThread::Start(options, *rdma::ParseAddress(replicas_[2].address));
  ASSERT_TRUE(c.ok()) << c.status();
  MemberOrders leads{.life = 9, .min_epoch = 3};
  Await(
      [&] {
        const auto report = membership->Ask(leads, std::chrono::seconds(30));
        if (report && !report->is_loading) leads.lead = MemberOrders::Lead{.epoch = 3};
        return report && report->is_primary;
      },
      "c leads");
  Put(With("c", {{.id = "c", .life = 9}}));
  std::string fault;
  on_order_ = [&](const MemberOrders& orders) {
    const MutexLock lock(mutex_);
    if (!orders.wish_fault.empty()) fault = orders.wish_fault;
  };
  Start();
  server_->Report([](MemberReport& report) { report.wish = MemberWish::kForces; });
  Await(
      [&] {
        if (server_->orders().lead) return true;
        const MutexLock lock(mutex_);
        return !fault.empty();
      },
      "it is rejected");
  keeper_.reset();
  server_.reset();
  EXPECT_THAT(fault, HasSubstr("member c leads in epoch 3"));
  EXPECT_EQ(Now().first.epoch, 3);
}

}  // namespace
}  // namespace remora
