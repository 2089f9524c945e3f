// Reads of the durable tier that need no disk: F5 of store/durable/files.h.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "store/durable/tier.h"
#include "test_files.h"

namespace remora {
namespace {

class CachedReadsTest : public testing::Test {
 protected:
  static constexpr int kKeys = 200;
  static constexpr std::size_t kValueSize = 20'000;
  static constexpr std::size_t kLargeValueSize = 100'000;

  /// Makes a tier with values that do not compress, all of them in tables.
  void SetUp() override {
    {
      const std::unique_ptr<DurableTier> tier = Open();
      tier->SetVersionLimit(kKeys + 2);
      for (int i = 0; i < kKeys; ++i) {
        tier->Put(KeyOf(i), {.version = static_cast<std::uint64_t>(i) + 1}, ValueOf(i, kValueSize));
      }
      tier->Put("large", {.version = kKeys + 1}, ValueOf(kKeys, kLargeValueSize));
      ASSERT_TRUE(tier->Write().ok());
    }
    Open();  // moves the log to a table
    tier_ = Open();
    ASSERT_FALSE(FilesIn(path_, ".sst").empty());
  }

  std::unique_ptr<DurableTier> Open() const {
    // Without a cache of RocksDB's own, each Get reads the file.
    absl::StatusOr<std::unique_ptr<DurableTier>> tier = DurableTier::Open(path_, {.block_cache_bytes = 0});
    EXPECT_TRUE(tier.ok()) << tier.status();
    return *std::move(tier);
  }
  static std::string KeyOf(int i) { return "key " + std::to_string(1000 + i); }
  static std::string ValueOf(int i, std::size_t size) {
    std::mt19937_64 random(static_cast<std::uint64_t>(i));
    std::string value(size, '\0');
    std::generate(value.begin(), value.end(), [&] { return static_cast<char>(random()); });
    return value;
  }
  /// Returns the value; "disk" if it needs that, or else the name of the status.
  std::string GetCached(const std::string& key) const {
    std::string value;
    const std::optional<absl::Status> got = tier_->GetCached(key, [&](const DurableTier::Entry& entry) {
      value = entry.value;
      return absl::OkStatus();
    });
    if (!got) return "disk";
    return got->ok() ? value : absl::StatusCodeToString(got->code());
  }
  std::string Get(const std::string& key) const {
    std::string value;
    const absl::Status got = tier_->Get(key, [&](const DurableTier::Entry& entry) {
      value = entry.value;
      return absl::OkStatus();
    });
    return got.ok() ? value : absl::StatusCodeToString(got.code());
  }
  /// Has the system drop the tables from its page cache. Returns false if it has dropped nothing, as a file
  /// system in memory cannot.
  bool DropCache() const {
    bool all = true;
    for (const std::string& table : FilesIn(path_, ".sst")) {
      const int fd = ::open(table.c_str(), O_RDONLY);
      EXPECT_GE(fd, 0);
      EXPECT_EQ(::fdatasync(fd), 0);
      EXPECT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
      std::array<char, 1> byte{};
      const iovec into = {byte.data(), byte.size()};
      all = all && ::preadv2(fd, &into, 1, 0, RWF_NOWAIT) < 0;
      ::close(fd);
    }
    return all;
  }

  TempDir temp_;
  const std::string path_ = temp_ / "store";
  std::unique_ptr<DurableTier> tier_;
};

TEST_F(CachedReadsTest, ShowWhatTheSystemHasInItsCache) {
  const std::string expected = ValueOf(100, kValueSize);
  EXPECT_EQ(Get(KeyOf(100)), expected);
  if (GetCached(KeyOf(100)) == "disk") GTEST_SKIP() << "this file system has no reads without a wait";
  EXPECT_TRUE(GetCached(KeyOf(100)) == expected);
  EXPECT_EQ(GetCached("none"), "NOT_FOUND");
}

TEST_F(CachedReadsTest, NeverWaitForTheDisk) {
  if (!DropCache()) GTEST_SKIP() << "this file system keeps its files in memory";
  EXPECT_EQ(GetCached(KeyOf(100)), "disk");
  EXPECT_TRUE(Get(KeyOf(100)) == ValueOf(100, kValueSize));
}

TEST_F(CachedReadsTest, LeaveLargeValuesToOthers) {
  EXPECT_TRUE(Get("large") == ValueOf(kKeys, kLargeValueSize));
  EXPECT_EQ(GetCached("large"), "disk");
  EXPECT_TRUE(Get("large") == ValueOf(kKeys, kLargeValueSize))
      << "all reads of the thread are such reads now";
}

TEST_F(CachedReadsTest, MeetDamageAsOthersDo) {
  const std::string value = ValueOf(100, kValueSize);
  tier_.reset();
  for (const std::string& table : FilesIn(path_, ".sst")) {
    std::string bytes = ReadFile(table);
    const std::size_t at = bytes.find(value);
    if (at == std::string::npos) continue;
    bytes[at + 10] ^= 1;
    WriteFile(table, bytes);
  }
  tier_ = Open();
  EXPECT_EQ(Get(KeyOf(100)), "DATA_LOSS");
  const std::string cached = GetCached(KeyOf(100));
  EXPECT_TRUE(cached == "DATA_LOSS" || cached == "disk") << cached;
}

}  // namespace
}  // namespace remora
