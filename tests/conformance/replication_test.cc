// A primary and its followers, as real servers (server/replication, R10 to R13).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "client/client.h"
#include "server/replication/history.h"
#include "tests/conformance/replicas_fixture.h"
#include "tests/support/server_thread.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

class OnReplicas : public ReplicasFixture {};

TEST_P(OnReplicas, AFollowerHasWhatItsPrimaryHasAcknowledged) {
  Member primary = MakeMember("p"), follower = MakeMember("f");
  Start(follower, true);
  Start(primary, false, {&follower});
  const auto client = Await(primary);
  ASSERT_NE(client, nullptr);
  const std::string large(1'000'000, 'x');
  for (int i = 0; i < 200; ++i)
    ASSERT_TRUE(client->Put("key" + std::to_string(i % 50), std::to_string(i)).ok());
  ASSERT_TRUE(client->Put("large", large).ok());
  ASSERT_TRUE(client->Delete("key7").ok());
  EXPECT_EQ(Connect(follower).status().code(), absl::StatusCode::kUnavailable);
  primary.server.reset();
  const auto promotion = Promote(follower);
  ASSERT_TRUE(promotion.ok()) << promotion.status();
  EXPECT_EQ(promotion->epoch, 2);
  EXPECT_EQ(promotion->waits_for, "");
  const auto other = Await(follower);
  ASSERT_NE(other, nullptr);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(Get(*other, "key" + std::to_string(i)), i == 7 ? "NOT_FOUND" : std::to_string(150 + i));
  }
  EXPECT_EQ(Get(*other, "large"), large);
  EXPECT_TRUE(other->Put("key7", "again").ok());
}

TEST_P(OnReplicas, AWriteWaitsForAllFollowers) {  // R10
  Member primary = MakeMember("p"), one = MakeMember("one"), two = MakeMember("two");
  Start(one, true);
  Start(two, true);
  Start(primary, false, {&one, &two});
  const auto client = Await(primary);
  ASSERT_NE(client, nullptr);
  ASSERT_TRUE(client->Put("key", "1").ok());
  two.server.reset();
  const std::uint64_t before = Logged(primary);
  std::thread restarts([&] {
    ASSERT_NO_FATAL_FAILURE(AwaitLogged(primary, before));
    std::this_thread::sleep_for(milliseconds(300));  // long enough for the other follower to acknowledge it
    const auto reader = Connect(primary, /*is_admin=*/true);  // without a lease
    ASSERT_TRUE(reader.ok());
    EXPECT_EQ(Get(**reader, "key"), "1") << "a follower lacks the write";
    Start(two, true);
  });
  EXPECT_TRUE(client->Put("key", "2").ok());
  restarts.join();
  EXPECT_EQ(Get(*client, "key"), "2");
  ASSERT_TRUE(Promote(two).ok());
  const auto reader = Await(two);
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(Get(*reader, "key"), "2");
}

TEST_P(OnReplicas, APrimaryServesWhenItsFollowersHaveItsGroups) {  // R11, R12
  Member primary = MakeMember("p"), follower = MakeMember("f");
  Start(follower, true);
  Start(primary, false, {&follower});
  {
    const auto client = Await(primary);
    ASSERT_NE(client, nullptr);
    ASSERT_TRUE(client->Put("key", "1").ok());
    follower.server.reset();
    const std::uint64_t before = Logged(primary);
    ClientOptions options{.connect_timeout = milliseconds(30'000), .timeout = milliseconds(200)};
    options.reconnect = false;
    // A server that has no CPU for so long may not see a write whose client has gone.
    for (int i = 0; i < 100 && Logged(primary) == before; ++i) {
      auto hasty = Client::Connect(primary.server->address(), options);
      ASSERT_TRUE(hasty.ok()) << hasty.status();
      EXPECT_FALSE((*hasty)->Put("key", "2").ok());
    }
    ASSERT_NO_FATAL_FAILURE(AwaitLogged(primary, before));
  }
  primary.server.reset();
  Start(primary, false, {&follower});
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_EQ(Connect(primary).status().code(), absl::StatusCode::kUnavailable);
  Start(follower, true);
  const auto client = Await(primary);
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(Get(*client, "key"), "2");
  primary.server.reset();
  ASSERT_TRUE(Promote(follower).ok());
  const auto reader = Await(follower);
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(Get(*reader, "key"), "2") << "the log of the primary had it";
}

TEST_P(OnReplicas, APromotionIsKeptBeforeItsGroups) {  // R13
  Member one = MakeMember("one"), two = MakeMember("two"), primary = MakeMember("p");
  Start(two, true);
  Start(one, true, {&two});
  Start(primary, false, {&one, &two});
  {
    const auto client = Await(primary);
    ASSERT_NE(client, nullptr);
    ASSERT_TRUE(client->Put("key", "1").ok());
  }
  primary.server.reset();
  const auto promotion = Promote(one);
  ASSERT_TRUE(promotion.ok()) << promotion.status();
  const auto history = ReadHistory(DataOf(one));
  ASSERT_TRUE(history.ok() && history->has_value());
  EXPECT_TRUE((*history)->is_primary);
  EXPECT_EQ((*history)->epoch(), 2);
  EXPECT_LT((*history)->reigns.back().after, promotion->last_group);
  const auto client = Await(one);
  ASSERT_NE(client, nullptr);
  EXPECT_TRUE(client->Put("key", "2").ok());
  EXPECT_EQ((*ReadHistory(DataOf(two)))->epoch(), 2);
}

TEST_P(OnReplicas, AtLevelSyncedTheFollowerSyncsBeforeItAcknowledges) {
  Member primary = MakeMember("p"), follower = MakeMember("f");
  Start(follower, true, {}, Durability::kSynced);
  Start(primary, false, {&follower}, Durability::kSynced);
  const auto client = Await(primary);
  ASSERT_NE(client, nullptr);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(client->Put("key", std::to_string(i)).ok());
  primary.server.reset();
  ASSERT_TRUE(Promote(follower).ok());
  const auto reader = Await(follower);
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(Get(*reader, "key"), "19");
}

TEST_P(OnReplicas, AnOutcomeIsKnownAfterAPromotion) {  // the completion records travel with the groups
  Member primary = MakeMember("p"), follower = MakeMember("f");
  Start(follower, true);
  Start(primary, false, {&follower});
  {
    const auto client = Await(primary);
    ASSERT_NE(client, nullptr);
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(client->Increment("sum", 1).ok());
  }
  primary.server.reset();
  EXPECT_EQ(follower.server->server().store().Read(Metric::kClientsRemembered), 0);
  ASSERT_TRUE(Promote(follower).ok());
  EXPECT_GE(follower.server->server().store().Read(Metric::kClientsRemembered), 1);
  const auto reader = Await(follower);
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(Get(*reader, "sum"), "5");
}

INSTANTIATE_TEST_SUITE_P(On, OnReplicas,
                         testing::Values(rdma::TransportKind::kLocal, rdma::TransportKind::kTcp,
                                         rdma::TransportKind::kVerbs),
                         [](const auto& one) { return NameOf(one.param); });

}  // namespace
}  // namespace remora
