// The slots of keys in a Redis Cluster.
#include "tools/kvgate/cluster/redis_slot.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

namespace remora::kvgate {
namespace {

using namespace std::literals;

// The first is the check value of CRC-16/XMODEM (0x31c3); the others are of CLUSTER KEYSLOT of Redis 7.0.15.
TEST(RedisSlotTest, KnownAnswers) {
  EXPECT_EQ(RedisSlotOf("123456789"), 0x31c3 % kRedisSlots);
  EXPECT_EQ(RedisSlotOf(""), 0u);
  EXPECT_EQ(RedisSlotOf("a"), 15495u);
  EXPECT_EQ(RedisSlotOf("foo"), 12182u);
  EXPECT_EQ(RedisSlotOf("somekey"), 11058u);
  EXPECT_EQ(RedisSlotOf("\x00\xff\x80"sv), 4727u);
}

TEST(RedisSlotTest, TheTagDecides) {
  EXPECT_EQ(RedisSlotOf("foo{hash_tag}"), 2515u);
  EXPECT_EQ(RedisSlotOf("{hash_tag}bar"), RedisSlotOf("hash_tag"));
  EXPECT_EQ(RedisSlotOf("a{x}{y}"), RedisSlotOf("x"));
  EXPECT_EQ(RedisSlotOf("{{a}}"), RedisSlotOf("{a"));
  for (const char* const key : {"{}a", "a{b", "a}b{", "{}{a}"}) {
    EXPECT_NE(RedisSlotOf(key), RedisSlotOf("a")) << key;
    EXPECT_NE(RedisSlotOf(key), RedisSlotOf("")) << key;
  }
}

TEST(RedisSlotTest, ManyKeysHaveAllSlots) {
  std::set<std::uint32_t> slots;
  for (int i = 0; i < 200'000; ++i) slots.insert(RedisSlotOf("key" + std::to_string(i)));
  EXPECT_EQ(slots.size(), kRedisSlots);
  EXPECT_EQ(*slots.rbegin(), kRedisSlots - 1);
}

}  // namespace
}  // namespace remora::kvgate
