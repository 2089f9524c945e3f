// Peers that use the device itself against the server: accesses that nobody granted, and handshakes that stop
// half way.
#include <memory>
#include <string>
#include <vector>

#include "store/format/memory/layout.h"
#include "tests/adversarial/adversarial_fixture.h"
#include "tests/adversarial/raw_verbs.h"

namespace remora {
namespace {

class VerbsAttack : public Hostile {
 protected:
  std::unique_ptr<RawVerbs> EnterRaw() {
    auto peer = std::make_unique<RawVerbs>(served_->where(), true);
    EXPECT_TRUE(peer->Join());
    return peer;
  }
  /// The device rejects it, and the connection is over.
  void ExpectRejected(ibv_wr_opcode operation, std::uint64_t address, std::uint32_t key, std::size_t size,
                      const std::string& what) {
    const auto peer = EnterRaw();
    ExpectRejectedOf(*peer, operation, address, key, size, what);
  }
  void ExpectRejectedOf(RawVerbs& peer, ibv_wr_opcode operation, std::uint64_t address, std::uint32_t key,
                        std::size_t size, const std::string& what) {
    const std::string evil(size, 'e');
    const ibv_wc_status status = peer.Do(operation, address, key, evil);
    EXPECT_NE(status, IBV_WC_SUCCESS) << what;
    EXPECT_EQ(peer.bytes(size), evil) << what << ": something came";
    SCOPED_TRACE(what);
    ExpectBroken(1);  // while the peer is there: one that hangs up first has hung up, whatever it did before
    EXPECT_TRUE(peer.AwaitEnd());
  }
};
INSTANTIATE_TEST_SUITE_P(On, VerbsAttack, testing::Values(rdma::TransportKind::kVerbs),
                         [](const auto&) { return std::string("verbs"); });

TEST_P(VerbsAttack, AccessesThatNobodyGranted) {
  START_HOSTILE();
  const auto owner = EnterRaw();
  ASSERT_TRUE(owner->Put(1, "owned", "value").has_value());
  const RemoteRegion memory = owner->hello().memory;
  const RemoteRegion staging = owner->hello().staging;
  // Keys of 8 random bits each: only those that are nobody's, lest the guess be right.
  for (const std::uint32_t change : {0x01u, 0xffu, 0x3300u}) {
    ExpectRejected(IBV_WR_RDMA_READ, memory.address, memory.key ^ change, 64, "a READ with a guessed key");
    ExpectRejected(IBV_WR_RDMA_WRITE, staging.address, staging.key ^ change, 64,
                   "a WRITE with a guessed key");
  }
  ExpectRejected(IBV_WR_RDMA_READ, memory.address, 0, 64, "a READ with the key 0");
  ExpectRejected(IBV_WR_RDMA_READ, memory.address + memory.size - 32, memory.key, 64, "a READ past the end");
  ExpectRejected(IBV_WR_RDMA_READ, memory.address - 8, memory.key, 64, "a READ before the beginning");
  ExpectRejected(IBV_WR_RDMA_READ, ~std::uint64_t{0} - 16, memory.key, 64,
                 "a READ around the end of all memory");
  ExpectRejected(IBV_WR_RDMA_WRITE, memory.address + kSuperblockSize, memory.key, 64,
                 "a WRITE to what is to READ");
  const auto own = [&](std::size_t offset) { return staging.address + offset; };
  ExpectRejectedOf(*EnterRaw(), IBV_WR_RDMA_WRITE, own(staging.size - 8), staging.key, 64,
                   "a WRITE past a staging buffer's end");
  ExpectRejectedOf(*EnterRaw(), IBV_WR_RDMA_READ, own(0), staging.key, 64, "a READ of a staging buffer");
  EXPECT_TRUE(owner->Put(2, "owned", "still").has_value());
  ExpectNobodyElseHarmed();
}

TEST_P(VerbsAttack, OperationsOfOtherKinds) {
  START_HOSTILE();
  const auto owner = EnterRaw();
  const RemoteRegion memory = owner->hello().memory;
  for (const ibv_wr_opcode atomic : {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP}) {
    ExpectRejected(atomic, memory.address + kSuperblockSize, memory.key, 8,
                   "an atomic operation on what is to READ");
    const auto peer = EnterRaw();
    ExpectRejectedOf(*peer, atomic, peer->hello().staging.address, peer->hello().staging.key, 8,
                     "an atomic operation on a staging buffer");
  }
  // A SEND that invalidates what others READ: a client may do so to keys of its own kind, which are not
  // these.
  const auto peer = EnterRaw();
  const Request ping;
  static_cast<void>(
      peer->Do(IBV_WR_SEND_WITH_INV, 0, memory.key, {reinterpret_cast<const char*>(&ping), sizeof(ping)}));
  EXPECT_EQ(owner->Do(IBV_WR_RDMA_READ, memory.address, memory.key, std::string(64, 'r')), IBV_WC_SUCCESS);
  EXPECT_TRUE(owner->Put(1, "owned", "still").has_value());
  ExpectNobodyElseHarmed();
}

// It ends a receive of the server's whose buffer it does not touch, and says the length of what it wrote
// elsewhere.
TEST_P(VerbsAttack, AWriteThatClaimsToBeAMessage) {
  START_HOSTILE();
  for (const std::size_t size : {std::size_t{8}, sizeof(Request), std::size_t{200'000}}) {
    const auto peer = EnterRaw();
    ASSERT_TRUE(peer->Put(1, "key", "value").has_value());  // a request that lies in the server's buffers
    static_cast<void>(peer->Do(IBV_WR_RDMA_WRITE_WITH_IMM, peer->hello().staging.address,
                               peer->hello().staging.key, std::string(size, 'e')));
    EXPECT_FALSE(peer->Receive().has_value()) << size;
    EXPECT_TRUE(peer->AwaitEnd()) << size;
    ExpectBroken(1);
  }
  ExpectNobodyElseHarmed();
}

TEST_P(VerbsAttack, AGrantThatWasTakenBack) {
  START_HOSTILE();
  constexpr char kLargeKey[] = "large";
  constexpr std::size_t kLargeKeySize = sizeof(kLargeKey) - 1;
  const std::string value(300'000, 'v');
  const auto request = [&](std::uint64_t id, Operation operation) {
    Request made;
    made.request_id = id;
    made.operation = operation;
    made.key_size = kLargeKeySize;
    made.value_size = static_cast<std::uint32_t>(value.size());
    RawPeer::Seal(&made, kLargeKey, value);
    return made;
  };
  const auto reserve = [&](RawVerbs& peer, std::uint64_t id) {
    const auto reserved = peer.Ask(request(id, Operation::kReserve));
    Grant grant;
    EXPECT_TRUE(reserved.has_value() && FromBytes(std::as_bytes(std::span(reserved->behind)), &grant));
    EXPECT_EQ(grant.region.size, kLargeKeySize + value.size());
    return grant.region;
  };
  {
    const auto peer = EnterRaw();
    const RemoteRegion grant = reserve(*peer, 1);
    EXPECT_EQ(peer->Do(IBV_WR_RDMA_WRITE, grant.address, grant.key, kLargeKey + value), IBV_WC_SUCCESS);
    const auto committed = peer->Ask(request(2, Operation::kFinishLargePut));
    ASSERT_TRUE(committed.has_value());
    ASSERT_EQ(committed->reply.status, ReplyStatus::kOk);
    ExpectRejectedOf(*peer, IBV_WR_RDMA_WRITE, grant.address + 1000, grant.key, 64,
                     "a WRITE to what is committed");
  }
  {
    const auto peer = EnterRaw();
    const RemoteRegion grant = reserve(*peer, 1);
    reserve(*peer, 2);  // ends the one before
    ExpectRejectedOf(*peer, IBV_WR_RDMA_WRITE, grant.address, grant.key, 64,
                     "a WRITE to what was given back");
  }
  {
    const auto peer = EnterRaw();
    const RemoteRegion grant = reserve(*peer, 1);
    const auto other = EnterRaw();
    ExpectRejectedOf(*other, IBV_WR_RDMA_WRITE, grant.address + grant.size - 8, grant.key, 64,
                     "one past its end");
    ExpectRejected(IBV_WR_RDMA_READ, grant.address, grant.key, 64, "a READ of what is granted to WRITE");
  }
  const auto reader = Client::Connect(served_->address(), {}, served_->clock());
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::string got;
  EXPECT_TRUE((*reader)->Get(kLargeKey, &got).ok());
  EXPECT_TRUE(got == value);
  ExpectNobodyElseHarmed();
}

TEST_P(VerbsAttack, HandshakesThatStopHalfWay) {
  START_HOSTILE();
  const std::uint64_t connections = Count("connections");
  const std::uint64_t bytes = Count("registered_bytes");
  {
    const HelloRequest hello;
    std::vector<std::unique_ptr<RawVerbs>> half;
    for (int i = 0; i < 4; ++i) {
      half.push_back(std::make_unique<RawVerbs>(served_->where(), true));
      half.back()->JoinHalf(AsBytes(hello));
    }
    // Each counts as a client, until it is gone or the handshake's time is over.
    EXPECT_TRUE(served_->AwaitCount("connections", connections + half.size()));
    EXPECT_TRUE(Enter()->Put(1, "key", "value").has_value());
  }
  EXPECT_TRUE(served_->AwaitNoMore("connections", connections));
  EXPECT_EQ(Count("registered_bytes"), bytes);
  ExpectBroken(0);
  ExpectNobodyElseHarmed();
}

}  // namespace
}  // namespace remora
