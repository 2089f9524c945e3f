// Watches of a store: which writes they show, when, and from where on.
#include "store/watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/format/wire/resume_token.h"
#include "store/server_store.h"
#include "watch_fixture.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

/// Tests of all stores that keep their changes.
class AnyWatchTest : public WatchFixture, public testing::WithParamInterface<WatchedLog> {
 protected:
  AnyWatchTest() : WatchFixture(GetParam()) {}
};
/// Tests of stores with a data directory.
class WatchTest : public AnyWatchTest {};

const char* NameOf(const testing::TestParamInfo<WatchedLog>& test) {
  if (test.param.change_log_bytes > 0) return "ChangeLog";
  return test.param.commit_log_bytes > 0 ? "CommitLog" : "RocksdbLog";
}

constexpr WatchedLog kRocksdbLog{};
// With files of 2 MiB, which are larger than all values here.
constexpr WatchedLog kCommitLog{.commit_log_bytes = std::uint64_t{32} << 20};
constexpr WatchedLog kChangeLog{.change_log_bytes = kMinChangeLogBytes};

INSTANTIATE_TEST_SUITE_P(All, AnyWatchTest, testing::Values(kRocksdbLog, kCommitLog, kChangeLog), NameOf);
INSTANTIATE_TEST_SUITE_P(All, WatchTest, testing::Values(kRocksdbLog, kCommitLog), NameOf);

TEST_P(AnyWatchTest, ShowsWhatIsWrittenFromThenOn) {
  Put("before", "");
  ASSERT_TRUE(Begin().ok());
  EXPECT_EQ(Rest(), Lines());
  Put("a", "1");
  Put("b", "2", {.ttl = milliseconds(5000)});
  ASSERT_TRUE(store_->Delete("a").ok());
  ASSERT_TRUE(store_->Increment("n", 5).ok());
  ASSERT_TRUE(store_->Append("b", "3").ok());
  EXPECT_EQ(Rest(), Lines({"a=1", "b=2", "-a", "n=5", "b=23"}));
  EXPECT_EQ(Rest(), Lines());
  Put("a", "4");
  EXPECT_EQ(Rest(), Lines({"a=4"}));
}

TEST_P(AnyWatchTest, ChangesHaveVersionsAndExpiries) {
  ASSERT_TRUE(Begin().ok());
  std::uint64_t version = 0;
  Put("key", "value", {.ttl = milliseconds(5000), .version = &version});
  ASSERT_TRUE(*watch_->Next(milliseconds(0)));
  EXPECT_EQ(watch_->version(), version);
  EXPECT_EQ(watch_->expiry_ms(), static_cast<std::uint64_t>(clock_.UnixMillis()) + 5000);
}

TEST_P(AnyWatchTest, ABatchIsShownInItsOrder) {
  ASSERT_TRUE(Begin().ok());
  WriteBatch batch;
  batch.Put("x", "1");
  batch.Delete("before");
  batch.Put("a", "2");
  Put("before", "");
  ASSERT_TRUE(store_->Apply(batch).ok());
  EXPECT_EQ(Rest(), Lines({"before=", "x=1", "-before", "a=2"}));
}

// The watch alone is enough: no other call writes or does maintenance.
TEST_P(AnyWatchTest, ShowsWhatHasExpiredAtTheNextTick) {
  ASSERT_TRUE(Begin().ok());
  for (int i = 0; i < 3; ++i) Put(std::to_string(i), "", {.ttl = milliseconds(10 + 900 * i)});
  Put("stays", "");
  EXPECT_EQ(Rest(), Lines({"0=", "1=", "2=", "stays="}));
  clock_.Advance(milliseconds(1000));
  EXPECT_EQ(Rest(), Lines({"-0", "-1"}));
  clock_.Advance(milliseconds(999));
  EXPECT_EQ(Rest(), Lines());
  clock_.Advance(milliseconds(1));
  EXPECT_EQ(Rest(), Lines({"-2"}));
  EXPECT_EQ(store_->Read(Metric::kExpired), 3u);
}

TEST_P(AnyWatchTest, ShowsWhatAServerHasRemovedWithoutAnotherWrite) {
  ASSERT_TRUE(Begin().ok());
  Put("short", "1", {.ttl = milliseconds(10)});
  clock_.Advance(milliseconds(1000));
  ASSERT_TRUE(store_->RunMaintenance());
  const std::uint64_t end = store_->Read(Metric::kChangesEnd);
  EXPECT_EQ(Rest(), Lines({"short=1", "-short"}));
  EXPECT_EQ(store_->Read(Metric::kChangesEnd), end) << "clients that wait look at this";
}

TEST_P(WatchTest, AnExpiryBehindAPendingWriteWaits) {
  ASSERT_TRUE(Begin().ok());
  Put("short", "1", {.ttl = milliseconds(10)});
  Write write;
  write.key = "synced";
  write.durability = Durability::kSynced;
  store_->Submit(std::span(&write, 1));
  ASSERT_NE(write.ticket, 0u);
  clock_.Advance(milliseconds(1000));
  EXPECT_EQ(Rest(), Lines({"short=1"}));
  ASSERT_EQ(store_->Read(Metric::kExpired), 1u);
  ASSERT_TRUE(store_->Sync());
  EXPECT_EQ(Rest(), Lines({"synced=", "-short"}));
}

// A record that expires while only the disk has it.
TEST_P(WatchTest, ShowsWhatExpiresWhileItIsNotInMemory) {
  const std::string value(100'000, 'v');
  for (int i = 0; i < 300; ++i) {
    Put("cold" + std::to_string(i), value, {.ttl = std::chrono::hours(1) + milliseconds(500 * i)});
    clock_.Advance(milliseconds(500));
    store_->RunMaintenance();
  }
  ASSERT_GT(store_->Read(Metric::kColdKeys), 100u);
  ASSERT_TRUE(Begin().ok());
  clock_.Advance(std::chrono::hours(1) - milliseconds(300 * 500));
  Lines lines;
  for (int i = 0; i < 300; ++i) {
    clock_.Advance(milliseconds(1000));
    for (const std::string& line : Rest()) lines.push_back(line);
    ASSERT_GE(lines.size(), static_cast<std::size_t>(i)) << "each within two seconds";
  }
  clock_.Advance(milliseconds(1000));
  for (const std::string& line : Rest()) lines.push_back(line);
  EXPECT_EQ(lines.size(), 300u);
}

TEST_P(AnyWatchTest, APrefixLeavesOutTheOthers) {
  ASSERT_TRUE(Begin({}, "user/").ok());
  for (int i = 0; i < 3000; ++i) Put("other/" + std::to_string(i), "");
  Put("user/1", "a");
  Put("user", "b");
  Put("user/2", "c");
  EXPECT_EQ(Rest(), Lines({"user/1=a", "user/2=c"}));
}

TEST_P(AnyWatchTest, ATokenGoesOnBehindWhatWasShown) {
  ASSERT_TRUE(Begin().ok());
  const std::string start = watch_->resume_token();
  WriteBatch batch;
  for (const char* key : {"a", "b", "c", "d"}) batch.Put(key, "");
  ASSERT_TRUE(store_->Apply(batch).ok());
  ASSERT_TRUE(*watch_->Next(milliseconds(0)));
  ASSERT_TRUE(*watch_->Next(milliseconds(0)));
  const std::string middle = watch_->resume_token();
  ASSERT_TRUE(Begin(middle).ok());
  EXPECT_EQ(watch_->resume_token(), middle);
  EXPECT_EQ(Rest(), Lines({"c=", "d="}));
  ASSERT_TRUE(Begin(start).ok());
  EXPECT_EQ(Rest(), Lines({"a=", "b=", "c=", "d="}));
}

TEST_P(WatchTest, GoesOnOverARestartWhereNothingWasMissed) {
  ASSERT_TRUE(Begin().ok());
  Put("a", "");
  EXPECT_EQ(Rest(), Lines({"a="}));
  const std::string token = watch_->resume_token();
  for (int i = 0; i < 3; ++i) Open();
  Put("b", "");
  ASSERT_TRUE(Begin(token).ok());
  EXPECT_EQ(Rest(), Lines({"b="}));
}

// With the default retention.
TEST_P(WatchTest, GoesOnOverManyRestartsAnywhere) {
  ASSERT_TRUE(Begin().ok());
  const std::string token = watch_->resume_token();
  Lines expected;
  for (int i = 0; i < 15; ++i) {
    Put(std::to_string(i), "");
    expected.push_back(std::to_string(i) + "=");
    Open();
    if (i % 5 == 0) Open();  // a restart without a write before it
  }
  ASSERT_TRUE(Begin(token).ok());
  EXPECT_EQ(Rest(), expected);
}

TEST_P(WatchTest, WithRetentionGoesOnOverARestartAnywhere) {
  retention_bytes_ = 0;
  retention_ = std::chrono::hours(1);
  Open();
  ASSERT_TRUE(Begin().ok());
  const std::string token = watch_->resume_token();
  for (int i = 0; i < 3; ++i) {
    Put(std::to_string(i), "");
    Open();
  }
  Put("b", "");
  ASSERT_TRUE(Begin(token).ok());
  EXPECT_EQ(Rest(), Lines({"0=", "1=", "2=", "b="}));
}

TEST_P(WatchTest, SaysSoWhenWhatItHasShownIsNoMore) {
  Put("a", "");
  Keep();
  ASSERT_TRUE(Begin().ok());
  Put("lost", "1");
  Put("lost", "2");
  EXPECT_EQ(Rest(), Lines({"lost=1", "lost=2"}));
  const std::string token = watch_->resume_token();
  Restore();
  // New writes get the sequence numbers of the lost ones.
  for (int i = 0; i < 100; ++i) Put("other", "");
  EXPECT_EQ(Begin(token).code(), absl::StatusCode::kOutOfRange);
}

TEST_P(WatchTest, SaysSoWhenTheIncarnationWentOnAndLost) {
  ASSERT_TRUE(Begin().ok());
  Put("kept", "");
  EXPECT_EQ(Rest(), Lines({"kept="}));
  const std::string kept = watch_->resume_token();
  watch_.reset();
  store_.reset();
  std::filesystem::copy(temp_ / "store", temp_ / "kept", std::filesystem::copy_options::recursive);
  Open();
  // As on a machine that stops: the same incarnation goes on, and writes changes that will be lost. The token
  // names the incarnation that is on record.
  ASSERT_TRUE(Begin(kept).ok());
  Restore();
  ASSERT_TRUE(Begin(kept).ok());
  Put("b", "");
  EXPECT_EQ(Rest(), Lines({"b="}));
  // A position behind the end of the log that the next opening found.
  std::optional<ChangePosition> position = ReadChangeToken(kept);
  ++position->sequence;
  EXPECT_EQ(Begin(MakeChangeToken(*position)).code(), absl::StatusCode::kOutOfRange);
}

TEST_P(AnyWatchTest, RejectsWhatIsNoToken) {
  ASSERT_TRUE(Begin().ok());
  const std::string token = watch_->resume_token();
  EXPECT_EQ(Begin("nonsense").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Begin(token + "A").code(), absl::StatusCode::kInvalidArgument);
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::string changed = token;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_EQ(Begin(changed).code(), absl::StatusCode::kInvalidArgument) << i;
  }
  EXPECT_EQ(Begin({}, std::string(kMaxBoundSize + 1, 'p')).code(), absl::StatusCode::kInvalidArgument);
  std::optional<ChangePosition> position = ReadChangeToken(token);
  position->sequence += 1000;
  EXPECT_EQ(Begin(MakeChangeToken(*position)).code(), absl::StatusCode::kInvalidArgument);
  position->sequence = 0;
  EXPECT_EQ(Begin(MakeChangeToken(*position)).code(), absl::StatusCode::kInvalidArgument);
  position->incarnation ^= 1;
  EXPECT_EQ(Begin(MakeChangeToken(*position)).code(), absl::StatusCode::kOutOfRange);
}

TEST_P(WatchTest, ShowsNothingThatWaitsForTheDisk) {
  Put("first", "");  // raises the version limit
  ASSERT_TRUE(Begin().ok());
  Put("logged", "1");
  Write write;
  write.key = "synced";
  write.durability = Durability::kSynced;
  store_->Submit(std::span(&write, 1));
  ASSERT_NE(write.ticket, 0u);
  Put("behind", "2");
  EXPECT_EQ(Rest(), Lines({"logged=1"}));
  ASSERT_TRUE(store_->Sync());
  EXPECT_EQ(Rest(), Lines({"synced=", "behind=2"}));
}

// Some log files were full meanwhile, and their contents are in tables.
TEST_P(WatchTest, FindsTheLastMegabytesBehindARestart) {
  const std::string value(std::size_t{1} << 20, 'v');
  const auto put = [&](int i) {
    Put("key", std::to_string(i) + value);
    clock_.Advance(milliseconds(1000));  // ends grace periods
    store_->RunMaintenance();
  };
  for (int i = 0; i < 75; ++i) put(i);
  ASSERT_TRUE(Begin().ok());
  const std::string token = watch_->resume_token();
  for (int i = 75; i < 135; ++i) put(i);
  Open();
  ASSERT_TRUE(Begin(token).ok());
  for (int i = 75; i < 135; ++i) {
    const absl::StatusOr<bool> came = watch_->Next(milliseconds(0));
    ASSERT_TRUE(came.ok() && *came) << i << ": " << came.status();
    ASSERT_EQ(watch_->value(), std::to_string(i) + value);
  }
  EXPECT_EQ(Rest(), Lines());
}

// The writes are more than the write buffers hold, so log files come and go meanwhile.
TEST_P(WatchTest, FollowsOverManyLogFiles) {
  ASSERT_TRUE(Begin().ok());
  const std::string value(std::size_t{1} << 20, 'v');
  for (int i = 0; i < 300; ++i) {
    Put("key", std::to_string(i) + value);
    ASSERT_EQ(Rest(), Lines({"key=" + std::to_string(i) + value}));
    clock_.Advance(milliseconds(1000));  // ends grace periods
    store_->RunMaintenance();
  }
}

}  // namespace
}  // namespace remora
