// Clients without a token, or with one for reading alone, that try all the same.
#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "store/format/wire/scan_messages.h"
#include "tests/conformance/access_fixture.h"
#include "tests/support/hand_client.h"

namespace remora {
namespace {

class AccessAttack : public Access {
 protected:
  std::unique_ptr<HandClient> Enter(const HelloRequest& hello) {
    auto connection = deployment_->Dial();
    EXPECT_TRUE(connection.ok()) << connection.status();
    return std::make_unique<HandClient>(*std::move(connection), deployment_->clock(), hello);
  }
};
INSTANTIATE_TEST_SUITE_P(On, AccessAttack,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(AccessAttack, AHelloThatWasRecordedLetsNobodyIn) {
  START(With(Lines()), Holding(kWriter));
  const HelloRequest hello = ProvenAnew(kWriter);
  ASSERT_FALSE(RejectionOf(hello).has_value());
  ASSERT_CODE(kOk, kv_->client()->Ping());  // accepted connections are counted by now
  const std::uint64_t accepted = count(Metric::kConnectionsAccepted);
  for (const int seconds : {0, 5, 8, 12, 30}) {  // in its epoch, in the next one, and later
    deployment_->Advance(std::chrono::seconds(seconds));
    const auto rejection = RejectionOf(hello);
    ASSERT_TRUE(rejection.has_value()) << seconds;
    EXPECT_EQ(rejection->reason, RejectionReason::kChallenge);
  }
  // Nor does its proof under another name, or with other flags.
  HelloRequest changed = ProvenAnew(kWriter);
  changed.client = 77;
  EXPECT_TRUE(RejectionOf(changed).has_value());
  changed.client = 0;
  changed.flags |= HelloFlag::kReconnects;
  EXPECT_TRUE(RejectionOf(changed).has_value());
  changed.flags &= static_cast<std::uint8_t>(~HelloFlag::kReconnects);
  EXPECT_EQ(count(Metric::kConnectionsAccepted), accepted);
  EXPECT_FALSE(RejectionOf(changed).has_value());  // as it was made
  EXPECT_CODE(kOk, Put("key", "value"));
}

TEST_P(AccessAttack, NoncesOfOnesOwnOrOfOthersAreOfNoUse) {
  START(With(Lines()), Holding(kWriter));
  HelloNonce forged;
  forged.fill(std::byte{0x5a});
  const HelloRequest hello = Hello(0, 1);
  const auto rejection = RejectionOf(Proven(hello, forged, kWriter));
  ASSERT_TRUE(rejection.has_value());
  EXPECT_EQ(rejection->reason, RejectionReason::kChallenge);
  EXPECT_NE(rejection->nonce, forged);
  // Of another challenge.
  EXPECT_TRUE(RejectionOf(Proven(Hello(0, 2), rejection->nonce, kWriter)).has_value());
  // Too old by the time that it is used.
  deployment_->Advance(std::chrono::seconds(25));
  const auto later = RejectionOf(Proven(hello, rejection->nonce, kWriter));
  ASSERT_TRUE(later.has_value());
  EXPECT_NE(later->nonce, rejection->nonce);
  EXPECT_FALSE(RejectionOf(Proven(hello, later->nonce, kWriter)).has_value());
  // A nonce of the server before: it takes a secret of its own at each start.
  const auto before = RejectionOf(Hello(0, 3));
  kv_.reset();
  ASSERT_TRUE(deployment_->Restart().ok());
  EXPECT_TRUE(RejectionOf(Proven(Hello(0, 3), before->nonce, kWriter)).has_value());
}

TEST_P(AccessAttack, ProofsOfNoToken) {
  START(With(Lines()), Holding(kWriter));
  const std::uint64_t before = count(Metric::kRejectedToken);
  EXPECT_TRUE(RejectionOf(ProvenAnew(kStranger)).has_value());
  HelloRequest damaged = ProvenAnew(kWriter);
  for (std::byte& byte : damaged.proof) {
    byte ^= std::byte{1};
    EXPECT_TRUE(RejectionOf(damaged).has_value());
    byte ^= std::byte{1};
  }
  damaged.proof = {};
  EXPECT_TRUE(RejectionOf(damaged).has_value());
  const auto rejection = RejectionOf(HelloRequest());  // has none, and says so
  ASSERT_TRUE(rejection.has_value());
  EXPECT_EQ(rejection->reason, RejectionReason::kChallenge);
  EXPECT_THAT(rejection->text, testing::HasSubstr("token"));
  EXPECT_CODE(kOk, kv_->client()->Ping());
  EXPECT_EQ(count(Metric::kRejectedToken), before + 1 + sizeof(damaged.proof) + 2);
  EXPECT_EQ(count(Metric::kConnections), 1u);
  EXPECT_CODE(kOk, Put("key", "value"));
}

TEST_P(AccessAttack, AWriteWithATokenForReadingIsRejected) {
  START(With(Lines(), {.durability = Durability::kLogged}), Holding(kWriter));
  ASSERT_CODE(kOk, Put("key", "value"));
  const std::uint64_t version = count(Metric::kLastVersion);
  const auto reader = Enter(ProvenAnew(kReader));
  EXPECT_NE(reader->hello().flags & ReplyFlag::kReadOnly, 0u);
  EXPECT_EQ(reader->hello().staging.size, 0u);
  const std::string scan = [] {
    const ScanStart start{.kind = ScanKind::kDelete};
    return std::string(reinterpret_cast<const char*>(&start), sizeof(start));
  }();
  int denied = 0;
  const auto expect_denied = [&](const std::optional<HandClient::Answer>& answer, const char* what) {
    ASSERT_TRUE(answer.has_value()) << what;
    EXPECT_EQ(answer->status(), ReplyStatus::kPermissionDenied) << what;
    EXPECT_THAT(answer->behind, testing::HasSubstr("reading alone"));
    ++denied;
  };
  for (const Operation operation :
       {Operation::kPut, Operation::kDelete, Operation::kTouch, Operation::kIncrement, Operation::kAppend,
        Operation::kBatch, Operation::kMultiPut, Operation::kReserve, Operation::kPart,
        Operation::kFinishLargePut, Operation::kBackup}) {
    expect_denied(reader->AskInline(HandClient::MakeRequest(operation, 3, 5), "keyVALUE"),
                  std::to_string(static_cast<int>(operation)).c_str());
  }
  expect_denied(reader->AskInline(HandClient::MakeRequest(Operation::kScan, 0, scan.size()), scan),
                "deletion");
  EXPECT_EQ(count(Metric::kRequestsDenied), static_cast<std::uint64_t>(denied));
  EXPECT_EQ(Get("key"), "value");
  EXPECT_EQ(count(Metric::kLastVersion), version);

  // A payload outside of what it may have, or shorter than it says: rejected, and nobody falls.
  Request locate = HandClient::MakeRequest(Operation::kLocate, 3, 0);
  locate.payload_offset = ~std::uint64_t{0} - 1;
  EXPECT_EQ(reader->AskInline(locate, "key")->status(), ReplyStatus::kInvalid);
  locate.payload_offset = 0;
  locate.key_size = 4000;
  EXPECT_EQ(reader->AskInline(locate, "key")->status(), ReplyStatus::kCorrupt);
  locate.key_size = 3;
  EXPECT_EQ(reader->AskInline(locate, "key")->status(), ReplyStatus::kOk);
  // A message longer than any request.
  EXPECT_FALSE(reader->AskInline(locate, std::string(kMaxInlinePayload + 1, 'k')).has_value());
  EXPECT_CODE(kOk, Put("key", "value"));
}

TEST_P(AccessAttack, MemoryThatAReaderCouldWriteThereIsNone) {
  START(With(Lines()), Holding(kWriter));
  ASSERT_CODE(kOk, Put("key", "value"));
  {
    const auto reader = Enter(ProvenAnew(kReader));
    reader->Write(reader->hello().memory, 0, "here I am");
    EXPECT_FALSE(reader->Ask(Operation::kPing, 0, 0).has_value());  // its connection is over
  }
  EXPECT_EQ(Get("key"), "value");
  EXPECT_CODE(kOk, Put("key", "other"));
}

TEST_P(AccessAttack, NobodyElseCanWriteToAStagingBuffer) {
  START(With(Lines()), Holding(kWriter));
  const auto owner = Enter(ProvenAnew(kWriter));
  ASSERT_EQ(owner->Put("key", "value")->status(), ReplyStatus::kOk);
  EXPECT_EQ(count(Metric::kStagingBuffersBound), 2u);
  for (const char* const token : {kReader, kWriter}) {
    const auto other = Enter(ProvenAnew(token));
    owner->Write(owner->hello().staging, 0, "keyVALUE");
    ASSERT_TRUE(owner->Ask(Operation::kPing, 0, 0).has_value());  // it is there
    EXPECT_EQ(count(Metric::kStagingBuffersBound), token == kWriter ? 3u : 2u);
    other->Write(owner->hello().staging, 4, "x");
    // Over the local transport each client's staging buffer has the same name: it has written to its own.
    const bool has_own = GetParam() == DeploymentKind::kLocal && token == kWriter;
    EXPECT_EQ(other->Ask(Operation::kPing, 0, 0).has_value(), has_own);
    const auto answer = owner->CommitPut("key", "VALUE");
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->status(), ReplyStatus::kOk);
    EXPECT_EQ(Get("key"), "VALUE");
  }
  EXPECT_EQ(count(Metric::kStagingBuffersUnbound), 0u);
}

// Over verbs without memory windows, a client that knows another's key may WRITE to its staging buffer
// (ARCHITECTURE.md, Trust). The server does not store the bytes that it spoils.
TEST_P(AccessAttack, AStagingBufferThatAnotherClientChangedIsNotStored) {
  START(With(Lines(), {.memory_windows = rdma::MemoryWindows::kOff}), Holding(kWriter));
  const auto owner = Enter(ProvenAnew(kWriter));
  ASSERT_EQ(owner->Put("key", "value")->status(), ReplyStatus::kOk);
  const auto other = Enter(ProvenAnew(kReader));
  owner->Write(owner->hello().staging, 0, "keyVALUE");
  ASSERT_TRUE(owner->Ask(Operation::kPing, 0, 0).has_value());  // it is there
  other->Write(owner->hello().staging, 4, "x");
  const bool was_let = other->Ask(Operation::kPing, 0, 0).has_value();
  EXPECT_EQ(was_let, GetParam() == DeploymentKind::kVerbs);
  EXPECT_EQ(count(Metric::kStagingBuffersUnbound), was_let ? 2u : 0u);
  const auto answer = owner->CommitPut("key", "VALUE");
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status(), was_let ? ReplyStatus::kCorrupt : ReplyStatus::kOk);
  EXPECT_EQ(Get("key"), was_let ? "value" : "VALUE");
}

TEST_P(AccessAttack, ANameIsOfUseOnlyWithItsToken) {
  START(With(Lines()), Holding(kWriter));
  const auto owner = Enter(ProvenAnew(kWriter, 4711));
  const auto thief = RejectionOf(ProvenAnew(kReader, 4711));
  ASSERT_TRUE(thief.has_value());
  EXPECT_EQ(thief->reason, RejectionReason::kForgotten);
  EXPECT_TRUE(owner->Ask(Operation::kPing, 0, 0).has_value());  // and still connected
}

}  // namespace
}  // namespace remora
