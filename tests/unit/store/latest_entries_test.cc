// LatestEntries against a model. E1 and E2 are numbered in store/durable/tier_log/latest_entries.h.
#include "store/durable/tier_log/latest_entries.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace remora {
namespace {

using testing::ElementsAre;
using testing::Pair;

std::vector<std::pair<std::string, std::string>> ContentOf(const LatestEntries& latest) {
  std::vector<std::pair<std::string, std::string>> content;
  for (const LogEntry* entry : latest.Sorted()) content.emplace_back(entry->key, entry->value);
  return content;
}

TEST(LatestEntriesTest, HasTheLastOfEachKey) {  // E1
  LatestEntries latest;
  std::string bytes = "one";
  latest.Set({.version = 1, .key = "a", .value = bytes});
  bytes = "???";  // Set has copied
  latest.Set({.version = 2, .expiry_ms = 9, .key = "b", .value = "a longer one", .request = {3, 4}});
  latest.Set({.version = 3, .key = "a", .value = "of another size"});
  latest.Set({.version = 4, .key = "b", .value = "short"});
  latest.Set({.kind = LogEntryKind::kDelete, .version = 5, .key = "c"});
  latest.Set({.version = 6, .key = "c", .value = "again"});
  latest.Set({.kind = LogEntryKind::kDelete, .version = 7, .key = "a"});
  EXPECT_EQ(latest.size(), 3u);
  EXPECT_THAT(ContentOf(latest), ElementsAre(Pair("a", ""), Pair("b", "short"), Pair("c", "again")));
  const std::vector<const LogEntry*> sorted = latest.Sorted();
  EXPECT_EQ(sorted[0]->kind, LogEntryKind::kDelete);
  EXPECT_EQ(sorted[0]->version, 7u);
  EXPECT_EQ(sorted[1]->version, 4u);
  EXPECT_EQ(sorted[1]->expiry_ms, 0u);
  EXPECT_EQ(sorted[1]->request.client, 0u);
  latest.Clear();
  EXPECT_TRUE(latest.empty());
  EXPECT_EQ(latest.bytes(), 0u);
  EXPECT_TRUE(latest.Sorted().empty());
}

// A key that is written often takes the memory of one entry.
TEST(LatestEntriesTest, ValuesOfASizeTakeThePlaceOfEachOther) {
  LatestEntries latest;
  latest.Set({.version = 1, .key = "key", .value = std::string(64, 'a')});
  const std::size_t bytes = latest.bytes();
  for (std::uint64_t version = 2; version < 1000; ++version) {
    latest.Set({.version = version, .key = "key", .value = std::string(64, 'b')});
  }
  EXPECT_EQ(latest.bytes(), bytes);
  latest.Set({.version = 1000, .key = "key", .value = std::string(65, 'c')});
  EXPECT_GT(latest.bytes(), bytes);
}

TEST(LatestEntriesTest, AViewIsReplacedAsACopyIs) {
  LatestEntries latest;
  const std::string first = "first";
  latest.SetView({.version = 1, .key = "a", .value = first});
  latest.Set({.version = 2, .key = "a", .value = "second"});
  EXPECT_THAT(ContentOf(latest), ElementsAre(Pair("a", "second")));
  EXPECT_EQ(first, "first");
  const std::string third = "third";
  latest.SetView({.version = 3, .key = "a", .value = third});
  EXPECT_EQ(latest.Sorted().front()->value.data(), third.data());
  latest.Set({.kind = LogEntryKind::kDelete, .version = 4, .key = "a"});
  EXPECT_THAT(ContentOf(latest), ElementsAre(Pair("a", "")));
}

// Keys with zeros, with high bytes, with much in common, and one that begins another. Values that fill
// blocks, and that have blocks of their own. Entries are used again after Clear.
TEST(LatestEntriesTest, IsLikeAMap) {  // E1, E2
  std::mt19937_64 random(7);
  LatestEntries latest;
  for (int round = 0; round < 20; ++round) {
    std::map<std::string, std::string> model;
    const std::string common(random() % 12, 'k');
    for (std::uint64_t version = 1; version < 3000; ++version) {
      std::string key = common;
      for (std::uint64_t left = random() % 12; left > 0; --left) {
        key.push_back("\0\1ab\x7f\x80\xff"[random() % 7]);
      }
      const std::size_t size = random() % 100 == 0 ? random() % 200'000 : random() % 100;
      const std::string value(size, static_cast<char>('a' + version % 26));
      latest.Set({.version = version, .key = key, .value = value});
      model[key] = value;
    }
    EXPECT_EQ(latest.size(), model.size());
    ASSERT_EQ(ContentOf(latest),
              (std::vector<std::pair<std::string, std::string>>(model.begin(), model.end())));
    latest.Clear();
  }
}

}  // namespace
}  // namespace remora
