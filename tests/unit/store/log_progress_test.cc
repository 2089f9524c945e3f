// The progress that a tier with a commit log tells (store/durable/tier_log/log_progress.h).
#include "store/durable/tier_log/log_progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/durable/tier.h"
#include "store/durable/tier_log/tier_log.h"
#include "test_files.h"

namespace remora {
namespace {

class LogProgressTest : public testing::Test {
 protected:
  void Watch() {
    tier_->WatchLog([this](const LogProgress& progress) { told_.push_back(progress); });
  }
  void Put(const std::string& key, const std::string& value) {
    tier_->Put(key, {.version = ++version_}, value);
    ASSERT_TRUE(tier_->Write().ok());
  }

  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  TempDir temp_;
  std::vector<LogProgress> told_;
  const std::unique_ptr<DurableTier> tier_ =
      *DurableTier::Open(temp_ / "store", {.commit_log_bytes = kMinTierLogBytes, .applies_in_steps = true});
  std::uint64_t version_ = 0;
};

TEST_F(LogProgressTest, TellsWhatRocksDBDoesNotHave) {
  tier_->SetVersionLimit(1000);
  Put("key", std::string(1000, 'v'));
  Watch();
  ASSERT_EQ(told_.size(), 1u) << "at once";
  EXPECT_GT(told_[0].unapplied_bytes, 1000u);
  EXPECT_EQ(told_[0].unpersisted_bytes, told_[0].unapplied_bytes);
  EXPECT_GT(told_[0].lag.count(), 0);
  EXPECT_LE(told_[0].lag, std::chrono::steady_clock::now() - begin_);
  EXPECT_FALSE(told_[0].write_time);

  ASSERT_TRUE(tier_->Holds(version_));
  ASSERT_GT(told_.size(), 1u);
  EXPECT_EQ(told_.back().unapplied_bytes, 0u);
  EXPECT_GT(told_.back().unpersisted_bytes, 1000u) << "no table has it";
  EXPECT_EQ(told_.back().lag.count(), 0);
  ASSERT_TRUE(told_.back().write_time);
  EXPECT_GT(told_.back().write_time->count(), 0);
  EXPECT_EQ(told_.back().slowed, 0u);
}

// Groups of 64 KiB, of which four are persisted: a quarter of the log.
TEST_F(LogProgressTest, PersistedGroupsAreNoBacklog) {
  tier_->SetVersionLimit(1000);
  Watch();
  std::uint64_t most = 0;
  for (int i = 0; i < 50; ++i) {
    Put("key", std::string(std::size_t{32} << 10, 'v'));
    most = std::max(most, told_.back().unpersisted_bytes);
  }
  EXPECT_GT(most, std::uint64_t{32} << 10);
  EXPECT_LT(most, kMinTierLogBytes / 2) << "of 1.6 MiB in all";
}

}  // namespace
}  // namespace remora
