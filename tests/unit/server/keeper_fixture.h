// A keeper, with a real etcd. The test stands in for the server thread: it takes the orders, and reports.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/cluster/config_store.h"
#include "server/cluster/keeper.h"
#include "server/cluster/shard_configuration.h"
#include "server/replication/membership.h"
#include "store/base/clock.h"
#include "store/base/mutex.h"
#include "store/format/cluster/shard_identity.h"
#include "tests/support/etcd_process.h"
#include "tests/support/patience.h"
#include "tests/support/server_thread.h"

namespace remora {

inline constexpr std::string_view kKeyOfShard = "/remora/shards/one";
inline constexpr std::uint64_t kLifeOfB = 7;

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
class KeeperFixture : public testing::Test {
 protected:
  KeeperFixture() {
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
  ~KeeperFixture() override {
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
  void Start(ShardConfiguration first = {}, bool has_copy = false) {
    server_ = std::make_unique<ServerEnd>(membership_, on_order_);
    server_->Report([&](MemberReport& report) {
      report.last = 60;
      report.has_copy = has_copy;
    });
    auto keeper = Keeper::Start({.store = {.endpoints = {etcd_.endpoint()}, .timeout = timeout_},
                                 .key = std::string(kKeyOfShard),
                                 .first = std::move(first),
                                 .member = "a",
                                 .data_dir = dir_.path(),
                                 .failover_after = std::chrono::milliseconds(100),
                                 .credentials = {.address = {}, .shard = shard_},
                                 .division = division_,
                                 .kept = kept_},
                                membership_, log_, clock_, [this](KeeperEnd end, const std::string& why) {
                                  const MutexLock lock(mutex_);
                                  ended_ = why;
                                  end_ = end;
                                });
    ASSERT_TRUE(keeper.ok()) << keeper.status();
    keeper_ = *std::move(keeper);
  }
  std::string ended() {
    const MutexLock lock(mutex_);
    return ended_;
  }
  KeeperEnd end() {
    const MutexLock lock(mutex_);
    return end_;
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
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
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
  std::chrono::milliseconds timeout_{30'000};
  ShardIdentity shard_{};                             // of the member
  std::shared_ptr<const DivisionFormat> division_{};  // null: the shard has all slots
  std::shared_ptr<KeptDivision> kept_{};              // null: its slots do not move
  std::function<void(const MemberOrders&)> on_order_ = [](const MemberOrders&) {};
  Membership membership_;
  Mutex mutex_;
  std::string ended_ ABSL_GUARDED_BY(mutex_);
  KeeperEnd end_ ABSL_GUARDED_BY(mutex_) = KeeperEnd::kStartsAgain;
  std::unique_ptr<ServerEnd> server_;
  std::unique_ptr<Keeper> keeper_;
};

}  // namespace remora
