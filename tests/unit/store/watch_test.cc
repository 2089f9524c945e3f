// Watches of a store: which writes they show, when, and from where on.
#include "store/watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "store/durable/wal_scan.h"
#include "store/format/wire/resume_token.h"
#include "store/store.h"
#include "test_files.h"
#include "tests/support/manual_clock.h"

namespace remora {
namespace {

using std::chrono::milliseconds;
using Lines = std::vector<std::string>;

class WatchTest : public testing::Test {
 protected:
  WatchTest() { Open(); }

  StoreOptions Options() {
    StoreOptions options = LoggedIn(temp_ / "store");
    options.syncing = Syncing::kInSteps;
    options.clock = &clock_;
    options.watch_retention_bytes = retention_bytes_;
    options.watch_retention = retention_;
    return options;
  }
  void Open() {
    watch_.reset();
    store_.reset();
    auto store = Store::Open(Options());
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  /// The same as after `keep`: what was written since is taken back.
  void Restore() {
    watch_.reset();
    store_.reset();
    std::filesystem::remove_all(temp_ / "store");
    std::filesystem::copy(temp_ / "kept", temp_ / "store", std::filesystem::copy_options::recursive);
    Open();
  }
  void Keep() {
    store_.reset();
    std::filesystem::copy(temp_ / "store", temp_ / "kept", std::filesystem::copy_options::recursive);
    Open();
  }
  std::vector<std::string> ArchivedLogs() const {
    return LogsIn(temp_ / "store/archive").value_or(std::vector<std::string>());
  }
  void Put(std::string_view key, std::string_view value, const PutOptions& options = {}) {
    ASSERT_TRUE(store_->Put(key, value, options).ok());
  }
  absl::Status Begin(std::string_view token = {}, std::string_view prefix = {}) {
    auto watch = store_->Watch({.prefix = prefix, .token = token});
    if (!watch.ok()) return watch.status();
    watch_ = *std::move(watch);
    return absl::OkStatus();
  }
  /// Each as "key=value" or "-key", until there are no more; what went wrong is the last one.
  Lines Rest() {
    Lines lines;
    for (;;) {
      const absl::StatusOr<bool> came = watch_->Next(milliseconds(0));
      if (!came.ok()) lines.push_back(absl::StatusCodeToString(came.status().code()));
      if (!came.ok() || !*came) return lines;
      std::string line = watch_->kind() == ChangeKind::kDelete ? "-" : "";
      line += watch_->key();
      if (watch_->kind() == ChangeKind::kPut) line.append("=").append(watch_->value());
      lines.push_back(line);
    }
  }

  const TempDir temp_;
  std::uint64_t retention_bytes_ = StoreOptions().watch_retention_bytes;
  std::chrono::seconds retention_{0};
  ManualClock clock_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<StoreWatch> watch_;
};

TEST_F(WatchTest, ShowsWhatIsWrittenFromThenOn) {
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

TEST_F(WatchTest, ChangesHaveVersionsAndExpiries) {
  ASSERT_TRUE(Begin().ok());
  std::uint64_t version = 0;
  Put("key", "value", {.ttl = milliseconds(5000), .version = &version});
  ASSERT_TRUE(*watch_->Next(milliseconds(0)));
  EXPECT_EQ(watch_->version(), version);
  EXPECT_EQ(watch_->expiry_ms(), static_cast<std::uint64_t>(clock_.UnixMillis()) + 5000);
}

TEST_F(WatchTest, ABatchIsShownInItsOrder) {
  ASSERT_TRUE(Begin().ok());
  WriteBatch batch;
  batch.Put("x", "1");
  batch.Delete("before");
  batch.Put("a", "2");
  Put("before", "");
  ASSERT_TRUE(store_->Apply(batch).ok());
  EXPECT_EQ(Rest(), Lines({"before=", "x=1", "-before", "a=2"}));
}

// The watch alone is enough: nobody writes, and nobody works.
TEST_F(WatchTest, ShowsWhatHasExpiredAtTheNextTick) {
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
  EXPECT_EQ(store_->Read(Counter::kExpired), 3u);
}

TEST_F(WatchTest, ShowsWhatAServerHasRemovedWithoutAnotherWrite) {
  ASSERT_TRUE(Begin().ok());
  Put("short", "1", {.ttl = milliseconds(10)});
  clock_.Advance(milliseconds(1000));
  ASSERT_TRUE(store_->Work());
  const std::uint64_t end = store_->Read(Counter::kChangesEnd);
  EXPECT_EQ(Rest(), Lines({"short=1", "-short"}));
  EXPECT_EQ(store_->Read(Counter::kChangesEnd), end) << "clients that wait look at this";
}

TEST_F(WatchTest, WhatExpiresBehindAWriteThatWaitsForTheDiskWaitsToo) {
  ASSERT_TRUE(Begin().ok());
  Put("short", "1", {.ttl = milliseconds(10)});
  Write write;
  write.key = "synced";
  write.durability = Durability::kSynced;
  store_->Submit(std::span(&write, 1));
  ASSERT_NE(write.ticket, 0u);
  clock_.Advance(milliseconds(1000));
  EXPECT_EQ(Rest(), Lines({"short=1"}));
  ASSERT_EQ(store_->Read(Counter::kExpired), 1u);
  ASSERT_TRUE(store_->Sync());
  EXPECT_EQ(Rest(), Lines({"synced=", "-short"}));
}

// A record that is on disk alone.
TEST_F(WatchTest, ShowsWhatExpiresWhileItIsNotInMemory) {
  const std::string value(100'000, 'v');
  for (int i = 0; i < 300; ++i) {
    Put("cold" + std::to_string(i), value, {.ttl = std::chrono::hours(1) + milliseconds(500 * i)});
    clock_.Advance(milliseconds(500));
    store_->Work();
  }
  ASSERT_GT(store_->Read(Counter::kColdKeys), 100u);
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

TEST_F(WatchTest, APrefixLeavesOutTheOthers) {
  ASSERT_TRUE(Begin({}, "user/").ok());
  for (int i = 0; i < 3000; ++i) Put("other/" + std::to_string(i), "");
  Put("user/1", "a");
  Put("user", "b");
  Put("user/2", "c");
  EXPECT_EQ(Rest(), Lines({"user/1=a", "user/2=c"}));
}

TEST_F(WatchTest, ATokenGoesOnBehindWhatWasShown) {
  ASSERT_TRUE(Begin().ok());
  const std::string start = watch_->token();
  WriteBatch batch;
  for (const char* key : {"a", "b", "c", "d"}) batch.Put(key, "");
  ASSERT_TRUE(store_->Apply(batch).ok());
  ASSERT_TRUE(*watch_->Next(milliseconds(0)));
  ASSERT_TRUE(*watch_->Next(milliseconds(0)));
  const std::string middle = watch_->token();
  ASSERT_TRUE(Begin(middle).ok());
  EXPECT_EQ(watch_->token(), middle);
  EXPECT_EQ(Rest(), Lines({"c=", "d="}));
  ASSERT_TRUE(Begin(start).ok());
  EXPECT_EQ(Rest(), Lines({"a=", "b=", "c=", "d="}));
}

TEST_F(WatchTest, GoesOnOverARestartWhereNothingWasMissed) {
  ASSERT_TRUE(Begin().ok());
  Put("a", "");
  EXPECT_EQ(Rest(), Lines({"a="}));
  const std::string token = watch_->token();
  for (int i = 0; i < 3; ++i) Open();
  Put("b", "");
  ASSERT_TRUE(Begin(token).ok());
  EXPECT_EQ(Rest(), Lines({"b="}));
}

// With the defaults.
TEST_F(WatchTest, GoesOnOverManyRestartsAnywhere) {
  ASSERT_TRUE(Begin().ok());
  const std::string token = watch_->token();
  Lines expected;
  for (int i = 0; i < 15; ++i) {
    Put(std::to_string(i), "");
    expected.push_back(std::to_string(i) + "=");
    Open();
    if (i % 5 == 0) Open();  // with nothing written in between
  }
  ASSERT_TRUE(Begin(token).ok());
  EXPECT_EQ(Rest(), expected);
}

// A value for each log file, so that the archive is told apart by bytes.
TEST_F(WatchTest, FindsTheLatestBytesThatAreRetained) {
  constexpr std::size_t kSize = std::size_t{256} << 10;
  retention_bytes_ = 4 * kSize;
  Open();
  std::vector<std::string> tokens;
  Lines values;
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(Begin().ok());
    tokens.push_back(watch_->token());
    const std::string value = std::to_string(i) + std::string(kSize, 'v');
    Put("key", value);
    values.push_back("key=" + value);
    Open();
  }
  Open();
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(Begin(tokens[static_cast<std::size_t>(i)]).ok());
    const Lines rest = Rest();
    if (i >= 8) {
      EXPECT_EQ(rest, Lines(values.begin() + i, values.end())) << i;
    } else if (i <= 4) {
      EXPECT_EQ(rest, Lines({"OUT_OF_RANGE"})) << i;
    }
  }
}

TEST_F(WatchTest, WithRetentionGoesOnOverARestartAnywhere) {
  retention_bytes_ = 0;
  retention_ = std::chrono::hours(1);
  Open();
  ASSERT_TRUE(Begin().ok());
  const std::string token = watch_->token();
  for (int i = 0; i < 3; ++i) {
    Put(std::to_string(i), "");
    Open();
  }
  Put("b", "");
  ASSERT_TRUE(Begin(token).ok());
  EXPECT_EQ(Rest(), Lines({"0=", "1=", "2=", "b="}));
}

TEST_F(WatchTest, SaysSoWhenItIsTooFarBehind) {
  retention_bytes_ = 0;
  Open();
  ASSERT_TRUE(Begin().ok());
  const std::string token = watch_->token();
  Put("a", "");
  Open();
  Open();  // what the first one had in its log is in a table
  Put("b", "");
  ASSERT_TRUE(Begin(token).ok());
  EXPECT_EQ(Rest(), Lines({"OUT_OF_RANGE"}));
  EXPECT_EQ(Rest(), Lines({"OUT_OF_RANGE"}));
}

TEST_F(WatchTest, SaysSoEvenWhereSomeWritesSkipTheLog) {
  retention_bytes_ = 0;
  Open();
  Put("first", "");  // raises the limit of versions
  ASSERT_TRUE(Begin().ok());
  const std::string token = watch_->token();
  Put("memory", "", {.durability = Durability::kMemory});
  const std::string name = std::filesystem::path(LogsIn(temp_ / "store")->back()).filename();
  const auto is_there = [&] {
    return std::filesystem::exists(temp_ / ("store/" + name)) ||
           std::filesystem::exists(temp_ / ("store/archive/" + name));
  };
  for (int i = 0; is_there(); ++i) {
    ASSERT_LT(i, 900);
    Put("key", std::string(std::size_t{1} << 20, 'v'));
    clock_.Advance(milliseconds(1000));  // memory rests
    store_->Work();
  }
  ASSERT_TRUE(Begin(token).ok());
  EXPECT_EQ(Rest(), Lines({"OUT_OF_RANGE"}));
}

TEST_F(WatchTest, SaysSoWhereALogOfAnEarlierOpeningIsMissing) {
  ASSERT_TRUE(Begin().ok());
  const std::string token = watch_->token();
  for (const char* key : {"a", "b", "c"}) {
    Put(key, "");
    Open();
  }
  Put("first", "");
  Put("memory", "", {.durability = Durability::kMemory});
  Put("logged", "");
  const std::vector<std::string> logs = ArchivedLogs();
  ASSERT_EQ(logs.size(), 3u);
  std::filesystem::remove(logs[1]);
  ASSERT_TRUE(Begin(token).ok());
  EXPECT_EQ(Rest(), Lines({"a=", "OUT_OF_RANGE"}));
}

// What need not have been synced when the machine failed.
TEST_F(WatchTest, AnArchivedLogThatIsDamagedIsNotKept) {
  ASSERT_TRUE(Begin().ok());
  const std::string before = watch_->token();
  Put("a", "");
  EXPECT_EQ(Rest(), Lines({"a="}));
  const std::string behind = watch_->token();
  Open();
  Put("b", "");
  Open();
  watch_.reset();
  store_.reset();
  std::ofstream(temp_ / "store/REMORA-BOOT") << "an earlier one";
  const std::string damaged = ArchivedLogs().front();
  std::fstream(damaged, std::ios::in | std::ios::out).seekp(20).put('x');  // within the first record
  Open();
  ASSERT_TRUE(Begin(behind).ok());
  EXPECT_EQ(Rest(), Lines({"b="}));
  ASSERT_TRUE(Begin(before).ok());
  EXPECT_EQ(Rest(), Lines({"OUT_OF_RANGE"}));
}

TEST_F(WatchTest, SaysSoWhenWhatItHasShownIsNoMore) {
  Put("a", "");
  Keep();
  ASSERT_TRUE(Begin().ok());
  Put("lost", "1");
  Put("lost", "2");
  EXPECT_EQ(Rest(), Lines({"lost=1", "lost=2"}));
  const std::string token = watch_->token();
  Restore();
  // The numbers of what was lost come again.
  for (int i = 0; i < 100; ++i) Put("other", "");
  EXPECT_EQ(Begin(token).code(), absl::StatusCode::kOutOfRange);
}

TEST_F(WatchTest, SaysSoWhenTheIncarnationWentOnAndLost) {
  ASSERT_TRUE(Begin().ok());
  Put("kept", "");
  EXPECT_EQ(Rest(), Lines({"kept="}));
  const std::string kept = watch_->token();
  watch_.reset();
  store_.reset();
  std::filesystem::copy(temp_ / "store", temp_ / "kept", std::filesystem::copy_options::recursive);
  Open();
  // As of a machine that stops: the same incarnation goes on to write what will be lost. Its token names the
  // one that is on record.
  ASSERT_TRUE(Begin(kept).ok());
  Restore();
  ASSERT_TRUE(Begin(kept).ok());
  Put("b", "");
  EXPECT_EQ(Rest(), Lines({"b="}));
  // Behind what the next opening found.
  std::optional<ChangePlace> place = ReadChangeToken(kept);
  ++place->sequence;
  EXPECT_EQ(Begin(MakeChangeToken(*place)).code(), absl::StatusCode::kOutOfRange);
}

TEST_F(WatchTest, RefusesWhatIsNoToken) {
  ASSERT_TRUE(Begin().ok());
  const std::string token = watch_->token();
  EXPECT_EQ(Begin("nonsense").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Begin(token + "A").code(), absl::StatusCode::kInvalidArgument);
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::string changed = token;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_EQ(Begin(changed).code(), absl::StatusCode::kInvalidArgument) << i;
  }
  EXPECT_EQ(Begin({}, std::string(kMaxBoundSize + 1, 'p')).code(), absl::StatusCode::kInvalidArgument);
  std::optional<ChangePlace> place = ReadChangeToken(token);
  place->sequence += 1000;
  EXPECT_EQ(Begin(MakeChangeToken(*place)).code(), absl::StatusCode::kInvalidArgument);
  place->sequence = 0;
  EXPECT_EQ(Begin(MakeChangeToken(*place)).code(), absl::StatusCode::kInvalidArgument);
  place->incarnation ^= 1;
  EXPECT_EQ(Begin(MakeChangeToken(*place)).code(), absl::StatusCode::kOutOfRange);
}

TEST_F(WatchTest, AStoreInMemoryHasNoLog) {
  auto store = Store::Open({.memory_size = kMinMemorySize});
  EXPECT_EQ((*store)->Watch().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(WatchTest, ShowsNothingThatWaitsForTheDisk) {
  Put("first", "");  // raises the limit of versions
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

TEST_F(WatchTest, WritesThatSkipTheLogAreNotShown) {
  Put("first", "");
  ASSERT_TRUE(Begin().ok());
  for (int i = 0; i < 3; ++i) {
    Put("memory", "", {.durability = Durability::kMemory});
    Put("logged" + std::to_string(i), "");
    EXPECT_EQ(Rest(), Lines({"logged" + std::to_string(i) + "="}));
    for (int j = 0; j < 3; ++j) Put("memory", "", {.durability = Durability::kMemory});
    EXPECT_EQ(Rest(), Lines());
  }
  const std::string token = watch_->token();
  Put("last", "");
  ASSERT_TRUE(Begin(token).ok());
  EXPECT_EQ(Rest(), Lines({"last="}));
}

// Log files were full meanwhile, and what they hold is in tables.
TEST_F(WatchTest, FindsTheLastMegabytesBehindARestart) {
  const std::string value(std::size_t{1} << 20, 'v');
  const auto put = [&](int i) {
    Put("key", std::to_string(i) + value);
    clock_.Advance(milliseconds(1000));  // memory rests
    store_->Work();
  };
  for (int i = 0; i < 75; ++i) put(i);
  ASSERT_TRUE(Begin().ok());
  const std::string token = watch_->token();
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

// More than the write buffers hold: log files come and go meanwhile.
TEST_F(WatchTest, FollowsOverManyLogFiles) {
  ASSERT_TRUE(Begin().ok());
  const std::string value(std::size_t{1} << 20, 'v');
  for (int i = 0; i < 300; ++i) {
    Put("key", std::to_string(i) + value);
    ASSERT_EQ(Rest(), Lines({"key=" + std::to_string(i) + value}));
    clock_.Advance(milliseconds(1000));  // memory rests
    store_->Work();
  }
}

}  // namespace
}  // namespace remora
