// Watches of a store without a commit log: the log files of
// RocksDB that are kept, and changes that are not in them.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "store/durable/wal/wal_scan.h"
#include "store/server_store.h"
#include "store/watch.h"
#include "watch_fixture.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

class WalWatchTest : public WatchFixture {
 protected:
  WalWatchTest() : WatchFixture(WatchedLog()) {}

  std::vector<std::string> ArchivedLogs() const {
    return LogsIn(temp_ / "store/archive").value_or(std::vector<std::string>());
  }
};

// Each log file has one value, so that the retained bytes decide which files are kept.
TEST_F(WalWatchTest, FindsTheLatestBytesThatAreRetained) {
  constexpr std::size_t kSize = std::size_t{256} << 10;
  retention_bytes_ = 4 * kSize;
  Open();
  std::vector<std::string> tokens;
  Lines values;
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(Begin().ok());
    tokens.push_back(watch_->resume_token());
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

TEST_F(WalWatchTest, SaysSoWhenItIsTooFarBehind) {
  retention_bytes_ = 0;
  Open();
  ASSERT_TRUE(Begin().ok());
  const std::string token = watch_->resume_token();
  Put("a", "");
  Open();
  Open();  // the contents of the first log are in a table by now
  Put("b", "");
  ASSERT_TRUE(Begin(token).ok());
  EXPECT_EQ(Rest(), Lines({"OUT_OF_RANGE"}));
  EXPECT_EQ(Rest(), Lines({"OUT_OF_RANGE"}));
}

TEST_F(WalWatchTest, SaysSoEvenWhereSomeWritesSkipTheLog) {
  retention_bytes_ = 0;
  Open();
  Put("first", "");  // raises the version limit
  ASSERT_TRUE(Begin().ok());
  const std::string token = watch_->resume_token();
  Put("memory", "", {.durability = Durability::kMemory});
  const std::string name = std::filesystem::path(LogsIn(temp_ / "store")->back()).filename();
  const auto is_there = [&] {
    return std::filesystem::exists(temp_ / ("store/" + name)) ||
           std::filesystem::exists(temp_ / ("store/archive/" + name));
  };
  for (int i = 0; is_there(); ++i) {
    ASSERT_LT(i, 900);
    Put("key", std::string(std::size_t{1} << 20, 'v'));
    clock_.Advance(milliseconds(1000));  // ends grace periods
    store_->RunMaintenance();
  }
  ASSERT_TRUE(Begin(token).ok());
  EXPECT_EQ(Rest(), Lines({"OUT_OF_RANGE"}));
}

TEST_F(WalWatchTest, SaysSoWhereALogOfAnEarlierOpeningIsMissing) {
  ASSERT_TRUE(Begin().ok());
  const std::string token = watch_->resume_token();
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

// The damaged part may not have been synced when the machine failed.
TEST_F(WalWatchTest, AnArchivedLogThatIsDamagedIsNotKept) {
  ASSERT_TRUE(Begin().ok());
  const std::string before = watch_->resume_token();
  Put("a", "");
  EXPECT_EQ(Rest(), Lines({"a="}));
  const std::string behind = watch_->resume_token();
  Open();
  Put("b", "");
  Open();
  watch_.reset();
  store_.reset();
  std::ofstream(temp_ / "store/REMORA-BOOT") << "an earlier one";
  const std::string damaged = ArchivedLogs().front();
  std::fstream(damaged, std::ios::in | std::ios::out).seekp(20).put('x');  // in the first record
  Open();
  ASSERT_TRUE(Begin(behind).ok());
  EXPECT_EQ(Rest(), Lines({"b="}));
  ASSERT_TRUE(Begin(before).ok());
  EXPECT_EQ(Rest(), Lines({"OUT_OF_RANGE"}));
}

TEST_F(WalWatchTest, WritesThatSkipTheLogAreNotShown) {
  Put("first", "");
  ASSERT_TRUE(Begin().ok());
  for (int i = 0; i < 3; ++i) {
    Put("memory", "", {.durability = Durability::kMemory});
    Put("logged" + std::to_string(i), "");
    EXPECT_EQ(Rest(), Lines({"logged" + std::to_string(i) + "="}));
    for (int j = 0; j < 3; ++j) Put("memory", "", {.durability = Durability::kMemory});
    EXPECT_EQ(Rest(), Lines());
  }
  const std::string token = watch_->resume_token();
  Put("last", "");
  ASSERT_TRUE(Begin(token).ok());
  EXPECT_EQ(Rest(), Lines({"last="}));
}

}  // namespace
}  // namespace remora
