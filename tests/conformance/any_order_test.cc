// Scans in any order, wherever the store is, with a disk or without.
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "store/format/memory/hash_order.h"
#include "store/format/wire/scan_messages.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/support/sizes.h"

namespace remora {
namespace {

using testing::HasSubstr;
using Map = std::map<std::string, std::string>;

class AnyOrder : public Behaviour {
 protected:
  std::unique_ptr<KeyScan> Begin(ScanOptions options = {}) {
    options.any_order = options.resume_token.empty();
    auto scan = kv_->Scan(options);
    EXPECT_TRUE(scan.ok()) << scan.status();
    return *std::move(scan);
  }
  static Map Rest(KeyScan& scan) {
    Map shown;
    while (scan.Next()) {
      EXPECT_TRUE(shown.emplace(scan.key(), scan.value()).second) << "twice: " << scan.key();
    }
    EXPECT_CODE(kOk, scan.status());
    EXPECT_FALSE(scan.Next()) << "an end is the end";
    return shown;
  }
  Map All(const ScanOptions& options = {}) { return Rest(*Begin(options)); }
  static std::string KeyOf(int i) { return "key " + std::to_string(100'000 + i); }
  /// Puts values of all sizes beside a page's, so that many are cut.
  Map Fill(int count) {
    std::mt19937 random(7);
    Map map;
    for (int i = 0; i < count; ++i) {
      const std::size_t sizes[] = {0, random() % 100, 4096 - 30 + random() % 60, random() % 20'000};
      map[KeyOf(i)] = std::string(sizes[random() % 4], static_cast<char>('a' + i % 26));
      EXPECT_CODE(kOk, Put(KeyOf(i), map[KeyOf(i)]));
    }
    return map;
  }
};
INSTANTIATE_TEST_SUITE_P(On, AnyOrder,
                         testing::Values(DeploymentKind::kEmbedded, DeploymentKind::kLocal,
                                         DeploymentKind::kTcp, DeploymentKind::kTls, DeploymentKind::kVerbs,
                                         DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });
class RemoteAnyOrder : public AnyOrder {};
INSTANTIATE_TEST_SUITE_P(On, RemoteAnyOrder,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(AnyOrder, ShowsAllOfAStoreInMemory) {
  Start({.memory_size = 16 * kMiB, .eviction = Eviction::kNone}, kSmallWindow);
  if (IsSkipped() || HasFatalFailure()) return;
  EXPECT_TRUE(All().empty());
  Map map = Fill(slow() ? 100 : 500);
  EXPECT_TRUE(All() == map);
  EXPECT_EQ(kv_->Count({.begin = "a"}).value(), map.size());
  EXPECT_EQ(kv_->Count({.prefix = KeyOf(5).substr(0, 9)}).value(), 10u);
  const std::string begin = KeyOf(20), end = KeyOf(40);
  const Map some(map.lower_bound(begin), map.lower_bound(end));
  EXPECT_TRUE(All({.begin = begin, .end = end}) == some);
  EXPECT_EQ(All({.prefix = "key ", .limit = 7}).size(), 7u);
  EXPECT_TRUE(All({.prefix = "no such key"}).empty());
  for (const auto& [key, value] : All({.keys_only = true})) {
    ASSERT_EQ(value, "");
    ASSERT_EQ(map.erase(key), 1u);
  }
  EXPECT_TRUE(map.empty());
}

TEST_P(AnyOrder, ShowsTheLargestValue) {
  Start({.memory_size = 256 * kMiB});
  if (IsSkipped() || HasFatalFailure()) return;
  const Map map = {{"a", "small"}, {"b", std::string(slow() ? 5'000'001 : kMaxValueSize, 'v')}, {"c", ""}};
  for (const auto& [key, value] : map) ASSERT_CODE(kOk, Put(key, value));
  EXPECT_TRUE(All() == map);
}

TEST_P(AnyOrder, SaysVersionsAndExpiries) {
  START();
  std::uint64_t version = 0;
  ASSERT_CODE(kOk, kv_->Put("key", "1", {.ttl = std::chrono::hours(1), .version = &version}));
  ASSERT_CODE(kOk, kv_->Put("brief", "1", {.ttl = std::chrono::seconds(10)}));
  deployment_->Advance(std::chrono::seconds(11));
  const auto scan = Begin();
  ASSERT_TRUE(scan->Next());
  EXPECT_EQ(scan->key(), "key");
  EXPECT_EQ(scan->version(), version);
  EXPECT_GT(scan->expiry_ms(), 0u);
  EXPECT_FALSE(scan->Next()) << "its time is over";
  EXPECT_EQ(kv_->Count({.begin = "a"}).value(), 1u);
}

// The index grows from some buckets to thousands, segments are cleaned, keys come and go.
TEST_P(AnyOrder, EachKeyIsShownOnceWhateverHappensMeanwhile) {
  Start({.memory_size = 16 * kMiB, .eviction = Eviction::kNone}, kSmallWindow);
  if (IsSkipped() || HasFatalFailure()) return;
  const int stay = slow() ? 300 : 1500;
  const std::string value(200, 'v'), churn(5000, 'c');
  for (int i = 0; i < stay; ++i) ASSERT_CODE(kOk, Put(KeyOf(i), KeyOf(i) + value));
  const std::uint64_t buckets = store().Read(Metric::kIndexBuckets);
  const auto scan = Begin();
  std::set<std::string> shown;
  for (int i = 0; scan->Next(); ++i) {
    const std::string key(scan->key());
    ASSERT_TRUE(shown.insert(key).second) << "twice: " << key;
    if (key.starts_with("key")) {
      ASSERT_EQ(scan->value(), key + value);
    }
    for (int j = 0; j < 10 && i < stay; ++j) ASSERT_CODE(kOk, Put("more " + std::to_string(10 * i + j), ""));
    ASSERT_CODE(kOk, Put("churn " + std::to_string(i % 50), churn));
    if (i % 3 == 0) {
      ASSERT_CODE(kOk, Put(KeyOf(i % stay), KeyOf(i % stay) + value));
    }
    if (i % 5 == 4 && i < stay) {
      ASSERT_CODE(kOk, Delete("more " + std::to_string(10 * i - 3)));
    }
  }
  ASSERT_CODE(kOk, scan->status());
  EXPECT_GT(store().Read(Metric::kIndexBuckets), buckets);
  if (!slow()) {
    EXPECT_GT(store().Read(Metric::kSegmentsCleaned), 0u);
  }
  for (int i = 0; i < stay; ++i) ASSERT_TRUE(shown.contains(KeyOf(i))) << i;
}

TEST_P(AnyOrder, PagesByTokensGoOnWithOtherClients) {
  Start({.memory_size = 16 * kMiB, .eviction = Eviction::kNone});
  if (IsSkipped() || HasFatalFailure()) return;
  const Map map = Fill(100);
  Map shown;
  std::string token;
  for (bool more = true; more;) {
    auto scan =
        token.empty() ? Begin({.prefix = "key", .limit = 13}) : Begin({.limit = 13, .resume_token = token});
    const Map page = Rest(*scan);
    token = scan->resume_token();
    scan.reset();  // before its client
    more = !page.empty();
    for (const auto& entry : page) ASSERT_TRUE(shown.insert(entry).second) << "twice: " << entry.first;
    if (shown.size() == 39) {
      kv_ = Connect();
    }
    // Another index, and other entries beside.
    for (int i = 0; i < 300; ++i) {
      ASSERT_CODE(kOk, Put("beside " + std::to_string(shown.size()) + " " + std::to_string(i), ""));
    }
  }
  EXPECT_TRUE(shown == map);
}

TEST_P(AnyOrder, ContradictoryOptionsAreRejected) {
  START();
  ASSERT_CODE(kOk, Put("key", "value"));
  EXPECT_CODE(kInvalidArgument, kv_->Scan({.reverse = true, .any_order = true}).status());
  EXPECT_CODE(kInvalidArgument, kv_->Scan({.any_order = true, .one_moment = true}).status());
  const auto scan = Begin();
  ASSERT_TRUE(scan->Next());
  const std::string token = scan->resume_token();
  EXPECT_CODE(kInvalidArgument, kv_->Scan({.any_order = true, .resume_token = token}).status());
  EXPECT_CODE(kInvalidArgument, kv_->Scan({.resume_token = token, .one_moment = true}).status());
  const absl::Status ordered = kv_->Scan({.keys_only = true}).status();
  EXPECT_CODE(kFailedPrecondition, ordered);
  EXPECT_THAT(std::string(ordered.message()), HasSubstr("any_order"));
  EXPECT_CODE(kFailedPrecondition, kv_->Scan({.resume_token = MakeScanToken({.begin = "k"})}).status());
}

// There, any order is that of the keys, and of one moment.
TEST_P(AnyOrder, WithADiskItIsTheOrderOfTheKeys) {
  Start({.durability = Durability::kLogged, .memory_size = 16 * kMiB}, kSmallWindow);
  if (IsSkipped() || HasFatalFailure()) return;
  const Map map = Fill(100);
  const auto scan = Begin();
  std::string half;
  int shown = 0;
  for (const auto& [key, value] : map) {
    ASSERT_TRUE(scan->Next()) << scan->status();
    ASSERT_EQ(scan->key(), key);
    ASSERT_TRUE(scan->value() == value);
    if (++shown == 50) half = scan->resume_token();
    ASSERT_CODE(kOk, Put(KeyOf(100 + shown), "later"));
  }
  EXPECT_FALSE(scan->Next());
  const auto rest = Begin({.limit = 50, .resume_token = half});
  ASSERT_TRUE(rest->Next());
  EXPECT_EQ(rest->key(), KeyOf(50));
  const std::string by_hash = MakeScanToken({.by_hash = true, .after = "key"});
  EXPECT_CODE(kFailedPrecondition, kv_->Scan({.resume_token = by_hash}).status());
}

TEST_P(RemoteAnyOrder, ThoseThatTheServerGivesUpGoOn) {
  Start({.memory_size = 16 * kMiB, .eviction = Eviction::kNone}, kSmallWindow);
  if (IsSkipped() || HasFatalFailure()) return;
  const Map map = Fill(200);
  std::vector<std::unique_ptr<KeyScan>> scans;
  for (std::size_t i = 0; i < kMaxCursors + 3; ++i) scans.push_back(Begin({.limit = 190}));
  std::vector<Map> shown(scans.size());
  std::mt19937 random(5);
  for (std::size_t left = scans.size() * 190; left > 0; --left) {
    std::size_t i = random() % scans.size();
    while (shown[i].size() == 190) i = (i + 1) % scans.size();
    ASSERT_TRUE(scans[i]->Next()) << scans[i]->status();
    const auto entry = map.find(std::string(scans[i]->key()));
    ASSERT_NE(entry, map.end());
    ASSERT_TRUE(scans[i]->value() == entry->second);
    ASSERT_TRUE(shown[i].insert(*entry).second) << "twice";
    if (left % 10 == 0) {
      ASSERT_CODE(kOk, Put("another " + std::to_string(left), ""));
      ASSERT_CODE(kOk, Delete("another " + std::to_string(left)));
    }
  }
  for (const auto& scan : scans) EXPECT_FALSE(scan->Next());
  EXPECT_GT(store().Read(Metric::kScanCursorsPushedOut), 0u);
}

}  // namespace
}  // namespace remora
