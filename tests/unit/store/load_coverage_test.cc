#include "store/index/load_coverage.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace remora {
namespace {

TEST(LoadCoverageTest, AllAreKnownUntilSomebodyLoads) {
  LoadCoverage known;
  EXPECT_TRUE(known.Covers("a"));
  known.AddKey("a");
  known.Begin({""});
  EXPECT_FALSE(known.Covers("a"));
  known.CoverAll();
  EXPECT_TRUE(known.Covers("b"));
}

TEST(LoadCoverageTest, AnAddedKeyIsCoveredBeforeAndAfterTheLoadPassesIt) {
  LoadCoverage known;
  known.Begin({"", "m"});
  known.AddKey("b");
  known.AddKey("mm");
  EXPECT_TRUE(known.Covers("b"));
  EXPECT_FALSE(known.Covers("a"));
  EXPECT_TRUE(known.HasAdded(0));
  EXPECT_TRUE(known.IsAdded(0, "b"));
  known.Advance(0, "b");
  EXPECT_FALSE(known.HasAdded(0)) << "it takes no space any more";
  for (const char* key : {"a", "b", "mm"}) EXPECT_TRUE(known.Covers(key)) << key;
  for (const char* key : {"b\1", "c", "lzz", "m", "n"}) EXPECT_FALSE(known.Covers(key)) << key;
  known.AddKey("a");
  EXPECT_FALSE(known.HasAdded(0)) << "it was known";
  known.AdvanceToEnd(0);
  EXPECT_TRUE(known.Covers("lzz"));
  EXPECT_FALSE(known.Covers("m"));
  EXPECT_TRUE(known.IsAdded(1, "mm"));
}

TEST(LoadCoverageTest, IsWhatAMapOfAllKeysSays) {
  std::mt19937_64 random(1);
  const auto any_key = [&] {
    std::string key(1 + random() % 3, '\0');
    for (char& byte : key) byte = static_cast<char>(random() % 4 * 85);  // some have the highest bit set
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
    LoadCoverage known;
    known.Begin(begins);
    std::set<std::string> model;
    std::vector<std::size_t> passed(ranges.size());
    for (int step = 0; step < 200; ++step) {
      const std::size_t range = random() % ranges.size();
      if (random() % 2 == 0) {
        const auto key = std::next(keys.begin(), static_cast<std::ptrdiff_t>(random() % keys.size()));
        known.AddKey(*key);
        model.insert(*key);
      } else if (passed[range] < ranges[range].size()) {
        const std::string& key = ranges[range][passed[range]++];
        EXPECT_EQ(known.HasAdded(range) && known.IsAdded(range, key), model.contains(key));
        known.Advance(range, key);
        model.insert(key);
      } else {
        known.AdvanceToEnd(range);
      }
      for (const std::string& key : keys) ASSERT_EQ(known.Covers(key), model.contains(key));
    }
  }
}

}  // namespace
}  // namespace remora
