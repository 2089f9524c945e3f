#include "store/index/load_coverage.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace remora {
namespace {

TEST(KnownKeysTest, AllAreKnownUntilSomebodyLoads) {
  KnownKeys known;
  EXPECT_TRUE(known.Knows("a"));
  known.Note("a");
  known.Forget({""});
  EXPECT_FALSE(known.Knows("a"));
  known.LearnAll();
  EXPECT_TRUE(known.Knows("b"));
}

TEST(KnownKeysTest, WhatIsNotedIsKnownUntilItIsPassedAndAfter) {
  KnownKeys known;
  known.Forget({"", "m"});
  known.Note("b");
  known.Note("mm");
  EXPECT_TRUE(known.Knows("b"));
  EXPECT_FALSE(known.Knows("a"));
  EXPECT_TRUE(known.AnyNoted(0));
  EXPECT_TRUE(known.IsNoted(0, "b"));
  known.Pass(0, "b");
  EXPECT_FALSE(known.AnyNoted(0)) << "it takes no room any more";
  for (const char* key : {"a", "b", "mm"}) EXPECT_TRUE(known.Knows(key)) << key;
  for (const char* key : {"b\1", "c", "lzz", "m", "n"}) EXPECT_FALSE(known.Knows(key)) << key;
  known.Note("a");
  EXPECT_FALSE(known.AnyNoted(0)) << "it was known";
  known.PassAll(0);
  EXPECT_TRUE(known.Knows("lzz"));
  EXPECT_FALSE(known.Knows("m"));
  EXPECT_TRUE(known.IsNoted(1, "mm"));
}

TEST(KnownKeysTest, IsWhatAMapOfAllKeysSays) {
  std::mt19937_64 random(1);
  const auto any_key = [&] {
    std::string key(1 + random() % 3, '\0');
    for (char& byte : key) byte = static_cast<char>(random() % 4 * 85);  // some with the highest bit
    return key;
  };
  for (int round = 0; round < 50; ++round) {
    std::set<std::string> keys;
    for (int i = 0; i < 60; ++i) keys.insert(any_key());
    std::vector<std::string> begins = {""};
    std::vector<std::vector<std::string>> ranges(1);
    for (const std::string& key : keys) {
      if (random() % 8 == 0) {
        begins.push_back(key);
        ranges.emplace_back();
      }
      ranges.back().push_back(key);
    }
    KnownKeys known;
    known.Forget(begins);
    std::set<std::string> model;
    std::vector<std::size_t> passed(ranges.size());
    for (int step = 0; step < 200; ++step) {
      const std::size_t range = random() % ranges.size();
      if (random() % 2 == 0) {
        const auto key = std::next(keys.begin(), static_cast<std::ptrdiff_t>(random() % keys.size()));
        known.Note(*key);
        model.insert(*key);
      } else if (passed[range] < ranges[range].size()) {
        const std::string& key = ranges[range][passed[range]++];
        EXPECT_EQ(known.AnyNoted(range) && known.IsNoted(range, key), model.contains(key));
        known.Pass(range, key);
        model.insert(key);
      } else {
        known.PassAll(range);
      }
      for (const std::string& key : keys) ASSERT_EQ(known.Knows(key), model.contains(key));
    }
  }
}

}  // namespace
}  // namespace remora
