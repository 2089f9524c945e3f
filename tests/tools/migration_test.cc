// Parts of kvctl import --from and export --to that have neither a Redis nor a terminal.
#include <chrono>
#include <string>
#include <string_view>

#include "gtest/gtest.h"
#include "tools/kvctl/progress.h"
#include "tools/kvctl/redis/address.h"

namespace remora::kvctl {
namespace {

using std::chrono::seconds;

TEST(RedisAddressTest, HostsWithAllParts) {
  const auto address = ParseRedisAddress("redis://me:p%40s%3as@db.example:7000/3");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->name, "me");
  EXPECT_EQ(address->password, "p@s:s");
  EXPECT_EQ(address->host, "db.example");
  EXPECT_EQ(address->port, 7000);
  EXPECT_EQ(address->database, 3);
  EXPECT_EQ(address->ToString(), "redis://db.example:7000/3");
}

TEST(RedisAddressTest, Defaults) {
  const auto address = ParseRedisAddress("redis://:secret@[::1]/");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->name, "");
  EXPECT_EQ(address->password, "secret");
  EXPECT_EQ(address->host, "::1");
  EXPECT_EQ(address->port, 6379);
  EXPECT_EQ(address->database, 0);
  EXPECT_EQ(address->ToString(), "redis://[::1]:6379");
}

TEST(RedisAddressTest, Sockets) {
  for (const std::string_view scheme : {"redis://", "redis+unix://"}) {
    const auto address = ParseRedisAddress(std::string(scheme) + "me:secret@/run/redis.sock?db=2");
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->host, "");
    EXPECT_EQ(address->path, "/run/redis.sock");
    EXPECT_EQ(address->database, 2);
    EXPECT_EQ(address->password, "secret");
    EXPECT_EQ(address->ToString(), "redis:///run/redis.sock?db=2");
  }
}

TEST(RedisAddressTest, BadOnesAreRejectedWithoutTheirPassword) {
  for (const std::string_view text : {"",
                                      "redis:",
                                      "redis://",
                                      "redis:///",
                                      "tcp://host:1",
                                      "redis://host:0",
                                      "redis://host:65536",
                                      "redis://host:x",
                                      "redis://host/x",
                                      "redis://host/-1",
                                      "redis://secret@host",
                                      "redis://:%2@host",
                                      "redis://:%zz@host",
                                      "redis://[::1",
                                      "redis://[::1]x",
                                      "redis+unix://host",
                                      "redis:///path?database=1",
                                      "redis:///path?db=",
                                      "rediss://me:secret@host",
                                      "redis://me:secret@host:x"}) {
    const auto address = ParseRedisAddress(text);
    EXPECT_TRUE(absl::IsInvalidArgument(address.status())) << text;
    EXPECT_EQ(address.status().message().find("secret"), std::string_view::npos) << address.status();
  }
}

TEST(ProgressTest, Lines) {
  EXPECT_EQ(ProgressLine("keys", 50, 200, seconds(10)),
            "[#####---------------]  25% of 200 keys, 5/s, 30 s left");
  EXPECT_EQ(ProgressLine("keys", 200, 200, seconds(10)), "[####################] 100% of 200 keys, 20/s");
  // More came than there were at the start.
  EXPECT_EQ(ProgressLine("keys", 300, 200, seconds(10)), "[####################] 100% of 200 keys, 30/s");
  EXPECT_EQ(ProgressLine("keys", 0, 200, seconds(0)), "[--------------------]   0% of 200 keys, 0/s");
  EXPECT_EQ(ProgressLine("records", 70, 0, seconds(10)), "70 records, 7/s");
  EXPECT_EQ(ProgressLine("keys", 1, 7201, seconds(1)),
            "[--------------------]   0% of 7201 keys, 1/s, 2 h 0 min left");
  EXPECT_LT(ProgressLine("verified", 999'999'999, 9'000'000'000, seconds(10'000)).size(), 80);
}

}  // namespace
}  // namespace remora::kvctl
