// The memory that values take, of any size, and stores that are nearly full of values of mixed sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "patient_writes.h"
#include "store/memory_plan.h"
#include "store/region/value_log.h"
#include "store/server_store.h"
#include "tests/support/manual_clock.h"
#include "tests/support/sizes.h"

namespace remora {
namespace {

constexpr std::size_t kKeySize = 10;

std::string TenDigitKey(std::uint64_t number) {
  std::string key = "key       ";
  for (std::size_t i = key.size(); number > 0; number /= 10) key[--i] = static_cast<char>('0' + number % 10);
  return key;
}

/// A store in memory whose values say which write they are of.
class LargeMemoryTest : public testing::Test {
 protected:
  void Open(std::size_t memory_size, Eviction eviction = Eviction::kNone) {
    StoreOptions options;
    options.memory_size = memory_size;
    options.eviction = eviction;
    options.durability = Durability::kMemory;
    options.clock = &clock_;
    auto store = ServerStore::Open(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  absl::Status Put(std::uint64_t number, std::size_t size) {
    bytes_.resize(std::max(bytes_.size(), size));
    ++writes_;
    std::memcpy(bytes_.data(), &writes_, sizeof(writes_));
    const std::string key = TenDigitKey(number);
    Write write;
    write.key = key;
    write.value = std::string_view(bytes_).substr(0, size);
    const TimePoint begin = clock_.Now();
    do {
      store_->Commit(std::span(&write, 1));
      if (absl::IsAborted(write.status)) clock_.Advance(kPatience);
    } while (absl::IsAborted(write.status) && clock_.Now() - begin < kLongest);
    const absl::Status status = write.status;
    if (!status.ok()) return status;
    Known& known = known_[number];
    live_ += size - known.size;
    known = {writes_, size};
    return status;
  }
  void Delete(std::uint64_t number) {
    const std::string key = TenDigitKey(number);
    Write write;
    write.kind = Write::Kind::kDelete;
    write.key = key;
    ASSERT_TRUE(CommitPatiently(*store_, clock_, write).ok());
    live_ -= known_.at(number).size;
    known_.erase(number);
  }
  void CheckAll() {
    ASSERT_EQ(store_->Read(Metric::kKeys), known_.size());
    std::string got;
    for (const auto& [number, known] : known_) {
      ASSERT_TRUE(store_->Get(TenDigitKey(number), &got).ok()) << number;
      ASSERT_EQ(got.size(), known.size) << number;
      std::uint64_t write = 0;
      std::memcpy(&write, got.data(), sizeof(write));
      ASSERT_EQ(write, known.write) << number;
    }
  }
  /// Fills the store with values of sizes that `size_of` returns until one does not fit. Returns their bytes.
  template <typename SizeOf>
  std::uint64_t Fill(SizeOf size_of) {
    for (;;) {
      const absl::Status status = Put(next_, size_of());
      if (!status.ok()) {
        EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
        return live_;
      }
      ++next_;
    }
  }
  /// A size from 1 KiB to `most`, each power of two as likely as the others. None is between 92 and 256 KiB.
  std::size_t AnySize(double most) {
    const double power = std::uniform_real_distribution(10.0, std::log2(most))(random_);
    const auto size = static_cast<std::size_t>(std::exp2(power));
    return size > 92 * 1024 && size <= kMaxSmallValueSize ? kMaxSmallValueSize + 1 : size;
  }

  // No write waits longer than this, by the test's clock.
  static constexpr std::chrono::seconds kLongest{20};

  struct Known {
    std::uint64_t write = 0;
    std::size_t size = 0;
  };
  ManualClock clock_;
  std::unique_ptr<ServerStore> store_;
  std::string bytes_;
  std::uint64_t writes_ = 0;
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, Known> known_;
  std::uint64_t live_ = 0;  // bytes of all values
  std::mt19937_64 random_{1};
};

// The bound of docs/operating/memory-sizing.md: a tenth more than the value, from 1 KiB on, with short keys.
TEST(LargeBytesTest, AValueTakesATenthMoreAtMost) {
  for (std::size_t size = 1024; size <= kMaxValueSize; size += 1 + size / 64) {
    const auto most = static_cast<double>(size) * 1.1;
    ASSERT_LE(static_cast<double>(LogBytes(kKeySize, size)), most) << size;
    if (size > kMaxSmallValueSize) {
      ASSERT_EQ(LogBytes(kKeySize, size) % kPageSize, 0u);
    }
  }
  EXPECT_LE(LogBytes(kKeySize, kMaxSmallValueSize + 1), (kMaxSmallValueSize + 1) * 1.04);
}

// The index, the heads of the log, the cleaner's reserve and what the region begins with.
constexpr std::uint64_t kOther = 9 * kMiB;

TEST_F(LargeMemoryTest, AStoreHoldsNineTenthsOfItsMemoryInValuesOfAnySize) {
  constexpr std::uint64_t kMemory = 128 * kMiB;
  for (const std::size_t size :
       {std::size_t{1024}, std::size_t{5000}, std::size_t{92 * 1024}, 260 * 1024 + 1ul, std::size_t{300'000},
        700 * 1024 + 7ul, kMiB, kMiB + 1, 3 * kMiB / 2, 5 * kMiB}) {
    SCOPED_TRACE(size);
    ASSERT_NO_FATAL_FAILURE(Open(kMemory));
    known_.clear();
    live_ = next_ = 0;
    Fill([&] { return size; });
    // The last value that did not fit may have left less than its size unused.
    EXPECT_GE(static_cast<double>(live_ + size) * 1.1, static_cast<double>(kMemory - kOther));
    ASSERT_NO_FATAL_FAILURE(CheckAll());
  }
}

// `kvctl size` adds up what this adds up.
TEST_F(LargeMemoryTest, TheMemoryThatRecordsTakeIsPredicted) {
  for (const std::size_t size : {4096ul, 65'536ul, 262'145ul, 300'000ul, kMiB, 5 * kMiB / 2}) {
    SCOPED_TRACE(size);
    ASSERT_NO_FATAL_FAILURE(Open(160 * kMiB));
    known_.clear();
    live_ = 0;
    const std::uint64_t count = 100 * kMiB / size;
    for (std::uint64_t i = 0; i < count; ++i) ASSERT_TRUE(Put(i, size).ok()) << i;
    const double predicted = static_cast<double>(count * LogBytes(kKeySize, size) + IndexBytesNeeded(count));
    const auto taken =
        static_cast<double>(store_->Read(Metric::kMemoryBytes) - store_->Read(Metric::kMemoryBytesFree));
    EXPECT_LE(taken - 5.0 * kMiB, predicted * 1.05) << "heads, superblock and one segment of the index apart";
    EXPECT_GE(taken, predicted * 0.95);
  }
}

// 95 % of the memory is live: small values, and large ones of 1 MiB, which are replaced.
TEST_F(LargeMemoryTest, UpdatesOf1MiBGoOnInANearlyFullStore) {
  constexpr std::uint64_t kMemory = 256 * kMiB;
  ASSERT_NO_FATAL_FAILURE(Open(kMemory));
  for (; next_ < 32; ++next_) ASSERT_TRUE(Put(next_, kMiB).ok());
  while (live_ < kMemory * 95 / 100 - 5 * kMiB) ASSERT_TRUE(Put(next_++, 16 * 1024).ok());
  const auto moved = store_->Read(Metric::kBytesMoved);
  const TimePoint begin = clock_.Now();
  constexpr int kUpdates = 400;
  for (int i = 0; i < kUpdates; ++i) {
    const absl::Status status = Put(random_() % 32, kMiB);
    ASSERT_TRUE(status.ok()) << "update " << i << ": " << status;
  }
  EXPECT_LE(store_->Read(Metric::kBytesMoved) - moved, kUpdates * kMiB / 8)
      << "each finds a hole of its size";
  // The time is the test's: it advances only while a write waits for a grace period. Few MiB are free, and
  // each of them is used once in two grace periods (200 ms).
  const auto waited = std::chrono::duration<double>(clock_.Now() - begin).count();
  EXPECT_LE(waited, kUpdates * 0.2 / 2) << "only one run was made in each grace period";
  ASSERT_NO_FATAL_FAILURE(CheckAll());
}

// New large values come to a store that is full of small ones, which must leave. The store makes one run in
// each grace period, and each is longer than the one before.
TEST_F(LargeMemoryTest, RunsAreMadeAheadWhileWritersWait) {
  ASSERT_NO_FATAL_FAILURE(Open(256 * kMiB, Eviction::kLeastUsed));
  for (; next_ < 6000; ++next_) ASSERT_TRUE(Put(next_, 64 * 1024).ok());
  ASSERT_GT(store_->Read(Metric::kEvictions), 0u);
  const TimePoint begin = clock_.Now();
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(Put(next_++, 3 * kMiB).ok()) << i;
  const auto waited = std::chrono::duration<double>(clock_.Now() - begin).count();
  EXPECT_LE(waited, 40 * 0.2 / 4) << "four values for each run that was made";
}

TEST_F(LargeMemoryTest, MixedSizesAreReplacedInANearlyFullStore) {
  constexpr std::uint64_t kMemory = 256 * kMiB;
  ASSERT_NO_FATAL_FAILURE(Open(kMemory));
  while (live_ < kMemory * 85 / 100) ASSERT_TRUE(Put(next_++, AnySize(8.0 * kMiB)).ok());
  int rejected = 0;
  for (int i = 0; i < 3000; ++i) {
    // About as many bytes come as go, so 80 to 90 % stay live.
    if (live_ > kMemory * 85 / 100) {
      auto victim = known_.lower_bound(random_() % next_);
      if (victim == known_.end()) victim = known_.begin();
      ASSERT_NO_FATAL_FAILURE(Delete(victim->first));
    } else {
      rejected += !Put(next_++, AnySize(8.0 * kMiB)).ok();
    }
  }
  // A value of several MiB may find no piece that is long enough.
  EXPECT_LE(rejected, 5);
  ASSERT_NO_FATAL_FAILURE(CheckAll());
}

// As a server does that is never idle: it pays debt when that is due, and does no other maintenance. An
// update adds no key, for which an urgent debt would be paid anyway.
TEST_F(LargeMemoryTest, ASingleWriteGivesMemoryBackWhoseTimeHasCome) {
  ASSERT_NO_FATAL_FAILURE(Open(64 * kMiB));
  ASSERT_TRUE(Put(1, 8 * kMiB).ok());
  ASSERT_TRUE(Put(2, 10).ok());
  ASSERT_NO_FATAL_FAILURE(Delete(1));
  const auto free = store_->Read(Metric::kMemoryBytesFree);
  clock_.Advance(std::chrono::seconds(1));
  const std::string key = TenDigitKey(2);
  Write write;
  write.key = key;
  write.value = "small";
  store_->Submit(std::span(&write, 1), clock_.Now(), clock_.UnixMillis());
  ASSERT_TRUE(write.status.ok()) << write.status;
  store_->PayMaintenanceDebt();
  EXPECT_GE(store_->Read(Metric::kMemoryBytesFree), free + 7 * kMiB);
}

// No segment can be emptied: in each is a part of a value for which there is no hole.
TEST_F(LargeMemoryTest, HolesAreJoinedForAValueThatFitsIntoNone) {
  ASSERT_NO_FATAL_FAILURE(Open(64 * kMiB));
  constexpr std::size_t kBig = 79 * kMiB / 10;
  for (const std::size_t size : {kBig, 400 * 1024ul, 300 * 1024ul, 400 * 1024ul, kBig, 300 * 1024ul, kBig}) {
    ASSERT_TRUE(Put(next_++, size).ok());
  }
  Fill([] { return 2 * kMiB; });
  Fill([] { return 900 * 1024ul; });
  for (const std::uint64_t number : {1u, 3u, 5u}) ASSERT_NO_FATAL_FAILURE(Delete(number));
  const auto moved = store_->Read(Metric::kBytesMoved);
  const absl::Status status = Put(next_++, 1050 * 1024ul);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_LE(store_->Read(Metric::kBytesMoved) - moved, 310 * 1024ul) << "the value between them moves";
  ASSERT_NO_FATAL_FAILURE(CheckAll());
}

// Only the cleaner makes segments of the holes.
TEST_F(LargeMemoryTest, HolesBetweenLargeValuesBecomeSpaceForSmallOnes) {
  for (const std::size_t size : {std::size_t{1000}, std::size_t{60'000}}) {
    SCOPED_TRACE(size);
    ASSERT_NO_FATAL_FAILURE(Open(128 * kMiB));
    known_.clear();
    live_ = next_ = 0;
    Fill([] { return 300 * 1024; });
    const std::uint64_t before = live_;
    for (std::uint64_t i = 0; i < next_; ++i) {
      if (i % 4 != 0) {
        ASSERT_NO_FATAL_FAILURE(Delete(i));
      }
    }
    Fill([&] { return size; });
    EXPECT_GE(static_cast<double>(live_ + size) * 1.12, static_cast<double>(before));
    EXPECT_GT(store_->Read(Metric::kBytesMoved), 0u);
    ASSERT_NO_FATAL_FAILURE(CheckAll());
  }
}

/// Puts and deletes values of all sizes, at about nine tenths of the memory, and says what they took.
class LargeSoakTest : public LargeMemoryTest {
 protected:
  void Soak(int operations) {
    constexpr std::uint64_t kMemory = 512 * kMiB;
    ASSERT_NO_FATAL_FAILURE(Open(kMemory));
    int rejected = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < operations; ++i) {
      if (live_ > kMemory * 88 / 100) {
        auto victim = known_.lower_bound(random_() % next_);
        if (victim == known_.end()) victim = known_.begin();
        ASSERT_NO_FATAL_FAILURE(Delete(victim->first));
      } else if (known_.empty() || random_() % 4 != 0) {
        rejected += !Put(next_++, AnySize(16.0 * kMiB)).ok();
      } else {
        const auto old = known_.lower_bound(random_() % next_);
        rejected += !Put(old == known_.end() ? known_.begin()->first : old->first, AnySize(16.0 * kMiB)).ok();
      }
    }
    const auto took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::cout << operations << " puts and deletes in " << took << " s; " << live_ / kMiB
              << " MiB of values in "
              << (store_->Read(Metric::kMemoryBytes) - store_->Read(Metric::kMemoryBytesFree)) / kMiB
              << " of " << kMemory / kMiB << " MiB; moved " << store_->Read(Metric::kBytesMoved) / kMiB
              << " of " << store_->Read(Metric::kBytesWritten) / kMiB << " MiB written; " << rejected
              << " rejected\n";
    EXPECT_LE(rejected, operations / 40);
    ASSERT_NO_FATAL_FAILURE(CheckAll());
  }
};

TEST_F(LargeSoakTest, ASmallOne) { Soak(3000); }
TEST_F(LargeSoakTest, AMillionPutsAndDeletes) { Soak(1'000'000); }

}  // namespace
}  // namespace remora
