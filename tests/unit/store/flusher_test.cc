// T3 of store/durable/tier_log/tier_log.h: a full disk stops RocksDB until it is resumed.
#include "store/durable/flusher.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <string>
#include <thread>

#include "log_database.h"
#include "small_disk.h"
#include "test_files.h"
#include "tests/support/patience.h"
#include "tests/support/random_bytes.h"

namespace remora {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// A database on a small disk that was full once, and was resumed. Its memtables hold all that the tests
/// write between two flushes.
class FlusherTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = disk_.Mount(temp_.path(), "size=96m");
    if (!why.empty()) GTEST_SKIP() << why;
    db_.Open(temp_ / "db", flusher_.listener());
    Write(2 * kMiB);
    disk_.TakeSpace(0);
    ASSERT_FALSE(Flush().ok());
    EmptyDisk();
    flusher_.ResumeIfStopped(db_.get());
    ASSERT_TRUE(Flush().ok());
  }
  void TearDown() override {
    if (db_.get() != nullptr) db_.Close();
  }

  void EmptyDisk() const { std::filesystem::remove(temp_ / "ballast"); }
  /// Writes values that RocksDB cannot compress. All writes use the same keys, so that a compaction has to
  /// merge them.
  void Write(std::size_t bytes) {
    rocksdb::WriteOptions options;
    options.disableWAL = true;
    for (std::size_t done = 0; done < bytes; done += kMiB / 2) {
      const std::string value = RandomBytes(kMiB / 2, ++writes_);
      ASSERT_TRUE(db_->Put(options, db_.entries(), "key" + std::to_string(done), value).ok());
    }
  }
  absl::Status Flush() { return flusher_.Flush(db_.get(), {db_.entries(), db_.meta()}); }
  /// Waits for an error of a background thread. Returns false if none comes.
  bool AwaitError() {
    const std::uint64_t before = Number(rocksdb::DB::Properties::kBackgroundErrors);
    const auto give_up = std::chrono::steady_clock::now() + Patience(std::chrono::seconds(60));
    while (Number(rocksdb::DB::Properties::kBackgroundErrors) == before) {
      if (std::chrono::steady_clock::now() > give_up) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  }
  std::uint64_t Number(const std::string& property) {
    std::uint64_t number = 0;
    EXPECT_TRUE(db_->GetIntProperty(db_.entries(), property, &number));
    return number;
  }

  const TempDir temp_;
  SmallDisk disk_;
  Flusher flusher_{ResumedBy::kFlusher};
  LogDatabase db_;
  std::uint64_t writes_ = 0;
};

TEST_F(FlusherTest, AFlushAfterAnErrorEndsWithTables) {
  Write(32 * kMiB);
  ASSERT_TRUE(Flush().ok());
  EXPECT_EQ(Number(rocksdb::DB::Properties::kNumImmutableMemTable), 0u);
}

TEST_F(FlusherTest, AFlushThatFailsAfterAnErrorSaysSo) {
  Write(2 * kMiB);
  disk_.TakeSpace(0);
  const absl::Status status = Flush();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_NE(status.message().find("no space left"), std::string::npos) << status;

  EmptyDisk();
  flusher_.ResumeIfStopped(db_.get());
  EXPECT_TRUE(Flush().ok());
  EXPECT_EQ(Number(rocksdb::DB::Properties::kNumImmutableMemTable), 0u);
}

// RocksDB tries a compaction again each second for which a full disk has no space.
TEST_F(FlusherTest, NothingWaitsForACompactionThatFindsNoSpace) {
  // RocksDB merges the tables of level 0 as soon as there are four: here, not before the space is taken.
  ASSERT_TRUE(db_->SetOptions(db_.entries(), {{"disable_auto_compactions", "true"}}).ok());
  for (const std::size_t bytes : {4 * kMiB, kMiB / 2, kMiB / 2}) {
    Write(bytes);
    ASSERT_TRUE(Flush().ok());
  }
  disk_.TakeSpace(kMiB);
  // The compaction begins at once, and may leave no space for the file of these options.
  db_->SetOptions(db_.entries(), {{"disable_auto_compactions", "false"}}).PermitUncheckedError();
  ASSERT_TRUE(AwaitError());
  std::future<bool> done = std::async(std::launch::async, [this] {
    bool all = true;
    for (int tries = 0; tries < 3; ++tries) {
      flusher_.ResumeIfStopped(db_.get());
      all = Flush().ok() && all;
    }
    return all;
  });
  const bool ends = done.wait_for(Patience(std::chrono::seconds(30))) == std::future_status::ready;
  if (!ends) EmptyDisk();
  ASSERT_TRUE(ends);
  EXPECT_TRUE(AwaitError());
  Write(kMiB / 2);  // RocksDB still takes writes
  EmptyDisk();
  EXPECT_TRUE(done.get());
}

}  // namespace
}  // namespace remora
