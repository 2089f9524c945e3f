// The decisions of a keeper: K2, K3, K5, K7 and K10 of server/cluster/keeper.h, with a real etcd. The test
// stands in for the server thread: it takes the orders, and reports.
#include "server/cluster/keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/cluster/config_store.h"
#include "server/cluster/shard_configuration.h"
#include "server/replication/membership.h"
#include "store/base/clock.h"
#include "store/base/mutex.h"
#include "tests/support/etcd_process.h"
#include "tests/support/patience.h"
#include "tests/support/server_thread.h"

namespace remora {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view kKeyOfShard = "/remora/shards/one";
constexpr std::uint64_t kLifeOfB = 7;

/// The other end of a keeper's mailbox, in a thread of its own. It follows each order at once.
class ServerEnd {
 public:
  /// `on_order` is called in the thread with each order, before the report of it.
  ServerEnd(Membership& membership, std::function<void(const MemberOrders&)> on_order)
      : membership_(membership), on_order_(std::move(on_order)) {
    membership_.set_wake([this] { Wake(); });
    thread_ = std::thread([this] { Run(); });
  }
  ~ServerEnd() {
    membership_.set_wake(nullptr);
    {
      const MutexLock lock(mutex_);
      is_stopped_ = true;
    }
    wakes_.notify_one();
    thread_.join();
  }
  ServerEnd(const ServerEnd&) = delete;
  ServerEnd& operator=(const ServerEnd&) = delete;

  /// Changes the reports from now on.
  void Report(const std::function<void(MemberReport&)>& change) {
    const MutexLock lock(mutex_);
    change(report_);
  }
  MemberOrders orders() {
    const MutexLock lock(mutex_);
    return orders_;
  }
  std::uint64_t taken() {
    const MutexLock lock(mutex_);
    return taken_;
  }

 private:
  void Wake() {
    {
      const MutexLock lock(mutex_);
      is_woken_ = true;
    }
    wakes_.notify_one();
  }
  void Run() {
    for (;;) {
      {
        MutexLock lock(mutex_);
        while (!is_woken_ && !is_stopped_) lock.WaitFor(wakes_, std::chrono::seconds(1));
        if (is_stopped_) return;
        is_woken_ = false;
      }
      if (!membership_.is_asked()) continue;
      MemberOrders orders = membership_.Take();
      on_order_(orders);
      MemberReport report;
      {
        const MutexLock lock(mutex_);
        orders_ = std::move(orders);
        ++taken_;
        report = report_;
        report.is_primary = orders_.lead.has_value();
        report.is_open &= report.is_primary;
      }
      membership_.Report(std::move(report));
    }
  }

  Membership& membership_;
  const std::function<void(const MemberOrders&)> on_order_;
  Mutex mutex_;
  std::condition_variable wakes_;
  bool is_woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  MemberReport report_ ABSL_GUARDED_BY(mutex_);
  MemberOrders orders_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

/// Member "a", of up to three, of which nobody else runs.
class KeeperTest : public testing::Test {
 protected:
  KeeperTest() {
    auto store = ConfigStore::Create({.endpoints = {etcd_.endpoint()}, .timeout = std::chrono::seconds(30)});
    EXPECT_TRUE(store.ok()) << store.status();
    config_ = *std::move(store);
    const auto life = MemberLife(dir_.path(), false);
    EXPECT_TRUE(life.ok()) << life.status();
    life_ = *life;
    for (const std::string id : {"a", "b", "c"}) {
      replicas_.push_back({.id = id, .address = absl::StrCat("local://", dir_.path(), "/", id)});
    }
  }
  ~KeeperTest() override {
    keeper_.reset();
    server_.reset();
  }

  Member self() const { return {.id = "a", .life = life_}; }

  /// A configuration of epoch 3.
  ShardConfiguration With(std::string primary, std::vector<Member> in_sync,
                          std::vector<Member> complete = {}) {
    ShardConfiguration configuration = *FirstConfiguration(replicas_, 2);
    configuration.epoch = 3;
    configuration.primary = std::move(primary);
    configuration.in_sync = std::move(in_sync);
    configuration.complete = std::move(complete);
    configuration.lineage = {{.epoch = 1, .first = 1}, {.epoch = 3, .first = 50}};
    configuration.change = 1;
    return configuration;
  }
  void Put(const ShardConfiguration& configuration) {
    const auto swapped = config_->Swap(kKeyOfShard, Now().second, EncodeConfiguration(configuration));
    ASSERT_TRUE(swapped.ok()) << swapped.status();
  }
  /// The configuration in etcd, and its revision.
  std::pair<ShardConfiguration, std::int64_t> Now() {
    const auto value = config_->Read(kKeyOfShard);
    EXPECT_TRUE(value.ok()) << value.status();
    if (!value.ok() || value->revision == 0) return {};
    const auto now = DecodeConfiguration(value->text);
    EXPECT_TRUE(now.ok()) << now.status();
    return {now.ok() ? *now : ShardConfiguration(), value->revision};
  }
  void Start(ShardConfiguration first = {}) {
    server_ = std::make_unique<ServerEnd>(membership_, on_order_);
    server_->Report([](MemberReport& report) { report.last = 60; });
    auto keeper = Keeper::Start({.store = {.endpoints = {etcd_.endpoint()}, .timeout = timeout_},
                                 .key = std::string(kKeyOfShard),
                                 .first = std::move(first),
                                 .member = "a",
                                 .data_dir = dir_.path(),
                                 .failover_after = milliseconds(100)},
                                membership_, log_, clock_, [this](const std::string& why) {
                                  const MutexLock lock(mutex_);
                                  ended_ = why;
                                });
    ASSERT_TRUE(keeper.ok()) << keeper.status();
    keeper_ = *std::move(keeper);
  }
  std::string ended() {
    const MutexLock lock(mutex_);
    return ended_;
  }
  /// Waits for so many further orders.
  void AwaitOrders(std::uint64_t count) {
    const std::uint64_t target = server_->taken() + count;
    Await([&] { return server_->taken() >= target; }, "the keeper gives orders");
  }
  void Await(const std::function<bool()>& is_so, const std::string& what) {
    if (HasFatalFailure()) return;  // an earlier one was in vain
    const auto deadline = std::chrono::steady_clock::now() + Patience(std::chrono::seconds(60));
    while (!is_so()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "still not so: " << what;
      std::this_thread::sleep_for(milliseconds(2));
    }
  }
  /// Has the keeper lead, with the others as they were in sync.
  void AwaitLead() {
    server_->Report([](MemberReport& report) { report.is_open = true; });
    Await([&] { return server_->orders().lead.has_value(); }, "it leads");
  }
  /// Reports the links to b and c.
  void ReportFollowers(MemberReport::Follower b, MemberReport::Follower c = {}) {
    server_->Report([&](MemberReport& report) { report.followers = {b, c}; });
  }

  const EtcdProcess etcd_;
  const TempDir dir_;
  const SteadyClock clock_;
  const OperatorLog log_{[](LogEvent, std::string_view) {}};
  std::unique_ptr<ConfigStore> config_;
  std::uint64_t life_ = 0;
  std::vector<Replica> replicas_;
  milliseconds timeout_{30'000};
  std::function<void(const MemberOrders&)> on_order_ = [](const MemberOrders&) {};
  Membership membership_;
  Mutex mutex_;
  std::string ended_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ServerEnd> server_;
  std::unique_ptr<Keeper> keeper_;
};

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
  Start();
  AwaitOrders(2);
  server_->Report([](MemberReport& report) { report.has_copy = true; });
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
}

}  // namespace
}  // namespace remora
