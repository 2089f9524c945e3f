// The bytes that the durable tier reads from the disk for the entries that it shows.
#include <gtest/gtest.h>
#include <rocksdb/iostats_context.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>

#include "store/durable/tier.h"
#include "test_files.h"

namespace remora {
namespace {

class ReadAheadTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kKeys = 16'000;
  static constexpr std::size_t kValueSize = 1000;
  static constexpr std::uint64_t kBlock = 16 << 10;  // upper bound for a block of a table

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Open());
    std::mt19937_64 random(1);
    tier_->SetVersionLimit(kKeys + 1);
    for (std::uint64_t i = 0; i < kKeys; ++i) {
      std::string value(kValueSize, '\0');
      for (char& byte : value) byte = static_cast<char>(random());  // so that it does not compress
      tier_->Put(Key(i), {.version = i + 1}, value);
    }
    ASSERT_TRUE(tier_->Write().ok());
    ASSERT_NO_FATAL_FAILURE(Open());  // opening moves the entries into tables
    ASSERT_GT(tier_->EstimateSize().disk_bytes, kKeys * kValueSize);
  }
  void Open() {
    tier_.reset();
    absl::StatusOr<std::unique_ptr<DurableTier>> tier = DurableTier::Open(temp_ / "store");
    ASSERT_TRUE(tier.ok()) << tier.status();
    tier_ = *std::move(tier);
  }
  static std::string Key(std::uint64_t i) { return std::to_string(10'000'000 + i); }

  /// Returns the bytes that the tier reads from the disk for `count` entries, from number `from` on.
  std::uint64_t BytesReadFor(std::uint64_t count, std::uint64_t from) {
    const std::uint64_t before = rocksdb::get_iostats_context()->bytes_read;
    std::uint64_t shown = 0;
    const absl::Status status = tier_->ForEachFrom(Key(from), [&](const DurableTier::Entry& entry) {
      EXPECT_EQ(entry.key, Key(from + shown));
      return ++shown == count ? absl::CancelledError() : absl::OkStatus();
    });
    EXPECT_EQ(shown, count) << status;
    return rocksdb::get_iostats_context()->bytes_read - before;
  }
  std::uint64_t BytesReadFor(const DurableTier::KeyRange& range, std::uint64_t* shown) {
    const std::uint64_t before = rocksdb::get_iostats_context()->bytes_read;
    const absl::Status status = tier_->ForEach(range, [&](const DurableTier::Entry&) {
      ++*shown;
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
    return rocksdb::get_iostats_context()->bytes_read - before;
  }

  TempDir temp_;
  std::unique_ptr<DurableTier> tier_;
};

// The cold expirer reads a few entries between writes.
TEST_F(ReadAheadTest, AFewEntriesAreNotMegabytes) {
  BytesReadFor(1, 0);  // opens the tables
  for (const std::uint64_t count : {1u, 10u, 100u}) {
    const std::uint64_t read = BytesReadFor(count, kKeys / 3);
    EXPECT_GE(read, count * kValueSize);
    EXPECT_LE(read, 2 * (count * kValueSize + kBlock)) << count;
  }
}

// Small ranges, as a load in steps reads them, and large ones.
TEST_F(ReadAheadTest, RangesAreReadOnce) {
  BytesReadFor(1, 0);  // opens the tables
  for (const std::size_t parts : {100u, 2u}) {
    const auto ranges = tier_->Split(parts);
    EXPECT_GT(ranges.size(), parts / 2);
    std::uint64_t shown = 0;
    std::uint64_t read = 0;
    for (const DurableTier::KeyRange& range : ranges) read += BytesReadFor(range, &shown);
    EXPECT_EQ(shown, kKeys);
    EXPECT_GE(read, kKeys * kValueSize) << parts;
    EXPECT_LE(read, 2 * kKeys * kValueSize) << parts;
  }
}

}  // namespace
}  // namespace remora
