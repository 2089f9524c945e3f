#include "store/durable_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>

#include "store/format/layout.h"
#include "test_files.h"

namespace remora {
namespace {

using testing::HasSubstr;

class DurableTierTest : public testing::Test {
 protected:
  TempDir temp_;
  const std::string path_ = temp_ / "store";

  std::unique_ptr<DurableTier> Open() {
    absl::StatusOr<std::unique_ptr<DurableTier>> tier = DurableTier::Open(path_);
    EXPECT_TRUE(tier.ok()) << tier.status();
    return tier.ok() ? *std::move(tier) : nullptr;
  }
  absl::Status OpenStatus() { return DurableTier::Open(path_).status(); }

  static std::map<std::string, std::string> All(const DurableTier& tier) {
    std::map<std::string, std::string> all;
    const absl::Status status = tier.ForEach([&](const DurableTier::Entry& entry) {
      all[std::string(entry.key)] = std::to_string(entry.header.version) + ":" + std::string(entry.value);
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
    return all;
  }
  /// Leaves a store of some megabytes: some of it in tables, some in the log.
  void Fill() {
    const std::unique_ptr<DurableTier> tier = Open();
    tier->SetVersionLimit(1'000'000);
    for (std::uint64_t i = 1; i <= 500; ++i) {
      tier->Put("key" + std::to_string(i), {.version = i}, std::string(4000, 'v'));
      ASSERT_TRUE(tier->Write().ok());
    }
  }
};

TEST_F(DurableTierTest, KeepsWhatIsWritten) {
  {
    const auto tier = Open();
    EXPECT_EQ(tier->version_limit(), 1u);
    tier->SetVersionLimit(100);
    tier->Put("a", {.version = 1}, "one");
    tier->Put("b", {.version = 2}, "");
    tier->Put("a", {.version = 3}, "three");
    tier->Put("c", {.version = 4}, "four");
    tier->Delete("c");
    EXPECT_EQ(tier->version_limit(), 1u) << "before it is written";
    ASSERT_TRUE(tier->Write().ok());
    EXPECT_EQ(tier->version_limit(), 100u);
  }
  const auto tier = Open();
  EXPECT_EQ(tier->version_limit(), 100u);
  EXPECT_EQ(All(*tier), (std::map<std::string, std::string>{{"a", "3:three"}, {"b", "2:"}}));
}

TEST_F(DurableTierTest, KeysAndValuesOfAllBytesAndSizes) {
  const std::string key(kMaxKeySize, '\xff');
  const std::string value(kMaxValueSize, '\0');
  {
    const auto tier = Open();
    tier->SetVersionLimit(100);
    tier->Put(key, {.version = 1}, value);
    tier->Put(std::string(1, '\0'), {.version = 2}, "zero");
    ASSERT_TRUE(tier->Write().ok());
  }
  const auto all = All(*Open());
  EXPECT_EQ(all.size(), 2u);
  EXPECT_EQ(all.at(key), "1:" + value);
  EXPECT_EQ(all.at(std::string(1, '\0')), "2:zero");
}

TEST_F(DurableTierTest, PrintsNothing) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Fill();
  Open();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(DurableTierTest, AStoreOfSomebodyElsesRocksDbIsNotTouched) {
  Fill();
  std::filesystem::remove(path_ + "/REMORA");
  const std::vector<std::string> before = FilesIn(path_);
  EXPECT_EQ(OpenStatus().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(FilesIn(path_), before);
}

// Killed while it was made for the first time: nothing was acknowledged, so it is made again.
TEST_F(DurableTierTest, AHalfMadeStoreIsMadeAgain) {
  Open();
  WriteFile(path_ + "/REMORA", "");
  ASSERT_TRUE(OpenStatus().ok()) << "killed last before the marker was written";
  WriteFile(path_ + "/REMORA", "");
  std::filesystem::remove(path_ + "/CURRENT");
  for (const std::string& log : FilesIn(path_, ".log")) std::filesystem::remove(log);
  ASSERT_TRUE(OpenStatus().ok()) << "killed before RocksDB named its manifest";
  EXPECT_EQ(ReadFile(path_ + "/REMORA"), "remora-store 1\n");
}

TEST_F(DurableTierTest, ALostManifestIsDataLossAndNotANewStore) {
  Fill();
  std::filesystem::remove(path_ + "/CURRENT");
  const absl::Status status = OpenStatus();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
}

TEST_F(DurableTierTest, ADamagedManifestIsDataLoss) {
  Fill();
  for (const std::string& file : FilesIn(path_)) {
    if (file.find("MANIFEST") == std::string::npos) continue;
    std::string bytes = ReadFile(file);
    bytes[bytes.size() / 2] ^= 1;
    WriteFile(file, bytes);
  }
  EXPECT_EQ(OpenStatus().code(), absl::StatusCode::kDataLoss);
}

// Damage in the middle of the log must not end it early: what comes after it was acknowledged.
TEST_F(DurableTierTest, ADamagedLogIsDataLoss) {
  Fill();
  const std::vector<std::string> logs = FilesIn(path_, ".log");
  ASSERT_EQ(logs.size(), 1u);
  std::string bytes = ReadFile(logs[0]);
  ASSERT_GT(bytes.size(), 1'000'000u);
  bytes[bytes.size() / 2] ^= 1;
  WriteFile(logs[0], bytes);
  EXPECT_EQ(OpenStatus().code(), absl::StatusCode::kDataLoss);
}

// What a killed process leaves: the last record in part.
TEST_F(DurableTierTest, AnIncompleteEndOfTheLogIsNotDamage) {
  Fill();
  const std::vector<std::string> logs = FilesIn(path_, ".log");
  ASSERT_EQ(logs.size(), 1u);
  const std::string bytes = ReadFile(logs[0]);
  WriteFile(logs[0], bytes.substr(0, bytes.size() - 100));
  const auto tier = Open();
  ASSERT_NE(tier, nullptr);
  EXPECT_EQ(All(*tier).size(), 499u);
}

TEST_F(DurableTierTest, ADamagedTableIsDataLoss) {
  Fill();
  Open().reset();  // a restart turns the log into a table
  const std::vector<std::string> tables = FilesIn(path_, ".sst");
  ASSERT_FALSE(tables.empty());
  for (const std::string& table : tables) {
    std::string bytes = ReadFile(table);
    for (std::size_t at = 0; at + 4096 < bytes.size(); at += 512) bytes[at] ^= 1;
    WriteFile(table, bytes);
  }
  absl::StatusOr<std::unique_ptr<DurableTier>> tier = DurableTier::Open(path_);
  const absl::Status status =
      tier.ok() ? (*tier)->ForEach([](const auto&) { return absl::OkStatus(); }) : tier.status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
}

TEST_F(DurableTierTest, EntriesOutOfBoundsAreDataLoss) {
  const auto check = [&](std::string_view key, const StoredHeader& header, std::string_view value) {
    TempDir temp;
    const auto tier = DurableTier::Open(temp.path());
    (*tier)->SetVersionLimit(100);
    (*tier)->Put(key, header, value);
    EXPECT_TRUE((*tier)->Write().ok());
    return (*tier)->ForEach([](const auto&) { return absl::OkStatus(); }).code();
  };
  EXPECT_EQ(check("key", {.version = 99}, "value"), absl::StatusCode::kOk);
  EXPECT_EQ(check("", {.version = 1}, "value"), absl::StatusCode::kDataLoss);
  EXPECT_EQ(check(std::string(kMaxKeySize + 1, 'k'), {.version = 1}, ""), absl::StatusCode::kDataLoss);
  EXPECT_EQ(check("key", {.version = 1}, std::string(kMaxValueSize + 1, 'v')), absl::StatusCode::kDataLoss);
  EXPECT_EQ(check("key", {.version = 0}, "value"), absl::StatusCode::kDataLoss);
  EXPECT_EQ(check("key", {.version = 100}, "value"), absl::StatusCode::kDataLoss) << "not below the limit";
  EXPECT_EQ(check("key", {.version = 1, .expiry_ms = 1}, "value"), absl::StatusCode::kDataLoss);
}

TEST_F(DurableTierTest, AFileThatMayNotBeReadIsDenied) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read every file; data_dir_test denies it to another user";
  Fill();
  ASSERT_EQ(chmod((path_ + "/CURRENT").c_str(), 0), 0);
  const absl::Status status = OpenStatus();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
}

}  // namespace
}  // namespace remora
