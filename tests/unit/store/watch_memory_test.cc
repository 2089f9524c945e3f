// Watches of a store that is only in memory: the changes that it keeps for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <string>

#include "store/format/memory/layout.h"
#include "store/server_store.h"
#include "store/watch.h"
#include "watch_fixture.h"

namespace remora {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr std::uint64_t kKeptChanges = kMinChangeLogBytes / 128;
constexpr std::uint64_t kKeptBytes = kMinChangeLogBytes / 4 * 3;

class MemoryWatchTest : public WatchFixture {
 protected:
  MemoryWatchTest() : WatchFixture({.change_log_bytes = kMinChangeLogBytes}) {}

  absl::Status Next() { return watch_->Next(milliseconds(0)).status(); }
};

TEST_F(MemoryWatchTest, MayBeBehindByAsManyChangesAsAreKept) {
  ASSERT_TRUE(Begin().ok());
  const std::string token = watch_->resume_token();
  for (std::uint64_t i = 0; i < kKeptChanges; ++i) Put("key", std::to_string(i));
  const Lines lines = Rest();
  ASSERT_EQ(lines.size(), kKeptChanges);
  EXPECT_EQ(lines.front(), "key=0");
  EXPECT_EQ(lines.back(), "key=" + std::to_string(kKeptChanges - 1));
  Put("one", "more");
  EXPECT_EQ(Rest(), Lines({"one=more"})) << "the watch has seen the others";
  ASSERT_TRUE(Begin(token).ok());
  const absl::Status behind = Next();
  EXPECT_EQ(behind.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(behind.message()), HasSubstr("--change_log"));
  EXPECT_EQ(Next(), behind) << "this is final";
  ASSERT_TRUE(Begin().ok());
  Put("a", "new watch");
  EXPECT_EQ(Rest(), Lines({"a=new watch"}));
}

TEST_F(MemoryWatchTest, MayBeBehindByAsManyBytesAsAreKept) {
  const std::string third(kKeptBytes / 3 - 1, 'v');
  ASSERT_TRUE(Begin().ok());
  const std::string token = watch_->resume_token();
  for (const char* key : {"1", "2", "3"}) Put(key, third);
  EXPECT_EQ(Rest(), Lines({"1=" + third, "2=" + third, "3=" + third}));
  Put("4", "");
  ASSERT_TRUE(Begin(token).ok());
  EXPECT_EQ(Rest(), Lines({"OUT_OF_RANGE"}));
}

// The log wraps some hundred times, in the middle of keys and values.
TEST_F(MemoryWatchTest, FollowsForGood) {
  ASSERT_TRUE(Begin().ok());
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    Lines expected;
    for (int i = 0; i < 10; ++i) {
      const std::string key = std::to_string(random() % 100);
      const std::string value(random() % 20'000, static_cast<char>('a' + random() % 26));
      Put(key, value);
      expected.push_back(key + "=" + value);
    }
    ASSERT_EQ(Rest(), expected);
    clock_.Advance(milliseconds(1000));  // ends grace periods
    store_->RunMaintenance();
  }
}

TEST_F(MemoryWatchTest, ShowsLargeValues) {
  ASSERT_TRUE(Begin().ok());
  const std::string large(2 * kMaxSmallValueSize, 'l');
  Put("a", "1");
  Put("large", large);
  Put("b", "2");
  EXPECT_EQ(Rest(), Lines({"a=1", "large=" + large, "b=2"}));
}

TEST_F(MemoryWatchTest, AValueThatIsLargerThanTheLogEndsIt) {
  ASSERT_TRUE(Begin().ok());
  Put("a", "1");
  Put("large", std::string(kKeptBytes, 'l'));
  Put("b", "2");
  ASSERT_TRUE(*watch_->Next(milliseconds(0)));
  EXPECT_EQ(watch_->key(), "a");
  const absl::Status status = Next();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()), HasSubstr("larger than the change log"));
  ASSERT_TRUE(Begin().ok());
  Put("c", "3");
  EXPECT_EQ(Rest(), Lines({"c=3"}));
}

// The copied changes are right, also if the log has other bytes in their place by now.
TEST_F(MemoryWatchTest, WhatItHasCopiedStaysRight) {
  ASSERT_TRUE(Begin().ok());
  for (int i = 0; i < 3; ++i) Put("first", std::to_string(i));
  ASSERT_TRUE(*watch_->Next(milliseconds(0)));
  for (std::uint64_t i = 0; i < 2 * kKeptChanges; ++i) Put("later", "x");
  EXPECT_EQ(watch_->value(), "0");
  EXPECT_EQ(Rest(), Lines({"first=1", "first=2", "OUT_OF_RANGE"}));
}

TEST_F(MemoryWatchTest, ShowsWritesThatGoThroughTheStages) {
  Put("counter", "1", {.ttl = milliseconds(9000)});
  Put("long", "1");
  ASSERT_TRUE(Begin().ok());
  ASSERT_TRUE(store_->Append("long", "23").ok());
  ASSERT_TRUE(store_->Touch("long", milliseconds(5000)).ok());
  ASSERT_TRUE(*watch_->Next(milliseconds(0)));
  EXPECT_EQ(watch_->value(), "123");
  EXPECT_EQ(watch_->expiry_ms(), 0u);
  ASSERT_TRUE(*watch_->Next(milliseconds(0)));
  EXPECT_EQ(watch_->value(), "123");
  EXPECT_EQ(watch_->expiry_ms(), static_cast<std::uint64_t>(clock_.UnixMillis()) + 5000);
  ASSERT_TRUE(store_->Delete("counter").ok());
  ASSERT_TRUE(*watch_->Next(milliseconds(0)));
  EXPECT_EQ(watch_->kind(), ChangeKind::kDelete);
  EXPECT_EQ(watch_->version(), 0u);
  EXPECT_EQ(watch_->expiry_ms(), 0u);
}

TEST_F(MemoryWatchTest, ARejectedWriteIsNoChange) {
  Put("key", "1");
  ASSERT_TRUE(Begin().ok());
  EXPECT_FALSE(store_->Put("key", "2", {.condition = Condition::Absent()}).ok());
  WriteBatch batch;
  batch.Put("a", "");
  batch.Delete("none");
  EXPECT_FALSE(store_->Apply(batch).ok());
  EXPECT_EQ(Rest(), Lines());
}

TEST_F(MemoryWatchTest, AnEvictionIsADeletion) {
  // The keys that readers see, by the changes alone.
  std::map<std::string, std::string> copy;
  std::uint64_t deletions = 0;
  const auto follow = [&] {
    while (*watch_->Next(milliseconds(0))) {
      if (watch_->kind() == ChangeKind::kDelete) {
        EXPECT_EQ(copy.erase(std::string(watch_->key())), 1u);
        ++deletions;
      } else {
        copy[std::string(watch_->key())] = watch_->value();
      }
    }
  };
  ASSERT_TRUE(Begin().ok());
  for (int i = 0; i < 300; ++i) {
    const std::string key = std::to_string(i);
    Put(key, std::string(100'000, static_cast<char>('a' + i % 26)));
    follow();
    clock_.Advance(milliseconds(1000));  // ends grace periods
    store_->RunMaintenance();
  }
  follow();
  EXPECT_GT(deletions, 100u);
  EXPECT_EQ(deletions, store_->Read(Metric::kEvictions));
  for (int i = 0; i < 300; ++i) {
    std::string value;
    const bool exists = store_->Get(std::to_string(i), &value).ok();
    const auto copied = copy.find(std::to_string(i));
    ASSERT_EQ(exists, copied != copy.end()) << i;
    if (exists) {
      EXPECT_EQ(value, copied->second);
    }
  }
}

// A later store has other writes under the same numbers.
TEST_F(MemoryWatchTest, ARestartEndsIt) {
  ASSERT_TRUE(Begin().ok());
  Put("a", "1");
  EXPECT_EQ(Rest(), Lines({"a=1"}));
  const std::string token = watch_->resume_token();
  Open();
  for (int i = 0; i < 3; ++i) Put("b", "2");
  const absl::Status status = Begin(token);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()), HasSubstr("started anew"));
}

TEST_F(MemoryWatchTest, WithoutTheOptionThereIsNone) {
  const auto store = ServerStore::Open({.memory_size = kMinMemorySize});
  const absl::Status status = (*store)->Watch().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--change_log"));
}

TEST_F(MemoryWatchTest, BadOptionsAreRejected) {
  const auto fault = [](const StoreOptions& options) {
    const absl::Status status = ServerStore::Open(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(fault({.change_log_bytes = kMinChangeLogBytes - 1}),
              HasSubstr("a change log of 1048575 bytes is out of bounds; give 1048576 to"));
  EXPECT_THAT(fault({.change_log_bytes = kMaxMemorySize + 1}), HasSubstr("is out of bounds"));
  StoreOptions logged = LoggedIn(temp_ / "store");
  logged.change_log_bytes = kMinChangeLogBytes;
  EXPECT_THAT(fault(logged), HasSubstr("set no change_log_bytes"));
}

}  // namespace
}  // namespace remora
