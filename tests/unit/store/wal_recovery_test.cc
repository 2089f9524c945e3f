// Logs of RocksDB as a failed machine or disk leaves them, byte for byte. tests/crash tests whole machines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "store/durable/tier.h"
#include "store/durable/wal/wal_scan.h"
#include "test_files.h"

namespace remora {
namespace {

class DurableRecoveryTest : public testing::Test {
 protected:
  std::unique_ptr<DurableTier> Open() {
    absl::StatusOr<std::unique_ptr<DurableTier>> tier = DurableTier::Open(path_);
    EXPECT_TRUE(tier.ok()) << tier.status();
    return tier.ok() ? *std::move(tier) : nullptr;
  }
  static void Write(DurableTier& tier, const std::string& key, std::size_t size = 100'000) {
    tier.SetVersionLimit(1000);
    tier.Put(key, {.version = 1}, std::string(size, 'v'));
    ASSERT_TRUE(tier.Write().ok());
  }
  /// Flips one bit of the log.
  void Damage(std::size_t at) {
    const std::vector<std::string> logs = FilesIn(path_, ".log");
    ASSERT_EQ(logs.size(), 1u);
    std::string bytes = ReadFile(logs[0]);
    ASSERT_GT(bytes.size(), at);
    bytes[at] ^= 1;
    WriteFile(logs[0], bytes);
  }
  /// Pretends that the machine was started since. Nothing else distinguishes a failed disk from a power cut.
  void StartMachineAgain() { WriteFile(path_ + "/REMORA-BOOT", "another\n"); }
  absl::Status OpenStatus() { return DurableTier::Open(path_).status(); }
  static std::set<std::string> Keys(const DurableTier& tier) {
    std::set<std::string> keys;
    const absl::Status status = tier.ForEach([&](const DurableTier::Entry& entry) {
      keys.emplace(entry.key);
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
    return keys;
  }

  TempDir temp_;
  const std::string path_ = temp_ / "store";
};

// The log must not end at the damage, because the writes behind it were acknowledged.
TEST_F(DurableRecoveryTest, ALogDamagedWhereItWasSyncedIsDataLoss) {
  {
    const auto tier = Open();
    ASSERT_NE(tier, nullptr);
    for (const char* key : {"a", "b", "c"}) {
      Write(*tier, key);
      ASSERT_TRUE(tier->Sync().ok());
    }
    Write(*tier, "last", 1);  // records that the log was synced up to here
  }
  StartMachineAgain();
  Damage(150'000);
  EXPECT_EQ(OpenStatus().code(), absl::StatusCode::kDataLoss);
  Damage(150'000);  // flips the bit back
  EXPECT_EQ(Keys(*Open()), (std::set<std::string>{"a", "b", "c", "last"})) << "the attempt changed something";
}

// A failed machine may leave holes behind the synced part of a log.
TEST_F(DurableRecoveryTest, HolesBehindWhatWasSyncedAreTheLogsEnd) {
  {
    const auto tier = Open();
    ASSERT_NE(tier, nullptr);
    Write(*tier, "synced", 1);
    ASSERT_TRUE(tier->Sync().ok());
    for (const char* key : {"a", "b", "c"}) Write(*tier, key);
    EXPECT_FALSE(tier->log_was_torn());
  }
  Damage(150'000);
  StartMachineAgain();
  {
    absl::StatusOr<std::unique_ptr<DurableTier>> reader = DurableTier::Open(path_, {.read_only = true});
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_TRUE((*reader)->log_was_torn());
    EXPECT_EQ(Keys(**reader), (std::set<std::string>{"a", "synced"}));
  }
  {
    const auto tier = Open();
    ASSERT_NE(tier, nullptr);
    EXPECT_TRUE(tier->log_was_torn());
    EXPECT_EQ(Keys(*tier), (std::set<std::string>{"a", "synced"}));
    Write(*tier, "d");
  }
  const auto tier = Open();
  ASSERT_NE(tier, nullptr);
  EXPECT_FALSE(tier->log_was_torn()) << "it is said once";
  EXPECT_EQ(Keys(*tier), (std::set<std::string>{"a", "d", "synced"}));
}

// No mark tells of a sync, because there was none. But all that an ended process wrote is with the system.
TEST_F(DurableRecoveryTest, ALogDamagedWhileTheMachineRanIsDataLoss) {
  {
    const auto tier = Open();
    ASSERT_NE(tier, nullptr);
    for (const char* key : {"a", "b", "c"}) Write(*tier, key, 1000);
  }
  const std::size_t size = ReadFile(FilesIn(path_, ".log").at(0)).size();
  const std::set<std::string> all = {"a", "b", "c"};
  // Damages a value; then the size of the last record (4 bytes behind its beginning), so that the record
  // seems to end behind the log; then its type.
  const std::size_t last = size - 1000 - 16 - std::string("c").size();
  for (const std::size_t at : {size / 2, size - 1, last}) {
    Damage(at);
    const absl::Status status = OpenStatus();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << at;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("REMORA-BOOT")) << "what to do";
    EXPECT_EQ(DurableTier::Open(path_, {.read_only = true}).status().code(), absl::StatusCode::kDataLoss);
    Damage(at);  // flips the bit back
  }
  EXPECT_EQ(Keys(*Open()), all) << "an attempt changed something";
}

// Damage is found at every byte, even in a size that lets a record end behind the log.
TEST_F(DurableRecoveryTest, NoBitOfALogIsTakenForItsEnd) {
  {
    const auto tier = Open();
    ASSERT_NE(tier, nullptr);
    for (const char* key : {"a", "b", "c"}) Write(*tier, key, 100);
  }
  const std::string log = FilesIn(path_, ".log").at(0);
  std::string bytes = ReadFile(log);
  ASSERT_FALSE(CheckLog(log)->damaged_at);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += 11) {
    const auto flipped = static_cast<char>(1 << (bit % 8));
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ flipped);
    WriteFile(log, bytes);
    EXPECT_TRUE(CheckLog(log)->damaged_at) << "bit " << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ flipped);
  }
}

// A killed process leaves the first part of a log.
TEST_F(DurableRecoveryTest, ALogThatEndsAnywhereIsReplayedToThere) {
  {
    const auto tier = Open();
    ASSERT_NE(tier, nullptr);
    for (const char* key : {"a", "b"}) Write(*tier, key);
  }
  const std::string log = FilesIn(path_, ".log").at(0);
  const std::string whole = ReadFile(log);
  const std::string before = path_ + "-before";
  std::filesystem::copy(path_, before);
  for (std::size_t end : {whole.size() - 1, whole.size() / 2 + 10'000, std::size_t{4 * 32768},
                          std::size_t{4 * 32768 + 3}, std::size_t{4 * 32768 + 7}, std::size_t{5}}) {
    std::filesystem::remove_all(path_);
    std::filesystem::copy(before, path_);
    WriteFile(log, whole.substr(0, end));
    const auto tier = Open();
    ASSERT_NE(tier, nullptr) << end;
    EXPECT_FALSE(tier->log_was_torn()) << end;
    EXPECT_EQ(Keys(*tier), end > 100'200 ? std::set<std::string>{"a"} : std::set<std::string>{}) << end;
  }
}

// A data directory of an earlier version has no file that
// tells with which start of the machine it was written.
TEST_F(DurableRecoveryTest, WithoutABootAPowerCutIsNotRuledOut) {
  {
    const auto tier = Open();
    ASSERT_NE(tier, nullptr);
    for (const char* key : {"a", "b"}) Write(*tier, key);
  }
  Damage(150'000);
  EXPECT_EQ(OpenStatus().code(), absl::StatusCode::kDataLoss);
  std::filesystem::remove(path_ + "/REMORA-BOOT");
  const auto tier = Open();
  ASSERT_NE(tier, nullptr);
  EXPECT_TRUE(tier->log_was_torn());
  EXPECT_EQ(Keys(*tier), std::set<std::string>{"a"});
  EXPECT_TRUE(std::filesystem::exists(path_ + "/REMORA-BOOT"));
}

}  // namespace
}  // namespace remora
