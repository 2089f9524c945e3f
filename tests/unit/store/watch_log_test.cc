// Watches of a store with a commit log: the changes that the log keeps, and tokens
// that are no place in it. The numbers in comments are invariants of
// log_change_feed.h, tier_log.h (T1) and commit_log/file_set.h (C8a) in store/durable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "store/backup.h"
#include "store/server_store.h"
#include "store/watch.h"
#include "test_files.h"
#include "watch_fixture.h"

namespace remora {
namespace {

constexpr std::uint64_t kLeastLog = std::uint64_t{1} << 20;

class LogWatchTest : public WatchFixture {
 protected:
  LogWatchTest() : WatchFixture({.commit_log_bytes = kLeastLog}) {}

  std::string LogDir() const { return temp_ / "store/commit-log"; }
  /// Opens a copy of the directory as a kill would leave it now.
  void OpenAsKilled() {
    // Threads of the store make and remove files at the same time: a copy is of one moment if none did
    // meanwhile.
    const auto listed = [this] {
      std::map<std::string, std::uintmax_t> files;
      std::error_code gone;
      for (const auto& file : std::filesystem::recursive_directory_iterator(temp_ / "store")) {
        files[file.path()] = file.is_regular_file(gone) ? file.file_size(gone) : 0;
      }
      return files;
    };
    for (std::error_code failed;;) {
      const auto before = listed();
      std::filesystem::remove_all(temp_ / "killed");
      std::filesystem::copy(temp_ / "store", temp_ / "killed", std::filesystem::copy_options::recursive,
                            failed);
      if (!failed && listed() == before) break;
    }
    watch_.reset();
    store_.reset();
    std::filesystem::remove_all(temp_ / "store");
    std::filesystem::rename(temp_ / "killed", temp_ / "store");
    Open();
  }
  absl::StatusCode CodeAt(const std::string& token) {
    const absl::Status begun = Begin(token);
    if (!begun.ok()) return begun.code();
    for (;;) {
      const absl::StatusOr<bool> came = watch_->Next(std::chrono::milliseconds(0));
      if (!came.ok() || !*came) return came.status().code();
    }
  }
  /// Puts `count` values, numbered from `from` on. Returns a token before each.
  std::vector<std::string> PutMany(int from, int count) {
    std::vector<std::string> tokens;
    for (int i = from; i < from + count; ++i) {
      EXPECT_TRUE(Begin().ok());
      tokens.push_back(watch_->resume_token());
      Put("key", std::to_string(i) + std::string(10'000, 'v'));
    }
    return tokens;
  }
};

TEST_F(LogWatchTest, GoesOnWhereAKillCameBetween) {
  ASSERT_TRUE(Begin().ok());
  Put("a", "1");
  Put("b", "2");
  ASSERT_TRUE(*watch_->Next(std::chrono::milliseconds(0)));
  const std::string token = watch_->resume_token();
  for (int i = 0; i < 3; ++i) OpenAsKilled();
  Put("c", "3");
  ASSERT_TRUE(Begin(token).ok());
  EXPECT_EQ(Rest(), Lines({"b=2", "c=3"}));
}

// The log itself has 1 MiB. The store also retains old files with about three times as many bytes.
TEST_F(LogWatchTest, KeepsTheLatestBytesOverRestarts) {  // C8a
  retention_bytes_ = 3 * kLeastLog;
  Open();
  std::vector<std::string> tokens = PutMany(0, 1200);
  for (int pass = 0; pass < 3; ++pass) {
    // So many writes fit into the retained bytes. Each has 10,000 bytes and some 130 more, and openings and
    // the ends of files take some bytes, too.
    constexpr std::size_t kSome = 290;
    for (std::size_t i = tokens.size() - kSome; i < tokens.size(); i += 17) {
      ASSERT_TRUE(Begin(tokens[i]).ok());
      ASSERT_EQ(Rest().size(), tokens.size() - i) << i;
    }
    EXPECT_EQ(CodeAt(tokens.front()), absl::StatusCode::kOutOfRange);
    pass == 0 ? Open() : OpenAsKilled();
  }
  std::uint64_t bytes = 0;
  for (const std::string& file : FilesIn(LogDir(), ".log")) bytes += std::filesystem::file_size(file);
  EXPECT_LE(bytes, retention_bytes_ + kLeastLog + 3 * kLeastLog / 16);
}

TEST_F(LogWatchTest, WithoutRetentionItSaysSoWhenItIsTooFarBehind) {
  retention_bytes_ = 0;
  Open();
  const std::vector<std::string> tokens = PutMany(0, 400);
  ASSERT_TRUE(Begin(tokens.front()).ok());
  EXPECT_EQ(Rest(), Lines({"OUT_OF_RANGE"}));
  EXPECT_EQ(Rest(), Lines({"OUT_OF_RANGE"}));
  EXPECT_EQ(CodeAt(tokens.back()), absl::StatusCode::kOk);
}

TEST_F(LogWatchTest, AFollowerThatStopsIsToldWhatItMissed) {
  retention_bytes_ = 0;
  Open();
  ASSERT_TRUE(Begin().ok());
  Put("a", "");
  EXPECT_EQ(Rest(), Lines({"a="}));
  const auto stopped = std::move(watch_);
  PutMany(0, 400);
  watch_ = nullptr;
  const absl::StatusOr<bool> next = stopped->Next(std::chrono::milliseconds(0));
  EXPECT_EQ(next.status().code(), absl::StatusCode::kOutOfRange) << next.status();
  EXPECT_THAT(next.status().message(), testing::HasSubstr("--watch_retention"));
}

TEST_F(LogWatchTest, KeepsWhatWasWrittenWithinATime) {  // C8a
  retention_bytes_ = 0;
  retention_ = std::chrono::hours(1);
  Open();
  const std::vector<std::string> tokens = PutMany(0, 400);
  Open();
  ASSERT_TRUE(Begin(tokens.front()).ok());
  EXPECT_EQ(Rest().size(), tokens.size());
  // Makes the log files look as if the writer left them two hours ago.
  watch_.reset();
  store_.reset();
  const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(2);
  for (const std::string& file : FilesIn(LogDir(), ".log")) std::filesystem::last_write_time(file, long_ago);
  Open();
  EXPECT_EQ(CodeAt(tokens.front()), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(CodeAt(tokens.back()), absl::StatusCode::kOk) << "not persisted, or written now";
}

TEST_F(LogWatchTest, ShowsWritesOfEveryLevel) {
  ASSERT_TRUE(Begin().ok());
  Put("memory", "1", {.durability = Durability::kMemory});
  Put("logged", "2");
  EXPECT_EQ(Rest(), Lines({"memory=1", "logged=2"}));
}

TEST_F(LogWatchTest, SaysSoAtAWriteThatIsLargerThanAFile) {  // C8c, T1
  ASSERT_TRUE(Begin().ok());
  Put("a", "1");
  const std::string before = watch_->resume_token();
  Put("large", std::string(200'000, 'l'));
  std::unique_ptr<StoreWatch> follower = std::move(watch_);
  ASSERT_TRUE(Begin().ok());
  const std::string behind = watch_->resume_token();
  Put("b", "2");
  EXPECT_EQ(Rest(), Lines({"b=2"}));
  watch_ = std::move(follower);
  EXPECT_EQ(Rest(), Lines({"a=1", "OUT_OF_RANGE"}));
  Open();
  ASSERT_TRUE(Begin(before).ok());
  EXPECT_EQ(Rest(), Lines({"a=1", "OUT_OF_RANGE"}));
  ASSERT_TRUE(Begin(behind).ok());
  EXPECT_EQ(Rest(), Lines({"b=2"}));
}

TEST_F(LogWatchTest, SaysSoAtADamagedGroup) {
  ASSERT_TRUE(Begin().ok());
  const std::string token = watch_->resume_token();
  Put("a", "1");
  Put("damaged", "2");
  Put("b", "3");
  for (const std::string& file : FilesIn(LogDir(), ".log")) {
    const std::size_t at = ReadFile(file).find("damaged");
    if (at == std::string::npos) continue;
    std::fstream(file, std::ios::in | std::ios::out).seekp(static_cast<std::streamoff>(at)).put('x');
  }
  ASSERT_TRUE(Begin(token).ok());
  EXPECT_EQ(Rest(), Lines({"a=1", "OUT_OF_RANGE"}));
}

// The token has a sequence number of RocksDB.
TEST_F(LogWatchTest, ATokenOfAnEarlierStoreIsNoPlaceInTheLog) {
  watch_.reset();
  store_.reset();
  std::filesystem::remove_all(temp_ / "store");
  log_.commit_log_bytes = 0;
  Open();
  ASSERT_TRUE(Begin().ok());
  const std::string first = watch_->resume_token();
  for (int i = 0; i < 1000; ++i) Put("key", "");
  Rest();
  const std::string last = watch_->resume_token();
  log_.commit_log_bytes = kLeastLog;
  Open();
  EXPECT_EQ(Begin(first).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Begin(last).code(), absl::StatusCode::kOutOfRange);
  Put("key", "new");
  EXPECT_EQ(Begin(first).code(), absl::StatusCode::kOutOfRange);
}

// The restored store has a log of its own, with the same sequence numbers.
TEST_F(LogWatchTest, ATokenOfTheStoreThatWasBackedUpIsNoPlaceInTheLog) {
  Open();
  ASSERT_TRUE(Begin().ok());
  const std::string first = watch_->resume_token();
  for (int i = 0; i < 10; ++i) Put("key", "");
  ASSERT_TRUE(store_->Backup(temp_ / "backups").ok());
  watch_.reset();
  store_.reset();
  std::filesystem::remove_all(temp_ / "store");
  ASSERT_TRUE(RestoreBackup(temp_ / "backups", 0, temp_ / "store", 1'795'305'600).ok());
  Open();
  for (int i = 0; i < 10; ++i) Put("other", "");
  EXPECT_EQ(Begin(first).code(), absl::StatusCode::kOutOfRange);
  ASSERT_TRUE(Begin().ok());
  EXPECT_EQ(*store_->Get("key"), "");
}

// Many files come and go, while one thread writes and another one applies.
TEST_F(LogWatchTest, FollowsAWriterThatDoesNotWait) {
  watch_.reset();
  store_.reset();
  StoreOptions options = Options();
  options.syncing = Syncing::kInThread;
  options.clock = nullptr;
  options.watch_retention_bytes = std::uint64_t{64} << 20;
  auto store = ServerStore::Open(options);
  ASSERT_TRUE(store.ok()) << store.status();
  store_ = *std::move(store);
  ASSERT_TRUE(Begin().ok());
  constexpr int kWrites = 20'000;
  const std::string value(500, 'v');
  std::thread writer([&] {
    for (int i = 0; i < kWrites; ++i) {
      EXPECT_TRUE(store_->Put("key" + std::to_string(i % 100), std::to_string(i) + value).ok());
    }
  });
  for (int i = 0; i < kWrites; ++i) {
    const absl::StatusOr<bool> came = watch_->Next(std::chrono::seconds(60));
    if (!came.ok() || !*came || watch_->value() != std::to_string(i) + value) {
      ADD_FAILURE() << i << ": " << came.status();
      break;
    }
  }
  writer.join();
}

}  // namespace
}  // namespace remora
