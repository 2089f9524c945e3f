// B1 to B3 of store/durable/blob_files.h.
#include "store/durable/blob_files.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "log_database.h"
#include "store/backup.h"
#include "store/durable/rocksdb_options.h"
#include "store/durable/tier.h"
#include "test_files.h"
#include "tests/support/random_bytes.h"

namespace remora {
namespace {

constexpr std::size_t kValueSize = 100'000;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

class BlobFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    rocksdb::ColumnFamilyOptions options = DataOptions(/*block_cache_bytes=*/0, 64 * kMiB);
    UseBlobFiles(&options);
    options.disable_auto_compactions = true;
    db_.Open(temp_ / "db", nullptr, options);
    files_ = std::make_unique<BlobFiles>(db_.get(), db_.entries(), kMiB);
  }
  void TearDown() override {
    CheckAll();
    db_.Close();
  }

  /// Puts a value that cannot be compressed.
  void Put(int number, std::size_t size = kValueSize) {
    rocksdb::WriteOptions options;
    options.disableWAL = true;
    const std::string key = "key " + std::to_string(number);
    const std::string value = RandomBytes(size, ++writes_);
    ASSERT_TRUE(db_->Put(options, db_.entries(), key, value).ok());
    known_[key] = value;
  }
  void Flush() { ASSERT_TRUE(db_->Flush({}, {db_.entries(), db_.meta()}).ok()); }
  void Compact() {
    rocksdb::CompactRangeOptions options;
    options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    ASSERT_TRUE(db_->CompactRange(options, db_.entries(), nullptr, nullptr).ok());
  }
  /// Makes files of which each has four live values, and more that are dead the older it is. `rounds`: files.
  void MakeGarbage(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (int i = 4 * round; i < 4 * rounds; ++i) Put(i);
      Flush();
    }
    Compact();  // only now RocksDB knows what is dead
  }
  void CheckAll() {
    std::string got;
    for (const auto& [key, value] : known_) {
      ASSERT_TRUE(db_->Get(ReadOnce(), db_.entries(), key, &got).ok()) << key;
      ASSERT_TRUE(got == value) << key;
    }
  }

  TempDir temp_;
  LogDatabase db_;
  std::unique_ptr<BlobFiles> files_;
  std::map<std::string, std::string> known_;
  std::uint64_t writes_ = 0;
};

TEST_F(BlobFilesTest, LargeValuesAreWrittenOnceAndSmallOnesAreInTables) {  // B1
  for (int i = 0; i < 20; ++i) Put(i);
  for (int i = 20; i < 200; ++i) Put(i, kMinBlobBytes / 2);
  Flush();
  const std::uint64_t large = 20 * kValueSize;
  EXPECT_GE(files_->bytes().all, large);
  EXPECT_LE(files_->bytes().all, large + large / 20);
  const auto files = FilesIn(temp_ / "db", ".blob");
  Compact();
  EXPECT_EQ(FilesIn(temp_ / "db", ".blob"), files) << "a compaction copies the keys alone";
}

TEST_F(BlobFilesTest, AFileWhoseValuesAreDeadIsDeleted) {  // B2
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 20; ++i) Put(i);
    Flush();
  }
  EXPECT_GE(files_->bytes().all, 5 * 20 * kValueSize);
  Compact();
  EXPECT_LE(files_->bytes().all, 21 * kValueSize);
  EXPECT_EQ(files_->bytes().dead, 0u);
}

TEST_F(BlobFilesTest, LiveValuesAreCopiedWhileMostBytesAreDead) {  // B3
  ASSERT_NO_FATAL_FAILURE(MakeGarbage(16));
  const BlobBytes before = files_->bytes();
  EXPECT_GE(before.dead * 100, before.all * 80);
  int compactions = 0;
  for (files_->Decide(); files_->copies(); files_->Decide()) {
    ASSERT_LT(++compactions, 10);
    ASSERT_NO_FATAL_FAILURE(Compact());
  }
  EXPECT_GE(compactions, 1);
  EXPECT_LE(files_->bytes().dead * 100, files_->bytes().all * 60);
  const auto files = FilesIn(temp_ / "db", ".blob");
  Compact();
  EXPECT_EQ(FilesIn(temp_ / "db", ".blob"), files) << "no value is copied any more";
}

TEST_F(BlobFilesTest, NothingIsCopiedWhileHalfOfTheBytesAreLive) {  // B3
  for (const int first : {0, 10}) {                                 // 20 values, then ten of them again
    for (int i = first; i < 20; ++i) Put(i);
    Flush();
  }
  Compact();
  EXPECT_GT(files_->bytes().dead, 9 * kValueSize);
  files_->Decide();
  EXPECT_FALSE(files_->copies());
}

// A backup has the files, and so has a store that is opened without a commit log: it only makes no new ones.
TEST(BlobBackupTest, ARestoredStoreHasLargeValues) {
  TempDir temp;
  std::map<std::string, std::string> known;
  for (int i = 0; i < 30; ++i)
    known["key " + std::to_string(i)] = RandomBytes(kValueSize, static_cast<unsigned>(i) + 1);
  {
    auto tier = DurableTier::Open(temp / "one", {.commit_log_bytes = 64 * kMiB});
    ASSERT_TRUE(tier.ok()) << tier.status();
    std::uint64_t version = 0;
    for (const auto& [key, value] : known) (*tier)->Put(key, {.version = ++version}, value);
    ASSERT_TRUE((*tier)->Write().ok());
    ASSERT_TRUE(PrepareBackupDir(temp / "backups").ok());
    const auto backup = (*tier)->Backup(temp / "backups", {});
    ASSERT_TRUE(backup.ok()) << backup.status();
    EXPECT_FALSE(FilesIn(temp / "one", ".blob").empty());
  }
  ASSERT_TRUE(VerifyBackup(temp / "backups", 0).ok());
  const auto restored = RestoreBackup(temp / "backups", 0, temp / "two", 1'000'000);
  ASSERT_TRUE(restored.ok()) << restored.status();
  auto tier = DurableTier::Open(temp / "two");
  ASSERT_TRUE(tier.ok()) << tier.status();
  for (const auto& [key, value] : known) {
    const absl::Status read = (*tier)->Get(key, [&value = value](const DurableTier::Entry& entry) {
      return entry.value == value ? absl::OkStatus() : absl::DataLossError("another value");
    });
    EXPECT_TRUE(read.ok()) << key << ": " << read;
  }
}

}  // namespace
}  // namespace remora
