// Members of a cluster, which get their orders from the test in place of a keeper: K2, K3, K5, K7, K14 of
// server/cluster/keeper.h.
#include "server/replication/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/async_client.h"
#include "client/client.h"
#include "store/durable/incoming_copy.h"
#include "tests/support/patience.h"
#include "tests/support/server_thread.h"

namespace remora {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class MembershipTest : public testing::Test {
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
      const auto told = membership->Ask(orders, seconds(30));
      ASSERT_TRUE(told.has_value()) << "the server thread does not answer";
      report = *told;
    }
    /// Waits until a report says so.
    void Await(const std::function<bool(const MemberReport&)>& is_so, const std::string& what) {
      const auto deadline = std::chrono::steady_clock::now() + Patience(seconds(30));
      for (Order(); !is_so(report); Order()) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "still not so: " << what;
        std::this_thread::sleep_for(milliseconds(5));
      }
    }
  };

  void Start(Node& node, const std::string& name, std::uint64_t life,
             milliseconds lease_time = kMinLeaseTime) {
    if (!node.has_address) node.address = FreshAddress(rdma::TransportKind::kLocal, dir_.path());
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
    auto started = ServerThread::Start(options, node.address);
    ASSERT_TRUE(started.ok()) << started.status();
    node.server = *std::move(started);
    node.Await([](const MemberReport& report) { return !report.is_loading; }, "it is loaded");
  }
  /// Has `primary` lead epoch 1, with one follower.
  void Lead(Node& primary, const Node& follower, bool counts, bool has_minimum) {
    primary.orders.min_epoch = 1;
    primary.orders.lead = MemberOrders::Lead{.epoch = 1, .followers = {{.address = follower.address}}};
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
  /// Has the primary lead epoch 2, with a follower that has led epoch 1 alone.
  void StartDiverged() {
    Start(follower_, "f", 2);
    follower_.orders.min_epoch = 1;
    follower_.orders.lead = MemberOrders::Lead{.epoch = 1};
    follower_.orders.has_minimum = true;
    follower_.Await([](const MemberReport& report) { return report.is_open; }, "it is open");
    follower_.server.reset();
    follower_.membership = std::make_shared<Membership>();
    follower_.orders = {};
    Start(follower_, "f", 2);
    follower_.orders.min_epoch = min_epoch_;
    follower_.orders.may_copy = may_copy_;
    follower_.Order();
    Start(primary_, "p", 1);
    primary_.orders.min_epoch = 2;
    primary_.orders.lead = MemberOrders::Lead{.epoch = 2, .followers = {{.address = follower_.address}}};
    primary_.orders.counts = {false};
    primary_.orders.has_minimum = true;
    primary_.Await([](const MemberReport& report) { return report.is_open; }, "it is open");
  }
  static bool IsRejected(const MemberReport& report) {
    return report.followers[0].state == LinkState::kRejected;
  }

  /// Reads a key, which only Write writes.
  absl::Status Get(milliseconds timeout) {
    auto client = Client::Connect(primary_.server->address(),
                                  {.connect_timeout = seconds(30), .timeout = timeout, .reconnect = false});
    return client.ok() ? (*client)->Get("key").status() : client.status();
  }
  /// Begins a write, and returns once the primary has logged it.
  void Write(Node& primary) {
    ClientOptions options{.connect_timeout = seconds(30), .timeout = seconds(60)};
    auto client = AsyncClient::Connect(primary.server->address(), options);
    ASSERT_TRUE(client.ok()) << client.status();
    const std::uint64_t before = primary.report.last;
    ASSERT_TRUE((*client)->Put("key", "value", [](const AsyncResult&) {}).ok());
    const auto deadline = std::chrono::steady_clock::now() + Patience(seconds(30));
    for (primary.Order(); primary.report.last == before; primary.Order()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      (*client)->Poll();
    }
    client_ = *std::move(client);
  }

  const TempDir dir_;
  Node primary_{}, follower_{};
  bool may_copy_ = true;         // of the follower of StartDiverged
  std::uint64_t min_epoch_ = 2;  // of the same
  std::unique_ptr<AsyncClient> client_;
};

TEST_F(MembershipTest, AMemberFollowsNobodyBeforeItHasOrders) {  // K7
  Start(primary_, "p", 1);
  Start(follower_, "f", 2);
  Lead(primary_, follower_, true, true);
  primary_.Await(IsRejected, "the follower rejects it");
  EXPECT_FALSE(primary_.report.is_open);
  follower_.orders.min_epoch = 1;
  follower_.Order();
  primary_.Await([](const MemberReport& report) { return report.is_open; }, "it is open");
  EXPECT_EQ(primary_.report.followers[0].life, 2);
}

TEST_F(MembershipTest, ASealedMemberAcknowledgesNothingMore) {  // K7
  StartPair();
  follower_.orders.min_epoch = 2;
  follower_.Order();
  const std::uint64_t last = follower_.report.last, published = primary_.report.published;
  Write(primary_);
  primary_.Await(
      [&](const MemberReport& report) { return IsRejected(report) || report.published > published; },
      "the follower rejects it");
  EXPECT_EQ(primary_.report.published, published);
  follower_.Order();
  EXPECT_EQ(follower_.report.last, last);
}

TEST_F(MembershipTest, NothingIsPublishedBelowTheMinimum) {  // K2
  Start(primary_, "p", 1);
  Start(follower_, "f", 2);
  Lead(primary_, follower_, false, false);
  primary_.Await([](const MemberReport& report) { return report.is_open; }, "it is open");
  const std::uint64_t published = primary_.report.published;
  Write(primary_);
  for (int i = 0; i < 5; ++i) primary_.Order();
  EXPECT_EQ(primary_.report.published, published);
  EXPECT_GT(primary_.report.last, published);
  primary_.orders.has_minimum = true;
  primary_.Await([](const MemberReport& report) { return report.published == report.last; },
                 "it is published");
}

TEST_F(MembershipTest, AMemberThatCountsIsWaitedFor) {  // K3
  Start(primary_, "p", 1);
  Start(follower_, "f", 2);
  Lead(primary_, follower_, false, true);
  primary_.Await([](const MemberReport& report) { return report.is_open; }, "it is open");
  primary_.orders.counts = {true};
  primary_.Order();
  const std::uint64_t published = primary_.report.published;
  Write(primary_);
  for (int i = 0; i < 5; ++i) primary_.Order();
  EXPECT_EQ(primary_.report.published, published);
  follower_.orders.min_epoch = 1;
  follower_.Order();
  primary_.Await([](const MemberReport& report) { return report.published == report.last; },
                 "it is published");
  EXPECT_EQ(primary_.report.followers[0].acknowledged, primary_.report.last);
}

TEST_F(MembershipTest, AMemberThatCountsAnswersRounds) {  // K3
  Start(primary_, "p", 1);
  Start(follower_, "f", 2);
  Lead(primary_, follower_, false, true);
  primary_.Await([](const MemberReport& report) { return report.is_open; }, "it is open");
  EXPECT_TRUE(absl::IsNotFound(Get(seconds(30)))) << "nobody counts";
  primary_.orders.counts = {true};
  primary_.Order();
  EXPECT_FALSE(absl::IsNotFound(Get(seconds(1)))) << "no round ends";
  follower_.orders.min_epoch = 1;
  follower_.Order();
  primary_.Await([](const MemberReport& report) { return report.followers[0].answered == report.begun; },
                 "the follower answers");
  EXPECT_TRUE(absl::IsNotFound(Get(seconds(30))));
}

TEST_F(MembershipTest, APrimaryDoesNotOpenBeforeItsTime) {  // Q5
  Start(primary_, "p", 1, minutes(1));
  Start(follower_, "f", 2, minutes(1));
  follower_.orders.min_epoch = 1;
  follower_.Order();
  Lead(primary_, follower_, true, true);
  primary_.Await([](const MemberReport& report) { return report.followers[0].acknowledged >= report.last; },
                 "the follower has its groups");
  for (int i = 0; i < 5; ++i) primary_.Order();
  EXPECT_FALSE(primary_.report.is_open);
}

TEST_F(MembershipTest, RoundsWaitForTheirConfirmation) {  // K10
  Start(primary_, "p", 1);
  Start(follower_, "f", 2);
  primary_.orders.confirmed = 0;
  Lead(primary_, follower_, false, true);
  primary_.Await([](const MemberReport& report) { return report.is_open && report.begun != 0; },
                 "it is open");
  EXPECT_FALSE(absl::IsNotFound(Get(seconds(1)))) << "no round ends";
  primary_.orders.confirmed = std::numeric_limits<std::uint64_t>::max();
  primary_.Order();
  EXPECT_TRUE(absl::IsNotFound(Get(seconds(30))));
}

TEST_F(MembershipTest, AnUnaskedMemberWaitsFromItsTakeoverOn) {  // K10
  for (const bool was_unasked : {false, true}) {
    Node member;
    Start(member, absl::StrCat("of ", was_unasked), 1, minutes(1));
    const auto before = std::chrono::steady_clock::now();
    member.orders.min_epoch = 1;
    member.orders.lead = MemberOrders::Lead{.epoch = 1, .was_unasked = was_unasked};
    member.orders.has_minimum = true;
    member.Order();
    ASSERT_TRUE(member.report.opens_at.has_value());
    EXPECT_EQ(*member.report.opens_at >= before + minutes(1), was_unasked);
  }
}

TEST_F(MembershipTest, AMemberWithOtherDataTakesACopy) {  // R15, K11
  StartDiverged();
  follower_.Await([](const MemberReport& report) { return report.has_copy; }, "the copy has come");
  EXPECT_TRUE(AcceptCopy(dir_.path() + "/f").ok());
  const std::uint64_t published = primary_.report.published;
  follower_.server.reset();
  follower_.membership = std::make_shared<Membership>();
  Start(follower_, "f", 3);
  EXPECT_GE(follower_.report.last, published) << "it goes on from the copy";
  primary_.Await([](const MemberReport& report) { return report.followers[0].life == 3; }, "it follows");
  primary_.orders.counts = {true};
  primary_.Await([](const MemberReport& report) { return report.followers[0].acknowledged == report.last; },
                 "it has all groups");
  follower_.Order();
  EXPECT_EQ(follower_.report.last, primary_.report.last);
}

TEST_F(MembershipTest, AMemberOnWhichItsClusterCountsKeepsItsData) {  // R15
  may_copy_ = false;
  StartDiverged();
  primary_.Await(IsRejected, "the follower rejects it");
  const std::uint64_t last = follower_.report.last;
  for (int i = 0; i < 5; ++i) {
    primary_.Order();
    follower_.Order();
  }
  EXPECT_FALSE(follower_.report.has_copy);
  EXPECT_EQ(follower_.report.last, last);
  EXPECT_FALSE(std::filesystem::exists(dir_.path() + "/f/REMORA-COPY"));
}

TEST_F(MembershipTest, AMemberTakesNoCopyOfAnEarlierPrimary) {  // R15
  min_epoch_ = 3;
  StartDiverged();
  primary_.Await(IsRejected, "the follower rejects it");
  for (int i = 0; i < 5; ++i) follower_.Order();
  EXPECT_FALSE(follower_.report.has_copy);
}

TEST_F(MembershipTest, APrimaryChangesItsLinksWhileItServes) {  // K14
  StartPair();
  Node third{};
  Start(third, "t", 3);
  third.orders.min_epoch = 1;
  third.Order();
  primary_.orders.lead->followers = {{.address = third.address}, {.address = follower_.address}};
  primary_.orders.counts = {false, true};
  primary_.Await(
      [](const MemberReport& report) {
        return report.followers.size() == 2 && report.followers[0].life == 3;
      },
      "the third one follows");
  EXPECT_EQ(primary_.report.followers[1].life, 2) << "its link has stayed";
  Write(primary_);
  primary_.Await([](const MemberReport& report) { return report.published == report.last; },
                 "it is published");
  // The follower goes, and its process does not answer any more.
  follower_.server.reset();
  primary_.orders.lead->followers = {{.address = third.address}};
  primary_.orders.counts = {true};
  primary_.Order();
  Write(primary_);
  primary_.Await([](const MemberReport& report) { return report.published == report.last; },
                 "it is published");
  third.Order();
  EXPECT_EQ(third.report.last, primary_.report.last);
  // And nobody is left.
  primary_.orders.lead->followers = {};
  primary_.orders.counts = {};
  primary_.Order();
  third.server.reset();
  Write(primary_);
  primary_.Await([](const MemberReport& report) { return report.published == report.last; },
                 "it is published");
  EXPECT_TRUE(Get(seconds(30)).ok());
}

TEST_F(MembershipTest, VersionsBeginWhereTheClusterSays) {  // K13 of server/cluster/shard_configuration.h
  constexpr std::uint64_t kFrom = std::uint64_t{1} << 50;
  Start(primary_, "p", 1);
  primary_.orders.min_epoch = 1;
  primary_.orders.lead = MemberOrders::Lead{.epoch = 1, .versions_from = kFrom};
  primary_.orders.has_minimum = true;
  primary_.Await([](const MemberReport& report) { return report.is_open; }, "it is open");
  auto client =
      Client::Connect(primary_.server->address(), {.connect_timeout = seconds(30), .timeout = seconds(30)});
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE((*client)->Put("key", "value").ok());
  std::uint64_t version = 0;
  ASSERT_TRUE((*client)
                  ->Visit(
                      "key", [](std::string_view) {}, &version)
                  .ok());
  EXPECT_GE(version, kFrom);
}

TEST_F(MembershipTest, AnEpochBeforeThatOfTheDataIsNotLed) {  // K5
  StartPair();
  follower_.orders.lead = MemberOrders::Lead{.epoch = 1};
  follower_.Order();
  EXPECT_THAT(follower_.report.failure, testing::HasSubstr("of a later epoch than etcd's"));
  EXPECT_FALSE(follower_.report.is_primary);
}

}  // namespace
}  // namespace remora
