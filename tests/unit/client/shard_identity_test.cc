// The identity of a shard: its text, its bytes in the greeting, and the servers that a client takes.
#include "store/format/cluster/shard_identity.h"

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "rdma/auth/hmac.h"
#include "store/format/wire/messages.h"

namespace remora {
namespace {

constexpr std::uint64_t kCluster = 0x9f86d081884c7d65, kOtherCluster = 0x60303ae22b998861;

TEST(ShardIdentity, IsReadAsItWasWritten) {
  const ShardIdentity identity = IdentityOf(kCluster, "a.b-c_9");
  EXPECT_EQ(IdentityText(identity), "9f86d081884c7d65/a.b-c_9");
  EXPECT_EQ(IdentityIn(IdentityText(identity)), identity);
  const std::string longest(kMaxShardNameSize, 'x');
  EXPECT_EQ(IdentityIn("0000000000000001/" + longest), IdentityOf(1, longest));
  EXPECT_EQ(IdentityOf(1, longest).name(), longest);
}

TEST(ShardIdentity, OtherTextsAreNone) {
  for (const std::string text :
       {"", "/", "0", "9f86d081884c7d65", "9f86d081884c7d65/", "/0", "9f86d081884c7d6/0",
        "9f86d081884c7d655/0", "9F86d081884c7d65/0", "9g86d081884c7d65/0", "0000000000000000/0",
        "9f86d081884c7d65/a/b", "9f86d081884c7d65/a b", "9f86d081884c7d65/\n",
        "9f86d081884c7d65/123456789012345678901234567890123"}) {
    EXPECT_FALSE(IdentityIn(text).has_value()) << text;
  }
}

TEST(ShardIdentity, AClientTakesTheServerThatItExpects) {
  const ShardIdentity none, first = IdentityOf(kCluster, "0"), second = IdentityOf(kCluster, "1"),
                            elsewhere = IdentityOf(kOtherCluster, "0");
  for (const ShardIdentity& found : {none, first, second, elsewhere}) {
    EXPECT_TRUE(IsExpected(none, found));
    EXPECT_EQ(IsExpected(first, found), found == first);
  }
  // A topology of version 1 knows no cluster.
  const ShardIdentity named = IdentityOf(0, "0");
  EXPECT_TRUE(IsExpected(named, none));
  EXPECT_TRUE(IsExpected(named, first));
  EXPECT_TRUE(IsExpected(named, elsewhere));
  EXPECT_FALSE(IsExpected(named, second));
}

HelloReply Greeting() {
  HelloReply reply;
  reply.flags = ReplyFlag::kHasShard;
  reply.shard = IdentityOf(kCluster, "1");
  return reply;
}

TEST(ShardInGreeting, IsBehindAllThatEarlierBuildsRead) {
  const HelloReply reply = Greeting();
  HelloReply read;
  ASSERT_TRUE(FromBytes(AsBytes(reply), &read));
  EXPECT_EQ(read.shard, reply.shard);
  // Padding follows on some transports.
  std::vector<std::byte> padded(196, std::byte{0xff});
  std::memcpy(padded.data(), &reply, sizeof(reply));
  ASSERT_TRUE(FromBytes(padded, &read));
  EXPECT_EQ(read.shard, reply.shard);
}

TEST(ShardInGreeting, OfAnEarlierBuildIsNone) {
  HelloReply reply = Greeting();
  reply.flags = ReplyFlag::kHasSettings;
  HelloReply read = Greeting();
  ASSERT_TRUE(FromBytes(AsBytes(reply).first(112), &read));
  EXPECT_TRUE(read.shard.is_none());
  EXPECT_EQ(read.flags, ReplyFlag::kHasSettings);
  ASSERT_TRUE(FromBytes(AsBytes(reply), &read));
  EXPECT_TRUE(read.shard.is_none()) << "without the flag, the bytes are padding";
  EXPECT_FALSE(FromBytes(AsBytes(reply).first(111), &read));
}

TEST(ShardInGreeting, ThatIsCutOrHasNoNameIsNoGreeting) {
  HelloReply reply = Greeting(), read;
  for (std::size_t size = 112; size < sizeof(reply); ++size) {
    EXPECT_FALSE(FromBytes(AsBytes(reply).first(size), &read)) << size;
  }
  reply.shard.shard = {};
  EXPECT_FALSE(FromBytes(AsBytes(reply), &read));
  reply.shard = IdentityOf(kCluster, "a\nb");
  EXPECT_FALSE(FromBytes(AsBytes(reply), &read));
}

TEST(ShardInGreeting, IsCoveredByTheServersProof) {
  const HelloRequest hello;
  HelloReply reply = Greeting(), other = Greeting();
  const auto proof = [&](const HelloReply& of) {
    return rdma::HmacSha256("secret", ServerProofParts(hello, of));
  };
  EXPECT_EQ(proof(reply), proof(other));
  other.shard = IdentityOf(kCluster, "2");
  EXPECT_NE(proof(reply), proof(other));
  // Without a shard, the proof is that of earlier builds.
  reply.flags = other.flags = 0;
  EXPECT_EQ(proof(reply), proof(other));
}

}  // namespace
}  // namespace remora
