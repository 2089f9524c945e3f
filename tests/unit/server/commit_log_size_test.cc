// server/main/commit_log_size.h
#include "server/main/commit_log_size.h"

#include <gtest/gtest.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "store/durable/tier_log/tier_log_options.h"

namespace remora {
namespace {

constexpr std::uint64_t kGibibyte = std::uint64_t{1} << 30;

TEST(CommitLogSizeTest, ASizeOrOffIsRead) {
  EXPECT_EQ(ReadCommitLogSize("off"), 0);
  EXPECT_EQ(ReadCommitLogSize("1M"), kMinTierLogBytes);
  EXPECT_EQ(ReadCommitLogSize("1GiB"), kGibibyte);
  EXPECT_EQ(ReadCommitLogSize("1T"), kGibibyte << 10);
  for (const char* const text :
       {"", "0", "1023K", "1048575", "1025G", "2T", "-1G", "on", "OFF", "off ", "1.5G"}) {
    EXPECT_EQ(ReadCommitLogSize(text), std::nullopt) << text;
    EXPECT_NE(FaultOfCommitLogSize(text), "") << text;
  }
  EXPECT_EQ(FaultOfCommitLogSize("off"), "");
  EXPECT_TRUE(FaultOfCommitLogSize("1K").starts_with("'1K' is neither off nor a size from 1M to 1T: "));
}

TEST(CommitLogSizeTest, ASizeIsWrittenAsItIsRead) {
  for (const std::uint64_t size : {std::uint64_t{0}, kMinTierLogBytes, kGibibyte, kGibibyte + 1}) {
    EXPECT_EQ(ReadCommitLogSize(CommitLogSizeText(size)), size);
  }
  EXPECT_EQ(CommitLogSizeText(kGibibyte), "1G");
}

TEST(CommitLogSizeTest, ASmallDiskGivesAnEighth) {
  for (const char* const folder : {"/", "/dev/shm", "/run"}) {
    struct statvfs volume = {};
    if (::statvfs(folder, &volume) != 0 || volume.f_blocks == 0) continue;
    const std::uint64_t eighth = std::uint64_t{volume.f_blocks} * volume.f_frsize / 8;
    const std::uint64_t size = DefaultCommitLogSize(std::string(folder) + "/none/such", {});
    EXPECT_LE(size, std::max(eighth, kMinTierLogBytes)) << folder;
    EXPECT_GE(size + kMinTierLogBytes, std::clamp(eighth, kMinTierLogBytes, kGibibyte)) << folder;
    EXPECT_LE(size, kGibibyte) << folder;
    EXPECT_EQ(DefaultCommitLogSize(folder, {}), size) << folder;
  }
}

TEST(CommitLogSizeTest, ADiskOfNoKnownSizeGivesTheUsual) {
  EXPECT_EQ(DefaultCommitLogSize("/proc", {}), kGibibyte);
}

TEST(CommitLogSizeTest, LittleMemoryGivesAQuarter) {
  EXPECT_EQ(DefaultCommitLogSize("/proc", {.most = 4 * kGibibyte}), kGibibyte);
  EXPECT_EQ(DefaultCommitLogSize("/proc", {.most = std::uint64_t{96} << 20}), std::uint64_t{24} << 20);
  EXPECT_EQ(DefaultCommitLogSize("/proc", {.most = 1}), kMinTierLogBytes);
}

}  // namespace
}  // namespace remora
