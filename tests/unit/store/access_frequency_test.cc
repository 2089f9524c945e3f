#include "store/reclaim/access_frequency.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include "store/format/memory/record.h"

namespace remora {
namespace {

// The number of keys that AccessFrequency expects in 16 MiB of memory: a record for each 256 bytes.
constexpr int kCountedKeys = (16 << 20) / 256;

std::uint64_t HashOf(int i) { return HashKey("key " + std::to_string(i)); }

TEST(FrequencyTest, CountsUsesOfEachKey) {
  AccessFrequency frequency(std::size_t{16} << 20);
  frequency.set_keys(kCountedKeys);
  for (std::uint32_t uses = 1; uses <= AccessFrequency::kMaxCount; ++uses) {
    frequency.Note(HashOf(1));
    EXPECT_EQ(frequency.Of(HashOf(1)), uses);
  }
  frequency.Note(HashOf(1));
  EXPECT_EQ(frequency.Of(HashOf(1)), AccessFrequency::kMaxCount);
  EXPECT_EQ(frequency.Of(HashOf(2)), 0u);
}

TEST(FrequencyTest, NeverSaysLessThanLatelyWas) {
  AccessFrequency frequency(std::size_t{16} << 20);
  frequency.set_keys(kCountedKeys);
  for (int i = 0; i < 300; ++i) frequency.Note(HashOf(i));
  for (int i = 0; i < 300; ++i) ASSERT_GE(frequency.Of(HashOf(i)), 1u) << i;
}

TEST(FrequencyTest, RarelyTakesAKeyForAnother) {
  AccessFrequency frequency(std::size_t{16} << 20);
  frequency.set_keys(kCountedKeys);
  const int keys = kCountedKeys;
  for (int i = 0; i < keys; ++i) frequency.Note(HashOf(i));
  int wrong = 0;
  for (int i = keys; i < 2 * keys; ++i) wrong += frequency.Of(HashOf(i)) >= 1 ? 1 : 0;
  EXPECT_LT(wrong, keys / 4);
  wrong = 0;
  for (int i = keys; i < 2 * keys; ++i) wrong += frequency.Of(HashOf(i)) >= 2 ? 1 : 0;
  EXPECT_LT(wrong, keys / 50);
}

TEST(FrequencyTest, ForgetsWhatIsNotUsedAnyMore) {
  AccessFrequency frequency(std::size_t{16} << 20);
  frequency.set_keys(1000);
  for (int i = 0; i < 15; ++i) frequency.Note(HashOf(1));
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) frequency.Note(HashOf(static_cast<int>(random() % 1000) + 10));
  EXPECT_LE(frequency.Of(HashOf(1)), 12u) << "what is left is others' doing";
}

TEST(FrequencyTest, WithoutMemoryItCountsNothing) {
  AccessFrequency frequency(0);
  frequency.Note(HashOf(1));
  EXPECT_EQ(frequency.Of(HashOf(1)), 0u);
}

}  // namespace
}  // namespace remora
