// Clients that reserve room for large values and do not keep to the rules, or to life.
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "tests/behaviour/behaviour_fixture.h"
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
  std::uint64_t Used() { return store().Read(Counter::kLogBytesUsed); }
  /// Pings until everything reserved has come back.
  void ExpectNothingReserved() {
    for (int i = 0; i < 100'000 && Used() >= kMiB; ++i) ASSERT_CODE(kOk, kv_->client()->Ping());
    EXPECT_LT(Used(), kMiB);
  }

  const std::string key_ = "large";
  const std::string value_ = std::string(2 * kMiB, 'v') + "end";
};

INSTANTIATE_TEST_SUITE_P(On, Grants,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kVerbs,
                                         DeploymentKind::kSim),
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
  ASSERT_ANSWER(kInvalid, hand->Ask(Operation::kCommit, key_.size() + 1, value_.size() - 1));
  ASSERT_ANSWER(kInvalid, hand->Commit(key_, value_));
  ExpectNothingReserved();
}

TEST_P(Grants, ACommitOfNothingGivesBackWhatWasReserved) {
  START();
  const auto hand = ByHand();
  const auto reserved = hand->Reserve(key_, value_);
  ASSERT_ANSWER(kOk, reserved);
  const std::uint64_t rejected = store().Read(Counter::kRejectedRequests);
  ASSERT_ANSWER(kOk, hand->Ask(Operation::kCommit, 0, 0));
  ExpectNothingReserved();
  ASSERT_ANSWER(kOk, hand->Ask(Operation::kCommit, 0, 0));
  EXPECT_EQ(store().Read(Counter::kRejectedRequests), rejected);
  ASSERT_ANSWER(kInvalid, hand->Commit(key_, value_));
}

TEST_P(Grants, BytesThatDoNotMatchTheCommitAreNotStored) {
  START();
  ASSERT_CODE(kOk, Put(key_, "before"));
  const auto hand = ByHand();
  const auto reserved = hand->Reserve(key_, value_);
  ASSERT_ANSWER(kOk, reserved);
  hand->Fill(reserved->grant(), key_, value_);
  Request commit = HandClient::MakeRequest(Operation::kCommit, key_.size(), value_.size());
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

TEST_P(Grants, WhatADeadClientReservedComesBack) {
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

TEST_P(Grants, WhatASlowClientReservedComesBack) {
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
  second->Post(HandClient::MakeRequest(Operation::kReserve, 3, 6 * kMiB));
  for (int i = 0; i < 100; ++i) ASSERT_CODE(kOk, Put("small", std::string(100'000, 's')));
  EXPECT_LT(Used(), 18 * kMiB);
  EXPECT_FALSE(second->Await(std::chrono::milliseconds(1)).has_value()) << "more than a quarter is reserved";
  first.reset();
  ASSERT_ANSWER(kOk, second->Await());
}

}  // namespace
}  // namespace remora
