// Ordered sets of keys against a std::set, and the memory that a key takes. Some trees have leaves of two or
// three keys, so that each change of the tree's shape happens often.
#include "store/ordered/ordered_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace remora {
namespace {

enum class Kind : std::uint8_t { kNumbers = 1, kWords = 2, kBytes = 3, kLarge = 4 };

struct OrderedMix {
  const char* name;
  OrderedKeys::Shape shape;
  Kind kind;
  std::uint64_t keys;  // number of possible keys
};

std::vector<std::string> KeysOf(const KeyBatch& batch) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < batch.size(); ++i) keys.emplace_back(batch[i]);
  return keys;
}

class OrderedKeysModelTest : public testing::TestWithParam<OrderedMix> {
 protected:
  const OrderedMix mix_ = GetParam();
  OrderedKeys keys_{mix_.shape};
  std::set<std::string> model_;
  std::mt19937_64 random_{mix_.keys};

  std::string AnyKey() {
    const std::uint64_t number = random_() % mix_.keys;
    std::mt19937_64 of_key(number);
    switch (mix_.kind) {
      case Kind::kNumbers:
        return "key" + std::to_string(number);
      case Kind::kWords:  // of few letters: many keys are prefixes of others
        return std::string(1 + of_key() % 6, 'a') +
               std::string(of_key() % 4, static_cast<char>(of_key() % 3));
      case Kind::kBytes: {
        std::string key(1 + of_key() % 12, '\0');
        for (char& byte : key) byte = static_cast<char>(of_key() % 4 == 0 ? 0xff : of_key());
        return key;
      }
      case Kind::kLarge:
        return std::string(of_key() % 400, 'x') + std::to_string(number) +
               std::string(of_key() % 5 == 0 ? 3000 : 0, 'y');
    }
    return {};
  }
  void Change(unsigned insert_percent) {
    const std::string key = AnyKey();
    if (random_() % 100 < insert_percent) {
      ASSERT_EQ(keys_.Insert(key), model_.insert(key).second) << key;
    } else {
      ASSERT_EQ(keys_.Erase(key), model_.erase(key) == 1) << key;
    }
    ASSERT_EQ(keys_.size(), model_.size());
  }
  void Look() {
    std::string begin = AnyKey();
    std::string end = random_() % 4 == 0 ? "" : AnyKey();
    if (random_() % 4 == 0) begin.clear();
    const std::size_t most = 1 + random_() % 40;
    const bool is_empty = !end.empty() && begin >= end;
    const auto from = model_.lower_bound(begin);
    const auto to = is_empty ? from : end.empty() ? model_.end() : model_.lower_bound(end);
    std::vector<std::string> all(from, to);
    EXPECT_EQ(keys_.Count(begin, end), all.size());
    std::vector<std::string> first(all.begin(),
                                   all.begin() + static_cast<std::ptrdiff_t>(std::min(most, all.size())));
    std::reverse(all.begin(), all.end());
    all.resize(std::min(most, all.size()));
    KeyBatch batch;
    keys_.First(begin, end, most, &batch);
    EXPECT_EQ(KeysOf(batch), first);
    keys_.Last(begin, end, most, &batch);
    EXPECT_EQ(KeysOf(batch), all);
    EXPECT_EQ(keys_.Has(begin), model_.contains(begin));
  }
};

TEST_P(OrderedKeysModelTest, AgreesWithASet) {
  // Grows, stays, shrinks to nothing, and again.
  for (const unsigned insert_percent : {90u, 50u, 20u, 60u, 5u, 80u, 0u}) {
    const std::uint64_t changes = std::min<std::uint64_t>(4 * mix_.keys, 12'000);
    for (std::uint64_t i = 0; i < changes; ++i) {
      ASSERT_NO_FATAL_FAILURE(Change(insert_percent));
      if (i % 16 == 0) Look();
      if (i % (mix_.shape.leaf_capacity < 1000 ? 64 : 1024) == 0) {
        ASSERT_EQ(keys_.FindFault(), "");
      }
      if (testing::Test::HasFailure()) return;
    }
    ASSERT_EQ(keys_.FindFault(), "");
  }
  for (const std::string& key : std::set(model_)) {
    ASSERT_TRUE(keys_.Erase(key));
    model_.erase(key);
  }
  EXPECT_EQ(keys_.FindFault(), "");
  EXPECT_EQ(keys_.size(), 0u);
}

// Keys in ascending order are appended without a search (O6). Some are erased again, the last one among them.
TEST_P(OrderedKeysModelTest, AgreesWithASetOfKeysInSequence) {
  for (int round = 0; round < 3; ++round) {
    std::set<std::string> sequence;
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(mix_.keys, 3'000); ++i) sequence.insert(AnyKey());
    std::uint64_t done = 0;
    for (const std::string& key : sequence) {
      ASSERT_EQ(keys_.Insert(key), model_.insert(key).second) << key;
      const std::string erased = random_() % 2 == 0 ? key : AnyKey();
      if (random_() % 4 == 0) {
        ASSERT_EQ(keys_.Erase(erased), model_.erase(erased) == 1) << erased;
      }
      if (++done % (mix_.shape.leaf_capacity < 1000 ? 8 : 128) == 0) {
        ASSERT_EQ(keys_.FindFault(), "");
      }
    }
    Look();
    ASSERT_EQ(keys_.FindFault(), "");
    ASSERT_EQ(keys_.size(), model_.size());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Mixes, OrderedKeysModelTest,
    testing::Values(OrderedMix{"TinyNumbers", {.leaf_capacity = 32, .fanout = 4}, Kind::kNumbers, 3000},
                    OrderedMix{"TinyWords", {.leaf_capacity = 24, .fanout = 4}, Kind::kWords, 200},
                    OrderedMix{"TinyBytes", {.leaf_capacity = 40, .fanout = 5}, Kind::kBytes, 2000},
                    OrderedMix{"TinyAndLarge", {.leaf_capacity = 48, .fanout = 4}, Kind::kLarge, 300},
                    OrderedMix{"SmallAndLarge", {.leaf_capacity = 1008, .fanout = 4}, Kind::kLarge, 1000},
                    OrderedMix{"Numbers", {}, Kind::kNumbers, 50000},
                    OrderedMix{"Large", {}, Kind::kLarge, 2000}),
    [](const auto& mix) { return std::string(mix.param.name); });

// --- Memory ---------------------------------------------------------------------------------------------

/// A key of 23 bytes, as YCSB has them.
std::string YcsbKey(std::uint64_t number) {
  const std::string digits = std::to_string(number % 10'000'000'000'000'000'000u);
  return "user" + std::string(19 - digits.size(), '0') + digits;
}

constexpr std::uint64_t kMany = 100'000;

TEST(OrderedKeysMemoryTest, ARandomKeyTakesAtMost24Bytes) {
  OrderedKeys keys;
  std::mt19937_64 random(1);
  while (keys.size() < kMany) keys.Insert(YcsbKey(random()));
  EXPECT_LE(keys.memory_bytes(), 24 * kMany);
  EXPECT_EQ(keys.FindFault(), "");
}

TEST(OrderedKeysMemoryTest, AKeyInSequenceTakesAFewBytes) {
  OrderedKeys keys;
  for (std::uint64_t i = 0; i < kMany; ++i) ASSERT_TRUE(keys.Insert(YcsbKey(i)));
  EXPECT_LE(keys.memory_bytes(), 5 * kMany);
  EXPECT_EQ(keys.FindFault(), "");
}

TEST(OrderedKeysMemoryTest, ErasedKeysGiveTheirMemoryBack) {
  OrderedKeys keys;
  const std::size_t nothing = keys.memory_bytes();
  std::mt19937_64 random(2);
  std::vector<std::string> all;
  for (std::uint64_t i = 0; i < kMany / 4; ++i) all.push_back(YcsbKey(random()));
  for (const std::string& key : all) ASSERT_TRUE(keys.Insert(key));
  const std::size_t full = keys.memory_bytes();
  // Every tenth key stays: its share of the memory is at most four times as large as before.
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % 10 == 0) continue;
    ASSERT_TRUE(keys.Erase(all[i]));
  }
  EXPECT_LE(keys.memory_bytes(), full * 4 / 10);
  EXPECT_EQ(keys.FindFault(), "");
  for (std::size_t i = 0; i < all.size(); i += 10) ASSERT_TRUE(keys.Erase(all[i]));
  EXPECT_LE(keys.memory_bytes(), nothing + 16384);  // the root keeps its table
  EXPECT_EQ(keys.FindFault(), "");
}

TEST(OrderedKeysTest, NumbersOfTwoBytesInEntries) {
  OrderedKeys keys;
  const std::string stem(4000, 's');
  for (const std::size_t size : {223u, 224u, 225u, 255u, 256u, 3999u, 4000u}) {
    ASSERT_TRUE(keys.Insert(stem.substr(0, size)));
    ASSERT_TRUE(keys.Insert(stem.substr(0, size) + "a"));
  }
  EXPECT_EQ(keys.FindFault(), "");
  EXPECT_EQ(keys.Count("", ""), 14u);
  EXPECT_TRUE(keys.Has(stem));
  EXPECT_FALSE(keys.Has(stem.substr(0, 1000)));
  ASSERT_TRUE(keys.Erase(stem.substr(0, 224)));
  EXPECT_EQ(keys.FindFault(), "");
}

}  // namespace
}  // namespace remora
