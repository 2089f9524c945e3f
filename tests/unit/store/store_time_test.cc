// The behaviour of a store over time, with a clock that the test moves.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "store/server_store.h"
#include "tests/support/manual_clock.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

class StoreTimeTest : public testing::Test {
 protected:
  static constexpr milliseconds kGrace{100};
  ManualClock clock_;
  std::unique_ptr<ServerStore> store_ = [this] {
    StoreOptions options;
    options.memory_size = kMinMemorySize;
    options.eviction = Eviction::kNone;
    options.grace = kGrace;
    options.clock = &clock_;
    return *ServerStore::Open(options);
  }();
  const std::string value_ = std::string(100'000, 'v');

  absl::Status TryPut(std::string_view key, std::string_view value) {
    Write write;
    write.key = key;
    write.value = value;
    store_->Commit(std::span(&write, 1));
    return write.status;
  }
  /// Overwrites a few keys until a write must wait for a
  /// grace period. Returns the number of puts that succeeded.
  int PutUntilAborted() {
    absl::Status status;
    int puts = 0;
    for (; status.ok() && puts < 1000; ++puts) status = TryPut("key" + std::to_string(puts % 10), value_);
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
    return puts - 1;
  }
};

// I6: memory is reused only after twice the grace period.
TEST_F(StoreTimeTest, MemoryIsNotUsedAgainBeforeItHasRested) {
  // The puts take all memory, except for the reserve of the cleaner, the index, and the ends of segments.
  const int puts = PutUntilAborted();
  EXPECT_GT(puts, 90);
  EXPECT_LT(puts, 160);
  EXPECT_EQ(TryPut("key", value_).code(), absl::StatusCode::kAborted);
  clock_.Advance(2 * kGrace - milliseconds(1));
  EXPECT_EQ(TryPut("key", value_).code(), absl::StatusCode::kAborted);
  ASSERT_TRUE(store_->next_maintenance().has_value());
  EXPECT_EQ(*store_->next_maintenance(), clock_.Now() + milliseconds(1));
  clock_.Advance(milliseconds(1));
  EXPECT_TRUE(TryPut("key", value_).ok());
  EXPECT_GT(PutUntilAborted(), 10);
}

// A record that a reader was led to stays unchanged for twice the grace period.
TEST_F(StoreTimeTest, AnOverwrittenRecordStaysReadable) {
  ASSERT_TRUE(TryPut("old", value_).ok());
  const Slot slot = DecodeSlot(store_->Locate("old")->slot);
  const auto* header = reinterpret_cast<const RecordHeader*>(
      reinterpret_cast<const std::byte*>(&store_->superblock()) + slot.offset_bytes());
  ASSERT_TRUE(TryPut("old", "new").ok());
  const std::uint64_t checksum = header->checksum;
  PutUntilAborted();
  clock_.Advance(2 * kGrace - milliseconds(1));
  PutUntilAborted();
  EXPECT_EQ(header->checksum, checksum);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(header + 1) + 3, value_.size()), value_);
}

/// A clock that a GET reads in its middle. At that moment it first runs `meanwhile`.
class BusyClock final : public ManualClock {
 public:
  std::int64_t UnixMillis() const override {
    if (meanwhile) std::exchange(meanwhile, {})();
    return ManualClock::UnixMillis();
  }
  mutable std::function<void()> meanwhile;
};

// A GET is delayed for so long that the memory of its record has been reused.
TEST(SlowReaderTest, IsNotGivenWhatCameThereMeanwhile) {
  BusyClock clock;
  StoreOptions options;
  options.memory_size = kMinMemorySize;
  options.eviction = Eviction::kNone;
  options.clock = &clock;
  const auto store = *ServerStore::Open(options);
  const auto put = [&](std::string_view key, std::string_view value, PutOptions how = {}) {
    return store->Put(key, value, how);
  };
  const std::string large(100'000, 'l');
  const std::string old(300, 'o');
  ASSERT_TRUE(put("key", old, {.ttl = std::chrono::hours(1)}).ok());
  std::string value;
  bool was_busy = false;
  clock.meanwhile = [&] {
    was_busy = true;
    const std::uint64_t before = store->superblock().reuse_epoch;
    ASSERT_TRUE(put("key", "new").ok());
    for (int i = 0; i < 1000; ++i) {
      Write write;
      const std::string name = "other" + std::to_string(i % 10);
      write.key = name;
      write.value = large;
      store->Commit(std::span(&write, 1));
      if (!write.status.ok()) clock.Advance(options.grace);
    }
    EXPECT_NE(store->superblock().reuse_epoch, before);
  };
  ASSERT_TRUE(store->Get("key", &value).ok());
  EXPECT_TRUE(was_busy) << "the test means to come in between";
  EXPECT_EQ(value, "new");
}

// The small records stay while large ones among them are
// overwritten, so the cleaner must move the small ones.
TEST_F(StoreTimeTest, TheCleanerMovesLiveRecords) {
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(TryPut("stays" + std::to_string(i), "value" + std::to_string(i)).ok());
    if (i % 50 == 0) {
      ASSERT_TRUE(TryPut("churns", value_).ok());
    }
  }
  for (int i = 0; i < 1000; ++i) {
    if (!TryPut("churns" + std::to_string(i % 30), value_).ok()) clock_.Advance(kGrace);
  }
  std::string value;
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(store_->Get("stays" + std::to_string(i), &value).ok());
    ASSERT_EQ(value, "value" + std::to_string(i));
  }
  EXPECT_GT(store_->Read(Metric::kBytesMoved), 0u);
}

// Bytes that the cleaner moves for each byte that users write. With 85 % of the log live and uniform
// overwrites, this is the worst case.
TEST(WriteAmplificationTest, IsBoundedWhereLittleIsDead) {
  ManualClock clock;
  StoreOptions options;
  options.memory_size = std::size_t{256} << 20;
  options.eviction = Eviction::kNone;
  options.clock = &clock;
  const auto store = *ServerStore::Open(options);
  const std::string value(1000, 'v');
  const std::uint64_t extent = ExtentUnits(RecordExtentCode(10, value.size())) * kUnitSize;
  const auto put = [&](std::uint64_t key) {
    std::string text = std::to_string(key);
    text.insert(0, 10 - text.size(), '0');
    for (;;) {
      Write write;
      write.key = text;
      write.value = value;
      store->Commit(std::span(&write, 1));
      if (write.status.code() != absl::StatusCode::kAborted) return write.status;
      clock.Advance(milliseconds(10));
    }
  };
  std::uint64_t keys = 0;
  const auto log_bytes = [&] { return options.memory_size - store->Read(Metric::kIndexBytes); };
  while (keys * extent < log_bytes() / 100 * 85) ASSERT_TRUE(put(keys++).ok());
  std::mt19937_64 random(1);
  std::uint64_t moved = 0;
  std::uint64_t written = 0;
  // Some rounds until the state is steady, and one that counts.
  for (int round = 0; round < 4; ++round) {
    moved = store->Read(Metric::kBytesMoved);
    written = store->Read(Metric::kBytesWritten);
    for (std::uint64_t i = 0; i < keys; ++i) {
      const absl::Status status = put(random() % keys);
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  const double amplification = static_cast<double>(store->Read(Metric::kBytesMoved) - moved) /
                               static_cast<double>(store->Read(Metric::kBytesWritten) - written);
  RecordProperty("moved_per_written", std::to_string(amplification));
  EXPECT_LT(amplification, 3.0);
}

}  // namespace
}  // namespace remora
