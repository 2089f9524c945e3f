// What a machine or a disk that failed may leave of the log, byte for byte. Whole machines: tests/crash.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <set>
#include <string>

#include "store/durable_tier.h"
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
  /// One bit of the log is another.
  void Damage(std::size_t at) {
    const std::vector<std::string> logs = FilesIn(path_, ".log");
    ASSERT_EQ(logs.size(), 1u);
    std::string bytes = ReadFile(logs[0]);
    ASSERT_GT(bytes.size(), at);
    bytes[at] ^= 1;
    WriteFile(logs[0], bytes);
  }
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

// It must not end early there: what comes behind was acknowledged.
TEST_F(DurableRecoveryTest, ALogDamagedWhereItWasSyncedIsDataLoss) {
  {
    const auto tier = Open();
    ASSERT_NE(tier, nullptr);
    for (const char* key : {"a", "b", "c"}) {
      Write(*tier, key);
      ASSERT_TRUE(tier->Sync().ok());
    }
    Write(*tier, "last", 1);  // says that the log was synced up to here
  }
  Damage(150'000);
  EXPECT_EQ(DurableTier::Open(path_).status().code(), absl::StatusCode::kDataLoss);
  Damage(150'000);  // and back
  EXPECT_EQ(Keys(*Open()), (std::set<std::string>{"a", "b", "c", "last"})) << "the attempt changed something";
}

// What a machine may leave that fails.
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

}  // namespace
}  // namespace remora
