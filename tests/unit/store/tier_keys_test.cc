// Reads of many keys of the durable tier at once (DurableTier::ForKeys).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/durable/tier.h"
#include "store/durable/tier_log/tier_log_options.h"
#include "test_files.h"

namespace remora {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using KeyEntries = std::vector<std::pair<std::string, std::string>>;

/// `skipped`: the same for each key.
KeyEntries EntriesOfKeys(const DurableTier& tier, const std::vector<std::string_view>& keys,
                         bool reverse = false, std::size_t skipped = 0) {
  KeyEntries shown;
  std::vector<DurableTier::WantedKey> wanted;
  for (const std::string_view key : keys) wanted.push_back({key, skipped});
  const absl::Status status = tier.ForKeys(wanted, reverse, [&](const DurableTier::Entry& entry) {
    shown.emplace_back(entry.key, entry.value);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return shown;
}

/// A tier with RocksDB's log, or with a commit log that the test applies.
class TierKeysTest : public testing::TestWithParam<std::uint64_t> {
 protected:
  void SetUp() override {
    tier_ = *DurableTier::Open(temp_ / "store", {.commit_log_bytes = GetParam(), .applies_in_steps = true});
    tier_->SetVersionLimit(1'000'000);
  }
  void Put(const std::string& key, const std::string& value) {
    tier_->Put(key, {.version = ++version_}, value);
    ASSERT_TRUE(tier_->Write().ok());
  }
  void Delete(const std::string& key) {
    tier_->Delete(key, ++version_);
    ASSERT_TRUE(tier_->Write().ok());
  }

  TempDir temp_;
  std::unique_ptr<DurableTier> tier_;
  std::uint64_t version_ = 0;
};
INSTANTIATE_TEST_SUITE_P(All, TierKeysTest, testing::Values(0, kMinTierLogBytes),
                         [](const auto& test) { return test.param == 0 ? "RocksdbLog" : "CommitLog"; });

TEST_P(TierKeysTest, ShowsTheKeysThatExist) {
  EXPECT_THAT(EntriesOfKeys(*tier_, {"a", "b"}), IsEmpty()) << "an empty store";
  for (const std::string key : {"b", "c", "d", "f"}) ASSERT_NO_FATAL_FAILURE(Put(key, "of " + key));
  ASSERT_TRUE(tier_->Holds(version_));
  EXPECT_THAT(EntriesOfKeys(*tier_, {}), IsEmpty());
  EXPECT_THAT(EntriesOfKeys(*tier_, {"a", "b", "c", "e", "f", "g"}),
              ElementsAre(Pair("b", "of b"), Pair("c", "of c"), Pair("f", "of f")));
  EXPECT_THAT(EntriesOfKeys(*tier_, {"g", "f", "e", "c", "b", "a"}, /*reverse=*/true),
              ElementsAre(Pair("f", "of f"), Pair("c", "of c"), Pair("b", "of b")));
  EXPECT_THAT(EntriesOfKeys(*tier_, {"g", "h"}), IsEmpty());
  EXPECT_THAT(EntriesOfKeys(*tier_, {"a", "Z"}, /*reverse=*/true), IsEmpty());
}

// A deleted key is gone at once, although the applier may not have reached its deletion.
TEST_P(TierKeysTest, DoesNotShowADeletedKey) {
  for (const std::string key : {"a", "b", "c"}) ASSERT_NO_FATAL_FAILURE(Put(key, "v"));
  ASSERT_TRUE(tier_->Holds(version_));
  ASSERT_NO_FATAL_FAILURE(Delete("b"));
  EXPECT_THAT(EntriesOfKeys(*tier_, {"a", "b", "c"}), ElementsAre(Pair("a", "v"), Pair("c", "v")));
  EXPECT_THAT(EntriesOfKeys(*tier_, {"c", "b", "a"}, /*reverse=*/true),
              ElementsAre(Pair("c", "v"), Pair("a", "v")));
}

TEST_P(TierKeysTest, AnErrorOfTheCallerEndsIt) {
  for (const std::string key : {"a", "b", "c"}) ASSERT_NO_FATAL_FAILURE(Put(key, "v"));
  ASSERT_TRUE(tier_->Holds(version_));
  std::string last;
  const std::vector<DurableTier::WantedKey> keys = {{"a"}, {"b"}, {"c"}};
  const absl::Status status = tier_->ForKeys(keys, /*reverse=*/false, [&](const DurableTier::Entry& entry) {
    last = entry.key;
    return entry.key == "b" ? absl::AbortedError("enough") : absl::OkStatus();
  });
  EXPECT_EQ(status, absl::AbortedError("enough"));
  EXPECT_EQ(last, "b");
}

// Keys of tables and of memory, dense and far apart, in both directions.
TEST_P(TierKeysTest, AgreesWithAMap) {
  std::mt19937 random(5);
  std::map<std::string, std::string> model;
  const auto key_at = [](std::uint64_t i) { return "key" + std::to_string(1000 + i % 500); };
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 50; ++i) {
      const std::string key = key_at(random());
      if (random() % 4 == 0) {
        ASSERT_NO_FATAL_FAILURE(Delete(key));
        model.erase(key);
      } else {
        ASSERT_NO_FATAL_FAILURE(
            Put(key, model[key] = std::string(random() % 50 == 0 ? 9000 : 3, static_cast<char>(random()))));
      }
    }
    ASSERT_TRUE(tier_->Holds(version_));
    if (round % 10 == 9) {
      ASSERT_TRUE(tier_->Backup(temp_ / "backups", {}).ok()) << "all is flushed";
    }
    std::vector<std::string> wanted;
    const std::uint64_t dense = random() % 2 == 0 ? 1 : 1 + random() % 50;
    for (std::uint64_t i = random() % 50; i < 500; i += 1 + random() % dense) wanted.push_back(key_at(i));
    std::vector<std::string_view> keys(wanted.begin(), wanted.end());
    KeyEntries expected;
    for (const std::string& key : wanted) {
      if (model.contains(key)) expected.emplace_back(key, model[key]);
    }
    // The iterator steps or searches, by the number of keys to skip. Both find the same entries.
    const std::size_t skipped = random() % 2 == 0 ? dense : 1000;
    ASSERT_EQ(EntriesOfKeys(*tier_, keys, /*reverse=*/false, skipped), expected);
    std::reverse(keys.begin(), keys.end());
    std::reverse(expected.begin(), expected.end());
    ASSERT_EQ(EntriesOfKeys(*tier_, keys, /*reverse=*/true, skipped), expected);
  }
}

}  // namespace
}  // namespace remora
