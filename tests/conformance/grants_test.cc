// Clients that reserve space for large values and do not keep to the rules, or to life.
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/conformance/conformance_fixture.h"
#include "tests/support/hand_client.h"
#include "tests/support/sizes.h"

namespace remora {
namespace {

class Grants : public Behaviour {
 protected:
  std::unique_ptr<HandClient> ByHand() {
    auto connection = deployment_->Dial();
    EXPECT_TRUE(connection.ok()) << connection.status();
    return std::make_unique<HandClient>(*std::move(connection), deployment_->clock());
  }
  bool CanGrant() const { return GetParam() != DeploymentKind::kLocal; }
  std::uint64_t Used() { return store().Read(Metric::kLogBytesUsed); }
  /// Pings until everything reserved has come back.
  void ExpectNothingReserved() {
    for (int i = 0; i < 100'000 && Used() >= kMiB; ++i) ASSERT_CODE(kOk, kv_->client()->Ping());
    EXPECT_LT(Used(), kMiB);
  }

  /// Returns when the server has the request; pings may overtake it.
  void PostAndArrive(HandClient& hand, const Request& request) {
    const std::uint64_t before = store().Read(Metric::kReceiveCompletions);
    hand.Post(request);
    std::uint64_t pings = 0;
    do {
      ASSERT_CODE(kOk, kv_->client()->Ping());
      ++pings;
    } while (store().Read(Metric::kReceiveCompletions) <= before + pings);
    ASSERT_CODE(kOk, kv_->client()->Ping());  // behind the step that took it
  }

  /// Returns the answer to a reserve that was posted. Where its turn does not come in time, it is asked for
  /// anew, as a client does.
  static std::optional<HandClient::Answer> AwaitTurn(HandClient& hand, const Request& request) {
    for (;;) {
      const std::optional<HandClient::Answer> answer = hand.Await();
      if (!answer.has_value() || answer->status() != ReplyStatus::kAskAgain) return answer;
      hand.Post(request);
    }
  }

  const std::string key_ = "large";
  const std::string value_ = std::string(2 * kMiB, 'v') + "end";
};

INSTANTIATE_TEST_SUITE_P(On, Grants,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(Grants, APutByHandIsAPut) {
  START();
  const auto hand = ByHand();
  const auto reserved = hand->Reserve(key_, value_);
  ASSERT_ANSWER(kOk, reserved);
  EXPECT_EQ(reserved->grant().size, CanGrant() ? key_.size() + value_.size() : 0);
  EXPECT_GT(Used(), 2 * kMiB) << "what is reserved is used";
  hand->Fill(reserved->grant(), key_, value_);
  EXPECT_CODE(kNotFound, GetStatus(key_));
  ASSERT_ANSWER(kOk, hand->Commit(key_, value_));
  EXPECT_TRUE(Get(key_) == value_);
}

TEST_P(Grants, SizesOutOfBoundsAreInvalid) {
  START();
  const auto hand = ByHand();
  ASSERT_ANSWER(kInvalid, hand->Ask(Operation::kReserve, 0, kMiB));
  ASSERT_ANSWER(kInvalid, hand->Ask(Operation::kReserve, kMaxKeySize + 1, kMiB));
  ASSERT_ANSWER(kInvalid, hand->Ask(Operation::kReserve, 3, kMaxSmallValueSize));
  ASSERT_ANSWER(kInvalid, hand->Ask(Operation::kReserve, 3, kMaxValueSize + 1));
  ASSERT_ANSWER(kFull, hand->Ask(Operation::kReserve, 3, kMaxValueSize));  // the memory is smaller
  ExpectNothingReserved();
}

TEST_P(Grants, ACommitWithoutAReserveIsInvalid) {
  START();
  const auto hand = ByHand();
  ASSERT_ANSWER(kInvalid, hand->Commit(key_, value_));
  EXPECT_CODE(kNotFound, GetStatus(key_));
}

TEST_P(Grants, ACommitOfOtherSizesIsInvalidAndEndsIt) {
  START();
  const auto hand = ByHand();
  const auto reserved = hand->Reserve(key_, value_);
  ASSERT_ANSWER(kOk, reserved);
  hand->Fill(reserved->grant(), key_, value_);
  ASSERT_ANSWER(kInvalid, hand->Ask(Operation::kFinishLargePut, key_.size() + 1, value_.size() - 1));
  ASSERT_ANSWER(kInvalid, hand->Commit(key_, value_));
  ExpectNothingReserved();
}

TEST_P(Grants, ACommitOfNothingGivesBackWhatWasReserved) {
  START();
  const auto hand = ByHand();
  const auto reserved = hand->Reserve(key_, value_);
  ASSERT_ANSWER(kOk, reserved);
  const std::uint64_t rejected = store().Read(Metric::kRejectedRequests);
  ASSERT_ANSWER(kOk, hand->Ask(Operation::kFinishLargePut, 0, 0));
  ExpectNothingReserved();
  ASSERT_ANSWER(kOk, hand->Ask(Operation::kFinishLargePut, 0, 0));
  EXPECT_EQ(store().Read(Metric::kRejectedRequests), rejected);
  ASSERT_ANSWER(kInvalid, hand->Commit(key_, value_));
}

TEST_P(Grants, BytesThatDoNotMatchTheCommitAreNotStored) {
  START();
  ASSERT_CODE(kOk, Put(key_, "before"));
  const auto hand = ByHand();
  const auto reserved = hand->Reserve(key_, value_);
  ASSERT_ANSWER(kOk, reserved);
  hand->Fill(reserved->grant(), key_, value_);
  Request commit = HandClient::MakeRequest(Operation::kFinishLargePut, key_.size(), value_.size());
  commit.payload_checksum = 1;
  ASSERT_ANSWER(kCorrupt, hand->Ask(commit));
  EXPECT_EQ(Get(key_), "before");
  ASSERT_ANSWER(kInvalid, hand->Commit(key_, value_));
  ExpectNothingReserved();
}

TEST_P(Grants, ANewReserveReplacesTheOneBefore) {
  START();
  const auto hand = ByHand();
  const auto first = hand->Reserve(key_, value_);
  ASSERT_ANSWER(kOk, first);
  const std::uint64_t used = Used();
  const auto second = hand->Reserve(key_, value_);
  ASSERT_ANSWER(kOk, second);
  EXPECT_EQ(Used(), used);
  hand->Fill(second->grant(), key_, value_);
  ASSERT_ANSWER(kOk, hand->Commit(key_, value_));
  EXPECT_TRUE(Get(key_) == value_);
}

TEST_P(Grants, AGrantThatEndedCannotBeWritten) {
  START();
  if (!CanGrant()) GTEST_SKIP() << "the local transport grants nothing";
  const auto hand = ByHand();
  const auto reserved = hand->Reserve(key_, value_);
  ASSERT_ANSWER(kOk, reserved);
  hand->Fill(reserved->grant(), key_, value_);
  ASSERT_ANSWER(kOk, hand->Commit(key_, value_));
  hand->Write(reserved->grant(), 100, "evil");
  EXPECT_FALSE(hand->Ask(Operation::kPing, 0, 0).has_value()) << "the connection should have ended";
  EXPECT_TRUE(Get(key_) == value_);
}

TEST_P(Grants, NobodyElseCanWriteToAGrant) {
  START();
  if (!CanGrant()) GTEST_SKIP() << "the local transport grants nothing";
  const auto owner = ByHand();
  const auto reserved = owner->Reserve(key_, value_);
  ASSERT_ANSWER(kOk, reserved);
  owner->Fill(reserved->grant(), key_, value_);
  for (const bool has_a_grant : {false, true}) {
    const auto other = ByHand();
    if (has_a_grant) {
      ASSERT_ANSWER(kOk, other->Reserve("other", std::string(kMiB, 'o')));
    }
    other->Write(reserved->grant(), 100, "evil");
    EXPECT_FALSE(other->Ask(Operation::kPing, 0, 0).has_value()) << "the connection should have ended";
  }
  ASSERT_ANSWER(kOk, owner->Commit(key_, value_));
  EXPECT_TRUE(Get(key_) == value_);
}

TEST_P(Grants, AGrantCoversNothingButKeyAndValue) {
  START();
  if (!CanGrant()) GTEST_SKIP() << "the local transport grants nothing";
  for (const bool before : {true, false}) {
    const auto hand = ByHand();
    const auto reserved = hand->Reserve(key_, value_);
    ASSERT_ANSWER(kOk, reserved);
    RemoteRegion wider = reserved->grant();
    wider.size += 64;
    if (before) wider.address -= 32;
    hand->Write(wider, before ? 0 : key_.size() + value_.size(), "evil");
    EXPECT_FALSE(hand->Ask(Operation::kPing, 0, 0).has_value()) << "the connection should have ended";
  }
  ExpectNothingReserved();
}

TEST_P(Grants, PartsThatAreNotAskedForAreInvalid) {
  START();
  const auto hand = ByHand();
  ASSERT_ANSWER(kInvalid, hand->Ask(Operation::kPart, 0, 100));
  const auto reserved = hand->Reserve(key_, value_);
  ASSERT_ANSWER(kOk, reserved);
  if (CanGrant()) {
    ASSERT_ANSWER(kInvalid, hand->Ask(Operation::kPart, 0, 100));
    return;
  }
  ASSERT_ANSWER(kInvalid, hand->Ask(Operation::kPart, 0, kMaxPayloadSize + 8192));
  ExpectNothingReserved();
  const std::string least(kMaxSmallValueSize + 1, 'v');
  ASSERT_ANSWER(kOk, hand->Reserve(key_, least));
  ASSERT_ANSWER(kOk, hand->Ask(Operation::kPart, 0, kMaxSmallValueSize));
  ASSERT_ANSWER(kInvalid, hand->Ask(Operation::kPart, 0, key_.size() + 2));  // one byte more than is left
  ExpectNothingReserved();
}

TEST_P(Grants, SpaceOfADeadClientIsReleased) {
  START();
  {
    const auto hand = ByHand();
    const auto reserved = hand->Reserve(key_, value_);
    ASSERT_ANSWER(kOk, reserved);
    hand->Fill(reserved->grant(), key_, value_);
  }
  ExpectNothingReserved();
  EXPECT_CODE(kNotFound, GetStatus(key_));
}

TEST_P(Grants, SpaceOfASlowClientIsReleased) {
  START();
  const auto hand = ByHand();
  const auto reserved = hand->Reserve(key_, value_);
  ASSERT_ANSWER(kOk, reserved);
  hand->Fill(reserved->grant(), key_, value_);
  deployment_->Advance(std::chrono::seconds(kReservationSeconds) - std::chrono::seconds(1));
  ASSERT_CODE(kOk, kv_->client()->Ping());
  EXPECT_GT(Used(), kMiB);
  deployment_->Advance(std::chrono::seconds(2));
  ExpectNothingReserved();
  ASSERT_ANSWER(kInvalid, hand->Commit(key_, value_));
  EXPECT_CODE(kNotFound, GetStatus(key_));
}

TEST_P(Grants, OnlySoMuchIsReservedAtOnceAndOtherWritesGoOn) {
  START({.memory_size = 32 * kMiB});
  auto first = ByHand();
  ASSERT_ANSWER(kOk, first->Ask(Operation::kReserve, 3, 6 * kMiB));
  const auto second = ByHand();
  const Request request = HandClient::MakeRequest(Operation::kReserve, 3, 6 * kMiB);
  second->Post(request);
  for (int i = 0; i < 100; ++i) ASSERT_CODE(kOk, Put("small", std::string(100'000, 's')));
  EXPECT_LT(Used(), 18 * kMiB);
  const auto early = second->Await(std::chrono::milliseconds(1));
  EXPECT_TRUE(!early.has_value() || early->status() == ReplyStatus::kAskAgain)
      << "more than a quarter is reserved";
  first.reset();
  ASSERT_ANSWER(kOk, AwaitTurn(*second, request));
}

// --- Turns: as much is reserved as may be -----------------------------------------------------------------

// Two of these do not fit into a quarter of the memory, nor one and 2 MiB, with its key.
constexpr std::size_t kReservable = 8 * kMiB;
constexpr std::size_t kMostOfThat = 6 * kMiB;

Request ReserveRequest(std::size_t size) { return HandClient::MakeRequest(Operation::kReserve, 3, size); }

TEST_P(Grants, FrozenClientsKeepOthersWaitingForOneTermHoweverManyTheyAre) {
  START({.memory_size = 4 * kReservable});
  std::vector<std::unique_ptr<HandClient>> frozen;
  for (int i = 0; i < 6; ++i) {
    frozen.push_back(ByHand());
    ASSERT_NO_FATAL_FAILURE(PostAndArrive(*frozen.back(), ReserveRequest(kMostOfThat)));
  }
  ASSERT_ANSWER(kOk, frozen.front()->Await());
  const auto living = ByHand();
  std::optional<HandClient::Answer> answer;
  std::int64_t waited_s = 0;
  do {
    ASSERT_NO_FATAL_FAILURE(PostAndArrive(*living, ReserveRequest(2 * kMiB)));
    deployment_->Advance(std::chrono::seconds(kTurnSeconds));
    waited_s += kTurnSeconds;
    answer = living->Await();
    ASSERT_TRUE(answer.has_value()) << "nothing was said for a turn";
  } while (answer->status() == ReplyStatus::kAskAgain && waited_s <= kReservationSeconds);
  ASSERT_ANSWER(kOk, answer);
  EXPECT_LE(waited_s, kReservationSeconds);
}

TEST_P(Grants, AClientThatReservesAnewKeepsNobodyWaitingForWhatItGaveUp) {
  START({.memory_size = 4 * kReservable});
  const auto first = ByHand();
  ASSERT_ANSWER(kOk, first->Ask(ReserveRequest(kMostOfThat)));
  const auto second = ByHand();
  ASSERT_NO_FATAL_FAILURE(PostAndArrive(*second, ReserveRequest(kMostOfThat)));
  ASSERT_NO_FATAL_FAILURE(PostAndArrive(*first, ReserveRequest(kMostOfThat)));
  ASSERT_ANSWER(kOk, AwaitTurn(*second, ReserveRequest(kMostOfThat)));
}

// Where only the test lets time pass.
class GrantTurns : public Grants {};
INSTANTIATE_TEST_SUITE_P(On, GrantTurns, testing::Values(DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(GrantTurns, AClientThatAsksAgainKeepsItsTurn) {
  START({.memory_size = 4 * kReservable});
  auto first = ByHand();
  ASSERT_ANSWER(kOk, first->Ask(ReserveRequest(kMostOfThat)));
  const auto second = ByHand();
  ASSERT_NO_FATAL_FAILURE(PostAndArrive(*second, ReserveRequest(kMostOfThat)));
  const auto third = ByHand();
  ASSERT_NO_FATAL_FAILURE(PostAndArrive(*third, ReserveRequest(4 * kMiB)));
  for (int turn = 0; turn < 3; ++turn) {
    deployment_->Advance(std::chrono::seconds(kTurnSeconds));
    ASSERT_ANSWER(kAskAgain, second->Await());
    ASSERT_ANSWER(kAskAgain, third->Await());
    ASSERT_NO_FATAL_FAILURE(PostAndArrive(*third, ReserveRequest(4 * kMiB)));
    ASSERT_NO_FATAL_FAILURE(PostAndArrive(*second, ReserveRequest(kMostOfThat)));
  }
  first.reset();
  ASSERT_ANSWER(kOk, second->Await());
}

TEST_P(GrantTurns, OneReserveOfAClientWaits) {
  START({.memory_size = 4 * kReservable});
  const auto first = ByHand();
  ASSERT_ANSWER(kOk, first->Ask(ReserveRequest(kMostOfThat)));
  const auto second = ByHand();
  ASSERT_NO_FATAL_FAILURE(PostAndArrive(*second, ReserveRequest(kMostOfThat)));
  ASSERT_ANSWER(kInvalid, second->Ask(ReserveRequest(kMostOfThat)));
}

TEST_P(GrantTurns, ATermBeginsWhenTheSpaceIsAskedFor) {
  START({.memory_size = 4 * kReservable});
  auto first = ByHand();
  ASSERT_ANSWER(kOk, first->Ask(ReserveRequest(kMostOfThat)));
  const auto second = ByHand();
  ASSERT_NO_FATAL_FAILURE(PostAndArrive(*second, ReserveRequest(kMostOfThat)));
  constexpr std::chrono::milliseconds kWaited{900};
  deployment_->Advance(kWaited);
  first.reset();
  ASSERT_ANSWER(kOk, second->Await());
  deployment_->Advance(std::chrono::seconds(kReservationSeconds) - kWaited);
  ExpectNothingReserved();
}

TEST_P(GrantTurns, APutWaitsForItsTurnAsLongAsItMay) {
  START({.memory_size = 4 * kReservable});
  const auto frozen = ByHand();
  ASSERT_ANSWER(kOk, frozen->Ask(ReserveRequest(kReservable)));
  const TimePoint start = deployment_->clock().Now();
  const auto hasty = Connect({.timeout = std::chrono::seconds(5)});
  EXPECT_CODE(kDeadlineExceeded, hasty->Put(key_, value_));
  const TimePoint given_up = deployment_->clock().Now();
  EXPECT_GE(given_up - start, std::chrono::seconds(5));
  EXPECT_LE(given_up - start, std::chrono::seconds(6));
  const auto patient = Connect({.timeout = std::chrono::seconds(60)});
  EXPECT_CODE(kOk, patient->Put(key_, value_));
  EXPECT_LE(deployment_->clock().Now() - start, std::chrono::seconds(kReservationSeconds + 1));
  EXPECT_TRUE(Get(key_) == value_);
}

}  // namespace
}  // namespace remora
