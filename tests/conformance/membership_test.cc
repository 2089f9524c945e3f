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
#include "tests/conformance/membership_fixture.h"

namespace remora {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class MembershipTest : public MembershipFixture {};

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
  min_epoch_ = 4;
  StartDiverged();
  primary_.Await(IsRejected, "the follower rejects it");
  for (int i = 0; i < 5; ++i) follower_.Order();
  EXPECT_FALSE(follower_.report.has_copy);
}

TEST_F(MembershipTest, AMemberTakesNoCopyOfAnotherShard) {  // R15
  StartDiverged(/*is_stranger=*/true);
  primary_.Await(IsRejected, "the follower rejects it");
  const std::uint64_t last = follower_.report.last;
  for (int i = 0; i < 5; ++i) follower_.Order();
  EXPECT_FALSE(follower_.report.has_copy);
  EXPECT_EQ(follower_.report.last, last);
  EXPECT_FALSE(std::filesystem::exists(dir_.path() + "/f/REMORA-COPY"));
}

TEST_F(MembershipTest, AMemberOfAnotherClusterGetsNothing) {
  shard_ = IdentityOf(8, "one");
  Start(follower_, "f", 2);
  follower_.orders.min_epoch = 1;
  follower_.Order();
  shard_ = IdentityOf(7, "one");
  Start(primary_, "p", 1);
  Lead(primary_, follower_, false, true);
  primary_.Await(IsRejected, "the primary gives it up");
  for (int i = 0; i < 5; ++i) follower_.Order();
  EXPECT_EQ(follower_.report.epoch, 0);
  EXPECT_EQ(follower_.report.last, 0);
}

/// A clock of a machine whose time of day, and time since its start, are other ones.
class ShiftedClock final : public Clock {
 public:
  explicit ShiftedClock(Duration shift) : shift_(shift) {}
  TimePoint Now() const override { return clock_.Now() + shift_; }
  std::int64_t UnixMillis() const override {
    return clock_.UnixMillis() + std::chrono::floor<milliseconds>(shift_).count();
  }

 private:
  const SteadyClock clock_{};
  const Duration shift_;
};

TEST_F(MembershipTest, MembersWhoseClocksAreAnHourApartGoOn) {  // Q5: nothing compares two clocks
  for (const auto shift : {std::chrono::hours(1), std::chrono::hours(-1)}) {
    const ShiftedClock clock{shift};
    const std::string name = shift > Duration(0) ? "later" : "earlier";
    primary_ = {};
    follower_ = {};
    Start(primary_, "p" + name, 1);
    clock_ = &clock;
    Start(follower_, "f" + name, 2);
    clock_ = nullptr;
    follower_.orders.min_epoch = 1;
    follower_.Order();
    Lead(primary_, follower_, true, true);
    primary_.Await([](const MemberReport& report) { return report.is_open; }, "it is open");
    ClientOptions options{.connect_timeout = seconds(30), .timeout = seconds(30)};
    auto client = Client::Connect(primary_.server->address(), options);
    ASSERT_TRUE(client.ok()) << client.status();
    ASSERT_TRUE((*client)->Put("key", "value").ok());
    ASSERT_TRUE((*client)->Put("lives a day", "value", {.ttl = std::chrono::hours(24)}).ok());
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE((*client)->Get("key").ok()) << "it reads under a lease";
      std::this_thread::sleep_for(kMinLeaseTime / 10);
    }
    client->reset();
    primary_.server.reset();
    follower_.orders.lead = MemberOrders::Lead{.epoch = 2};
    follower_.orders.has_minimum = true;
    follower_.Await([](const MemberReport& report) { return report.is_open; }, "it serves");
    auto after = Client::Connect(follower_.server->address(), options);
    ASSERT_TRUE(after.ok()) << after.status();
    EXPECT_TRUE((*after)->Get("key").ok());
    EXPECT_TRUE((*after)->Get("lives a day").ok());
    EXPECT_TRUE((*after)->Put("key", "later").ok());
    after->reset();
    follower_.server.reset();
  }
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
