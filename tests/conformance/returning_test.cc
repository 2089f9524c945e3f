// Clients that come again under the name that they had: one connection at a time, what they are told of their
// writes, and how long they are remembered.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tests/conformance/conformance_fixture.h"
#include "tests/simulation/sim_served.h"
#include "tests/support/hand_client.h"
#include "tests/support/server_thread.h"
#include "tests/support/sizes.h"

namespace remora {
namespace {

class Returning : public SimServed, public testing::Test {
 protected:
  Returning() : SimServed(/*seed=*/3) {
    options_.store.memory_size = 16 * kMiB;
    options_.store.clock = &network_.clock();
    hello_.client = 4711;
  }
  std::unique_ptr<HandClient> ByHand(bool returns) {
    hello_.flags = returns ? HelloFlag::kReconnects : 0;
    return std::make_unique<HandClient>(network_.Dial(), network_.clock(), hello_);
  }
  std::uint64_t Count(Metric counter) { return server_->store().Read(counter); }

  ServerOptions options_;
  HelloRequest hello_;
};

TEST_F(Returning, AWriteThatWasGivenUpNeverComesBehindALaterOne) {
  Serve(options_);
  const auto client = Connect({});
  ASSERT_CODE(kOk, client->Put("key", "before"));
  network_.set_step([] {});  // the server stands still
  EXPECT_CODE(kDeadlineExceeded, client->Put("key", "given up"));
  network_.set_step([this] { server_->Step(); });
  ASSERT_CODE(kOk, client->Put("key", "later"));
  for (int i = 0; i < 2 * SimNetwork::kLate; ++i) server_->Step();
  EXPECT_EQ(client->Get("key").value_or("none"), "later");
  EXPECT_EQ(client->counters().reconnects, 1u);
}

TEST_F(Returning, TheSameNameAgainEndsTheConnectionBefore) {
  Serve(options_);
  const auto first = ByHand(false);
  ASSERT_ANSWER(kOk, first->Put("key", "1"));
  const auto second = ByHand(true);
  EXPECT_FALSE(first->Ask(Operation::kPing, 0, 0).has_value()) << "both are connected";
  second->set_last_id(10);
  ASSERT_ANSWER(kOk, second->Put("key", "2"));
  EXPECT_EQ(Count(Metric::kConnections), 1u);
  EXPECT_EQ(Count(Metric::kClientsRemembered), 1u);
}

TEST_F(Returning, AClientThatReturnsDoesNotCountTwice) {
  options_.max_clients = 1;
  Serve(options_);
  const auto first = ByHand(false);
  const auto second = ByHand(true);
  ASSERT_ANSWER(kOk, second->Ask(Operation::kPing, 0, 0));
}

TEST_F(Returning, OneThatIsCutOffAndAsksForNothingGivesItsPlaceBack) {
  options_.max_clients = 1;
  Serve(options_);
  const auto gone = Connect({});
  ASSERT_TRUE(network_.CutOne(0, SimNetwork::Cut::kClient));
  for (int i = 0; i < 4; ++i) {
    server_->Step();
    EXPECT_EQ(Count(Metric::kConnections), 1u) << "nothing says that it is gone";
    network_.Advance(std::chrono::seconds(1));
  }
  // Until the server asks whether it is there.
  for (int i = 0; i < 4; ++i) {
    network_.Advance(std::chrono::seconds(1));
    server_->Step();
  }
  ASSERT_EQ(Count(Metric::kConnections), 0u);
  ASSERT_CODE(kOk, Connect({})->Put("key", "value"));
}

TEST_F(Returning, ItIsToldWhatBecameOfItsWrites) {
  Serve(options_);
  const auto first = ByHand(false);
  const auto put = first->Put("key", "1");
  ASSERT_ANSWER(kOk, put);
  const std::uint64_t id = put->reply.request_id;
  const auto second = ByHand(true);
  second->set_last_id(id + 5);
  const auto told = second->AskForOutcome(id);
  ASSERT_ANSWER(kOk, told);
  EXPECT_EQ(told->reply.version, put->reply.version);
  // It never sent that one, or it was not done; and it cannot be any more.
  ASSERT_ANSWER(kNotFound, second->AskForOutcome(id + 4));
}

TEST_F(Returning, ItIsToldWhatBecameOfEachPutOfAListWithIds) {
  Serve(options_);
  WriteBatch list;
  list.Put("a", "1");
  list.Put("b", "2", {.condition = Condition::Present()});
  list.Put("c", "3");
  Request request = HandClient::MakeRequest(Operation::kMultiPut, 0, list.bytes().size());
  request.put_count = 3;
  const auto first = ByHand(false);
  first->Write(first->hello().staging, 0, list.bytes());
  first->set_last_id(6);
  const auto without = first->AskChecked(request, list.bytes());  // 7
  ASSERT_ANSWER(kOk, without);
  request.put_ids = 3;
  first->set_last_id(9);
  const auto with = first->AskChecked(request, list.bytes());  // 8 to 10
  ASSERT_ANSWER(kOk, with);
  EXPECT_EQ(with->reply.version, without->reply.version + 2);
  const auto second = ByHand(true);
  second->set_last_id(20);
  ASSERT_ANSWER(kNotFound, second->AskForOutcome(7));
  const auto told = second->AskForOutcome(8);
  ASSERT_ANSWER(kOk, told);
  EXPECT_EQ(told->reply.version, with->reply.version);
  ASSERT_ANSWER(kNotFound, second->AskForOutcome(9));
  const auto last = second->AskForOutcome(10);
  ASSERT_ANSWER(kOk, last);
  EXPECT_EQ(last->reply.version, with->reply.version + 1);
}

TEST_F(Returning, ACompletionRecordThatWasReplacedIsUnknown) {
  Serve(options_);
  auto hand = ByHand(false);
  const auto first = hand->Put("key", "0");
  ASSERT_ANSWER(kOk, first);
  const std::uint64_t id = first->reply.request_id;
  std::uint64_t last = id;
  for (std::size_t i = 1; i <= kCompletionsPerClient; ++i) {
    const auto put = hand->Put("key", std::to_string(i));
    ASSERT_ANSWER(kOk, put);
    last = put->reply.request_id;
  }
  hand = ByHand(true);
  hand->set_last_id(last);
  ASSERT_ANSWER(kUnknown, hand->AskForOutcome(id));
  ASSERT_ANSWER(kOk, hand->AskForOutcome(last));
  EXPECT_EQ(Count(Metric::kCompletionsUnknown), 1u);
  EXPECT_EQ(Count(Metric::kCompletionsTold), 1u);
}

TEST_F(Returning, AQueryOfNoEarlierWriteIsInvalid) {
  Serve(options_);
  const auto hand = ByHand(false);
  ASSERT_ANSWER(kOk, hand->Put("key", "1"));
  ASSERT_ANSWER(kInvalid, hand->AskForOutcome(0));
  ASSERT_ANSWER(kInvalid, hand->AskForOutcome(1));  // of this connection: it may be in flight
  ASSERT_ANSWER(kInvalid, hand->AskForOutcome(1'000'000));
  hello_.client = 0;
  const auto nobody = ByHand(false);
  nobody->set_last_id(7);
  ASSERT_ANSWER(kInvalid, nobody->AskForOutcome(1));
  EXPECT_EQ(Count(Metric::kCompletionsTold), 0u);
}

TEST_F(Returning, AnotherClientsWritesAreNotItsOwn) {
  Serve(options_);
  const auto other = ByHand(false);
  const auto put = other->Put("key", "1");
  ASSERT_ANSWER(kOk, put);
  ++hello_.client;
  auto hand = ByHand(false);
  hand = ByHand(true);
  hand->set_last_id(100);
  ASSERT_ANSWER(kNotFound, hand->AskForOutcome(put->reply.request_id));
}

TEST_F(Returning, AClientWithoutIncreasingRequestIdsIsDropped) {
  Serve(options_);
  auto hand = ByHand(false);
  hand->set_last_id(10);
  ASSERT_ANSWER(kOk, hand->Put("key", "1"));
  hand = ByHand(true);
  EXPECT_FALSE(hand->Put("key", "2").has_value());
  WriteBatch list;
  for (int i = 0; i < 3; ++i) list.Put("key", "of a list");
  Request request = HandClient::MakeRequest(Operation::kMultiPut, 0, list.bytes().size());
  request.put_count = request.put_ids = 3;
  for (const std::uint64_t last : {2u, 11u, 12u, 13u}) {
    SCOPED_TRACE(last);
    hand = ByHand(true);
    hand->Write(hand->hello().staging, 0, list.bytes());
    hand->set_last_id(last - 1);
    EXPECT_FALSE(hand->AskChecked(request, list.bytes()).has_value()) << "11 was taken, and 0 is none";
  }
  const auto client = Connect({});
  EXPECT_EQ(client->Get("key").value_or("none"), "1");
}

TEST_F(Returning, AStrangerThatSaysItReturnsIsRejected) {
  Serve(options_);
  const auto connection = network_.Dial();
  hello_.flags = HelloFlag::kReconnects;
  EXPECT_CODE(kFailedPrecondition,
              connection->Connect(AsBytes(hello_), network_.clock().Now() + std::chrono::seconds(1)));
  HelloRejection rejection;
  ASSERT_TRUE(FromBytes(connection->peer_data(), &rejection));
  EXPECT_EQ(rejection.reason, RejectionReason::kForgotten);
  EXPECT_EQ(Count(Metric::kClientsForgotten), 1u);
  EXPECT_EQ(Count(Metric::kRejectedForgotten), 1u);
}

TEST_F(Returning, AForgottenClientGetsUnknown) {
  options_.remembered_clients = 1;
  Serve(options_);
  bool others_come = false;
  const auto dial = [&](TimePoint) -> absl::StatusOr<std::unique_ptr<rdma::ClientConnection>> {
    if (others_come) {
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(Connect({})->Ping().ok());
    }
    return network_.Dial();
  };
  auto client = Client::Connect(dial, {}, network_.clock());
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE((*client)->Increment("sum", 1).ok());
  others_come = true;
  bool all = false;
  int unknown = 0;
  std::int64_t sum = 1;
  for (std::uint64_t event = 1; !all; ++event) {
    network_.CutAt(event, SimNetwork::Cut::kBoth);
    const auto added = (*client)->Increment("sum", 1);
    all = network_.is_cut_due();
    network_.CutAt(0, SimNetwork::Cut::kBoth);
    const auto now = (*client)->Get("sum");
    ASSERT_TRUE(now.ok()) << now.status();
    if (added.ok()) {
      ASSERT_EQ(*added, sum + 1);
      sum = *added;
    } else {
      ASSERT_CODE(kUnknown, added.status());
      ++unknown;
      ASSERT_TRUE(*now == std::to_string(sum) || *now == std::to_string(sum + 1)) << *now;
      sum = std::stoll(*now);
    }
    ASSERT_EQ(*now, std::to_string(sum));
  }
  EXPECT_GT(unknown, 1);
  EXPECT_GT(Count(Metric::kClientsForgotten), 1u);
  EXPECT_LE(Count(Metric::kClientsRemembered), 4u);
}

TEST_F(Returning, ItsNameSurvivesARestartOfALoggedServerUntilItIsForgotten) {
  const TempDir dir;
  options_.store.durability = Durability::kLogged;
  options_.store.data_dir = dir.path() + "/data";
  options_.remembered_clients = 2;
  Serve(options_);
  std::uint64_t id = 0;
  {
    const auto hand = ByHand(false);
    const auto put = hand->Put("key", "1");
    ASSERT_ANSWER(kOk, put);
    id = put->reply.request_id;
  }
  server_.reset();
  Serve(options_);
  EXPECT_EQ(Count(Metric::kClientsRemembered), 1u);
  {
    const auto hand = ByHand(true);
    hand->set_last_id(id + 1);
    ASSERT_ANSWER(kOk, hand->AskForOutcome(id));
    ASSERT_ANSWER(kNotFound, hand->AskForOutcome(id + 1));
  }
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Connect({})->Ping().ok());
  EXPECT_LE(Count(Metric::kClientsRemembered), 4u);
  server_.reset();
  Serve(options_);
  EXPECT_LE(Count(Metric::kClientsRemembered), 4u);
  const auto connection = network_.Dial();
  hello_.flags = HelloFlag::kReconnects;
  EXPECT_CODE(kFailedPrecondition,
              connection->Connect(AsBytes(hello_), network_.clock().Now() + std::chrono::seconds(1)));
}

}  // namespace
}  // namespace remora
