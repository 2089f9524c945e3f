// Scans, counts and drops, wherever the store is.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store/format/wire/scan_messages.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/conformance/scans_fixture.h"
#include "tests/support/sizes.h"

namespace remora {
namespace {

using testing::HasSubstr;
using Map = std::map<std::string, std::string>;

INSTANTIATE_TEST_SUITE_P(
    On, Scans,
    testing::Values(
        DeploymentKind::kEmbedded, DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
        DeploymentKind::kVerbs, DeploymentKind::kSim, WithOrderedIndex(DeploymentKind::kEmbedded),
        WithOrderedIndex(DeploymentKind::kLocal), WithOrderedIndex(DeploymentKind::kTcp),
        WithOrderedIndex(DeploymentKind::kTls), WithOrderedIndex(DeploymentKind::kVerbs),
        WithOrderedIndex(DeploymentKind::kSim), WithOrderedIndexAndDisk(DeploymentKind::kEmbedded),
        WithOrderedIndexAndDisk(DeploymentKind::kLocal), WithOrderedIndexAndDisk(DeploymentKind::kTcp),
        WithOrderedIndexAndDisk(DeploymentKind::kTls), WithOrderedIndexAndDisk(DeploymentKind::kVerbs),
        WithOrderedIndexAndDisk(DeploymentKind::kSim)),
    NameOfScanned);
class RemoteScans : public Scans {};
INSTANTIATE_TEST_SUITE_P(
    On, RemoteScans,
    testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                    DeploymentKind::kVerbs, DeploymentKind::kSim, WithOrderedIndex(DeploymentKind::kLocal),
                    WithOrderedIndex(DeploymentKind::kTcp), WithOrderedIndex(DeploymentKind::kTls),
                    WithOrderedIndex(DeploymentKind::kVerbs), WithOrderedIndex(DeploymentKind::kSim),
                    WithOrderedIndexAndDisk(DeploymentKind::kLocal),
                    WithOrderedIndexAndDisk(DeploymentKind::kTcp),
                    WithOrderedIndexAndDisk(DeploymentKind::kTls),
                    WithOrderedIndexAndDisk(DeploymentKind::kVerbs),
                    WithOrderedIndexAndDisk(DeploymentKind::kSim)),
    NameOfScanned);
/// Scans of stores with a disk.
class LoggedScans : public Scans {};
INSTANTIATE_TEST_SUITE_P(On, LoggedScans,
                         testing::Values(DeploymentKind::kEmbedded, DeploymentKind::kLocal,
                                         DeploymentKind::kTcp, DeploymentKind::kTls, DeploymentKind::kVerbs,
                                         DeploymentKind::kSim,
                                         WithOrderedIndexAndDisk(DeploymentKind::kEmbedded),
                                         WithOrderedIndexAndDisk(DeploymentKind::kLocal),
                                         WithOrderedIndexAndDisk(DeploymentKind::kTcp),
                                         WithOrderedIndexAndDisk(DeploymentKind::kTls),
                                         WithOrderedIndexAndDisk(DeploymentKind::kVerbs),
                                         WithOrderedIndexAndDisk(DeploymentKind::kSim)),
                         NameOfScanned);
Pairs Expected(const Map& map, const ScanOptions& options) {
  Pairs pairs;
  for (const auto& [key, value] : map) {
    if (key.starts_with(options.prefix) && key >= options.begin &&
        (options.end.empty() || key < options.end)) {
      pairs.emplace_back(key, options.keys_only ? "" : value);
    }
  }
  if (options.reverse) std::reverse(pairs.begin(), pairs.end());
  if (options.limit != 0 && pairs.size() > options.limit) pairs.resize(options.limit);
  return pairs;
}

// Entries of all sizes beside a page's, so that many are cut.
TEST_P(Scans, AgreeWithAMap) {
  StartInOrder(kSmallWindow);
  if (IsSkipped() || HasFatalFailure()) return;
  std::mt19937 random(3);
  Map map;
  for (int i = 0; i < 400; ++i) {
    const std::string key =
        std::string(1 + random() % 3, static_cast<char>(random() % 7 * 42)) + static_cast<char>(random());
    const std::size_t sizes[] = {0, random() % 100, 4096 - 30 + random() % 60, random() % 20'000};
    map[key] = std::string(sizes[random() % 4], static_cast<char>('a' + i % 26));
    ASSERT_CODE(kOk, Put(key, map[key]));
  }
  for (int i = 0; i < (slow() ? 40 : 400); ++i) {
    const auto bound = [&] {
      return random() % 2 == 0 ? std::string() : std::string(1, static_cast<char>(random() % 7 * 42));
    };
    const std::string prefix = bound(), begin = bound(), end = bound();
    ScanOptions options{.prefix = prefix, .begin = begin, .end = end};
    options.reverse = random() % 2 == 0;
    options.keys_only = random() % 4 == 0;
    const std::size_t all = Expected(map, options).size();
    ASSERT_EQ(kv_->Count({.prefix = prefix, .begin = begin, .end = end}).value(), all);
    const std::size_t limits[] = {0, 1, all, all + 1, all > 1 ? all - 1 : 1};
    options.limit = limits[random() % 5];
    ASSERT_TRUE(All(options) == Expected(map, options)) << i;
  }
}

TEST_P(Scans, ManyKeysInManyPages) {
  StartInOrder();
  if (IsSkipped() || HasFatalFailure()) return;
  const int count = slow() ? 3000 : 20'000;
  Pairs pairs = Fill(count, 8);
  EXPECT_TRUE(All() == pairs);
  EXPECT_EQ(kv_->Count().value(), static_cast<std::uint64_t>(count));
  EXPECT_EQ(kv_->Count({.prefix = "key "}).value(), static_cast<std::uint64_t>(count));
  std::reverse(pairs.begin(), pairs.end());
  EXPECT_TRUE(All({.reverse = true}) == pairs);
}

TEST_P(Scans, AnEmptyStoreAndEmptyRanges) {
  StartInOrder();
  if (IsSkipped() || HasFatalFailure()) return;
  EXPECT_TRUE(All().empty());
  EXPECT_EQ(kv_->Count().value(), 0u);
  EXPECT_EQ(kv_->DeleteAll().value(), 0u);
  ASSERT_CODE(kOk, Put("\xff\xff", "value"));
  EXPECT_TRUE(All({.begin = "b", .end = "a"}).empty());
  EXPECT_TRUE(All({.prefix = "\xff\xff\xff"}).empty());
  EXPECT_EQ(All({.prefix = "\xff\xff", .reverse = true}).size(), 1u);
  const std::string long_bound(kMaxKeySize + 2, 'k');
  EXPECT_CODE(kInvalidArgument, kv_->Scan({.prefix = long_bound}).status());
  EXPECT_CODE(kInvalidArgument, kv_->Count({.begin = long_bound}).status());
  EXPECT_CODE(kInvalidArgument, kv_->DeleteRange({.end = long_bound}).status());
  EXPECT_CODE(kInvalidArgument, kv_->DeleteRange({}).status());
  EXPECT_EQ(kv_->Count().value(), 1u);
}

TEST_P(Scans, KeysAndBoundsOfTheLargestSize) {
  StartInOrder(kSmallWindow);
  if (IsSkipped() || HasFatalFailure()) return;
  const std::string key(kMaxKeySize, 'k');
  ASSERT_CODE(kOk, Put(key, "value"));
  ASSERT_CODE(kOk, Put("l", "next"));
  const auto scan = Begin({.begin = key, .end = key + "\x01"});
  ASSERT_TRUE(scan->Next());
  EXPECT_EQ(scan->key(), key);
  EXPECT_FALSE(scan->Next());
  EXPECT_TRUE(All({.resume_token = scan->resume_token()}).empty());
  EXPECT_EQ(Keys({.resume_token = Begin({.begin = key})->resume_token()}).size(), 2u);
}

TEST_P(Scans, AStoreInMemoryHasNoOrder) {
  START();
  ASSERT_CODE(kOk, Put("a", "1"));
  ASSERT_CODE(kOk, Put("b", "2"));
  const absl::Status status = kv_->Scan({}).status();
  EXPECT_CODE(kFailedPrecondition, status);
  EXPECT_THAT(std::string(status.message()), HasSubstr("logged"));
  EXPECT_EQ(kv_->Count().value(), 2u);
  EXPECT_EQ(kv_->DeleteRange({.prefix = "a"}).value(), 1u);
  EXPECT_EQ(kv_->DeleteAll().value(), 1u);
  EXPECT_CODE(kNotFound, GetStatus("b"));
}

TEST_P(Scans, TheLargestValue) {
  StartInOrder({}, 256 * kMiB);
  if (IsSkipped() || HasFatalFailure()) return;
  const std::string value(slow() ? 5'000'001 : kMaxValueSize, 'v');
  ASSERT_CODE(kOk, Put("a", "before"));
  ASSERT_CODE(kOk, Put("b", value));
  ASSERT_CODE(kOk, Put("c", "behind"));
  for (const bool reverse : {false, true}) {
    const Pairs pairs = All({.reverse = reverse});
    ASSERT_EQ(pairs.size(), 3u);
    EXPECT_TRUE(pairs[1].second == value);
  }
  EXPECT_EQ(All({.keys_only = true}), (Pairs{{"a", ""}, {"b", ""}, {"c", ""}}));
}

TEST_P(Scans, ShowTheMomentWhenTheyBeganWhateverIsWrittenMeanwhile) {
  StartInOrder(kSmallWindow);
  if (IsSkipped() || HasFatalFailure()) return;
  const Pairs before = Fill(500);
  const auto scan = Begin();
  int i = 0;
  for (; scan->Next(); ++i) {
    ASSERT_EQ(scan->key(), before[static_cast<std::size_t>(i)].first);
    ASSERT_EQ(scan->value(), before[static_cast<std::size_t>(i)].second);
    // Other calls, behind and before it.
    ASSERT_CODE(kOk, Put(KeyOf(499 - i), "changed"));
    ASSERT_CODE(kOk, Put(KeyOf(i) + " more", "added"));
    if (i % 3 == 0) {
      ASSERT_CODE(kOk, Delete(KeyOf(499 - i)));
    }
    ASSERT_EQ(Get(KeyOf(i) + " more"), "added");
  }
  EXPECT_CODE(kOk, scan->status());
  EXPECT_EQ(i, 500);
}

TEST_P(Scans, SayVersionsAndExpiries) {
  StartInOrder();
  if (IsSkipped() || HasFatalFailure()) return;
  std::uint64_t first = 0, second = 0;
  ASSERT_CODE(kOk, kv_->Put("a", "1", {.ttl = std::chrono::hours(1), .version = &first}));
  ASSERT_CODE(kOk, kv_->Put("b", "2", {.version = &second}));
  const auto scan = Begin();
  ASSERT_TRUE(scan->Next());
  EXPECT_EQ(scan->version(), first);
  EXPECT_GT(scan->expiry_ms(), 0u);
  ASSERT_TRUE(scan->Next());
  EXPECT_EQ(scan->version(), second);
  EXPECT_EQ(scan->expiry_ms(), 0u);
}

TEST_P(Scans, KeysThatExpireDuringAScanAreNotShown) {
  StartInOrder();
  if (IsSkipped() || HasFatalFailure()) return;
  for (int i = 0; i < 20; ++i) {
    const auto ttl = i % 2 == 0 ? std::chrono::milliseconds(10'000) : kNeverExpires;
    ASSERT_CODE(kOk, kv_->Put(KeyOf(i), "v", {.ttl = ttl}));
  }
  const auto scan = Begin();
  const auto few = Begin({.limit = 10});
  ASSERT_TRUE(scan->Next());
  EXPECT_EQ(scan->key(), KeyOf(0));
  deployment_->Advance(std::chrono::seconds(11));
  for (const Pairs& pairs : {Rest(*scan), Rest(*few)}) {
    ASSERT_EQ(pairs.size(), 10u);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(pairs[static_cast<std::size_t>(i)].first, KeyOf(2 * i + 1));
  }
  EXPECT_EQ(kv_->Count({.prefix = "key"}).value(), 10u);
}

TEST_P(LoggedScans, ColdKeysAreShown) {
  StartInOrder();
  if (IsSkipped() || HasFatalFailure()) return;
  const Pairs pairs = Fill(600, 40'000);
  ASSERT_GT(store().Read(Metric::kColdKeys), 50u);
  EXPECT_TRUE(All() == pairs);
  EXPECT_EQ(kv_->Count().value(), 600u);
}

// --- Several at once --------------------------------------------------------------------------------------

TEST_P(Scans, ThoseThatTakeTurnsEachShowAll) {
  StartInOrder(kSmallWindow);
  if (IsSkipped() || HasFatalFailure()) return;
  Pairs pairs = Fill(300, 300);
  ASSERT_CODE(kOk, Put(KeyOf(150), std::string(10'000, 'l')));
  pairs[150].second = std::string(10'000, 'l');
  std::vector<std::unique_ptr<KeyScan>> scans;
  for (int i = 0; i < 4; ++i) scans.push_back(Begin({.reverse = i % 2 == 1}));
  std::mt19937 random(5);
  std::vector<std::size_t> shown(scans.size());
  for (std::size_t left = scans.size() * pairs.size(); left > 0; --left) {
    std::size_t i = random() % scans.size();
    while (shown[i] == pairs.size()) i = (i + 1) % scans.size();
    ASSERT_TRUE(scans[i]->Next());
    const std::size_t at = i % 2 == 1 ? pairs.size() - 1 - shown[i] : shown[i];
    ++shown[i];
    ASSERT_EQ(scans[i]->key(), pairs[at].first);
    ASSERT_TRUE(scans[i]->value() == pairs[at].second);
  }
  for (const auto& scan : scans) EXPECT_FALSE(scan->Next());
  if (remote()) {
    EXPECT_EQ(store().Read(Metric::kScanCursorsPushedOut), 0u);
  }
}

// The entry that another scan shows stays what it is, though its page is overwritten.
TEST_P(Scans, AnotherScanLeavesTheEntryShownAlone) {
  StartInOrder(kSmallWindow);
  if (IsSkipped() || HasFatalFailure()) return;
  const Pairs pairs = Fill(100, 500);
  const auto first = Begin();
  ASSERT_TRUE(first->Next());
  const auto second = Begin({.reverse = true});
  while (second->Next()) {
    ASSERT_EQ(first->key(), pairs[0].first);
    ASSERT_EQ(first->value(), pairs[0].second);
  }
  EXPECT_EQ(Rest(*first).size(), 99u);
}

TEST_P(RemoteScans, MoreThanTheServerKeepsGoOnAsOfALaterMoment) {
  StartInOrder(kSmallWindow);
  if (IsSkipped() || HasFatalFailure()) return;
  const Pairs pairs = Fill(300);
  const auto any = Begin();
  const auto strict = Begin({.one_moment = true});
  ASSERT_TRUE(any->Next());
  ASSERT_TRUE(strict->Next());
  std::vector<std::unique_ptr<KeyScan>> others;
  for (std::size_t i = 0; i < kMaxCursors; ++i) others.push_back(Begin());
  EXPECT_EQ(store().Read(Metric::kScanCursorsPushedOut), 2u);
  EXPECT_EQ(store().Read(Metric::kScanCursors), kMaxCursors);
  ASSERT_CODE(kOk, Put(KeyOf(300), "later"));
  Pairs rest = Rest(*any);
  ASSERT_EQ(rest.size(), 300u);
  EXPECT_EQ(rest.back(), (std::pair<std::string, std::string>(KeyOf(300), "later")));
  rest.pop_back();
  rest.insert(rest.begin(), pairs.front());
  EXPECT_TRUE(rest == pairs);
  while (strict->Next()) {
  }
  EXPECT_CODE(kAborted, strict->status());
}

TEST_P(RemoteScans, OneThatRestsForTooLongGoesOnAsOfALaterMoment) {
  StartInOrder(kSmallWindow);
  if (IsSkipped() || HasFatalFailure()) return;
  Fill(300);
  const auto any = Begin({.limit = 250});
  const auto strict = Begin({.one_moment = true});
  ASSERT_TRUE(any->Next());
  ASSERT_TRUE(strict->Next());
  ASSERT_CODE(kOk, kv_->client()->Ping());  // behind the requests for their next pages
  EXPECT_EQ(store().Read(Metric::kScanCursors), 2u);
  deployment_->Advance(std::chrono::seconds(kCursorSeconds + 2));
  ASSERT_NO_FATAL_FAILURE(ExpectCounter(Metric::kScanBufferBytes, 0));
  EXPECT_EQ(store().Read(Metric::kScanCursors), 0u) << "they go before the buffer";
  EXPECT_EQ(store().Read(Metric::kScanCursorsIdle), 2u);
  ASSERT_CODE(kOk, Delete(KeyOf(200)));
  const Pairs rest = Rest(*any);
  EXPECT_EQ(rest.size(), 249u) << "with the limit that was asked for";
  EXPECT_EQ(rest.back().first, KeyOf(250));
  while (strict->Next()) {
  }
  EXPECT_CODE(kAborted, strict->status());
}

TEST_P(RemoteScans, OnesThatAreNotShownToTheEndLeaveLittleBehind) {
  StartInOrder(kSmallWindow);
  if (IsSkipped() || HasFatalFailure()) return;
  const Pairs pairs = Fill(300);
  for (int i = 0; i < 50; ++i) {
    const auto scan = Begin({.reverse = i % 2 == 0});
    for (int steps = 0; steps < i; ++steps) ASSERT_TRUE(scan->Next());
    EXPECT_LE(store().Read(Metric::kScanCursors), 2u);
  }
  EXPECT_TRUE(All() == pairs);
  EXPECT_EQ(store().Read(Metric::kScanCursorsPushedOut), 0u);
  const std::unique_ptr<KeyValue> other = Connect();
  kv_.reset();
  kv_ = Connect();
  ASSERT_NO_FATAL_FAILURE(ExpectCounter(Metric::kScanBufferBytes, 0));
  EXPECT_EQ(store().Read(Metric::kScanCursors), 0u) << "they go before the buffer";
}

TEST_P(RemoteScans, AClientMayDoWithoutAWindow) {
  StartInOrder({.scan_window_bytes = 0});
  if (IsSkipped() || HasFatalFailure()) return;
  Fill(10);
  EXPECT_CODE(kFailedPrecondition, kv_->Scan({}).status());
  EXPECT_EQ(kv_->Count({.prefix = "key"}).value(), 10u);
  EXPECT_EQ(kv_->DeleteAll().value(), 10u);
  for (const std::size_t size : {std::size_t{1}, 2 * kMinPageSize - 1, 9 * kMiB}) {
    EXPECT_CODE(kInvalidArgument, deployment_->Connect({.scan_window_bytes = size}).status());
  }
  kv_ = Connect({.scan_window_bytes = 8 * kMiB});
  ASSERT_CODE(kOk, Put("key", "value"));
  EXPECT_EQ(All().size(), 1u);
}

// --- Tokens -----------------------------------------------------------------------------------------------

TEST_P(Scans, PagesByTokensGoOnWithOtherClientsAndServers) {
  StartInOrder();
  if (IsSkipped() || HasFatalFailure()) return;
  const Pairs pairs = Fill(100);
  for (const bool reverse : {false, true}) {
    Pairs shown;
    std::string token;
    for (bool more = true; more;) {
      auto scan = token.empty() ? Begin({.prefix = "key", .reverse = reverse, .limit = 13})
                                : Begin({.limit = 13, .resume_token = token});
      more = false;
      for (; scan->Next(); more = true) shown.emplace_back(scan->key(), scan->value());
      ASSERT_CODE(kOk, scan->status());
      token = scan->resume_token();
      scan.reset();  // before its client
      if (shown.size() == 39) {
        kv_ = Connect();
      }
    }
    if (reverse) std::reverse(shown.begin(), shown.end());
    EXPECT_TRUE(shown == pairs);
  }
  std::string token;
  {
    const auto scan = Begin();
    for (int i = 0; i < 60; ++i) ASSERT_TRUE(scan->Next());
    token = scan->resume_token();
  }
  if (!is_in_memory()) Restart();
  EXPECT_EQ(All({.resume_token = token}).size(), 40u);
  token[token.size() / 2] = token[token.size() / 2] == 'A' ? 'B' : 'A';
  EXPECT_CODE(kInvalidArgument, kv_->Scan({.resume_token = token}).status());
}

// --- Deleting ---------------------------------------------------------------------------------------------

TEST_P(Scans, DropsDeleteWhatIsThere) {
  StartInOrder();
  if (IsSkipped() || HasFatalFailure()) return;
  Fill(slow() ? 1000 : 5000);
  ASSERT_CODE(kOk, Put("other", "stays"));
  EXPECT_EQ(kv_->DeleteRange({.prefix = "key "}).value(), slow() ? 1000u : 5000u);
  EXPECT_EQ(Keys(), std::vector<std::string>{"other"});
  EXPECT_CODE(kNotFound, GetStatus(KeyOf(7)));
  ASSERT_CODE(kOk, Put(KeyOf(7), "again"));
  if (!is_in_memory()) Restart();
  EXPECT_EQ(Get(KeyOf(7)), "again");
  EXPECT_EQ(kv_->DeleteAll().value(), 2u);
  if (!is_in_memory()) Restart();
  EXPECT_TRUE(All().empty());
}

// --- While others write ----------------------------------------------------------------------------------

TEST_P(Scans, BatchesAreWholeWhileOthersWriteThem) {
  StartInOrder(kSmallWindow);
  if (IsSkipped() || HasFatalFailure()) return;
  if (!deployment_->concurrent()) GTEST_SKIP() << "nobody writes at the same time";
  constexpr int kKeys = 60;
  const std::unique_ptr<KeyValue> other = Connect();
  const auto apply = [&](int round) {
    WriteBatch batch;
    for (int i = 0; i < kKeys; ++i)
      batch.Put(KeyOf(i * 7 % kKeys), std::to_string(round) + std::string(300, 'b'));
    ASSERT_CODE(kOk, other->Apply(batch));
  };
  apply(0);
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    // Not for ever: a scan passes by all values that were overwritten, one by one.
    for (int round = 1; !stop && round <= 1000; ++round) apply(round);
  });
  for (int i = 0; i < (slow() ? 20 : 200); ++i) {
    const Pairs pairs = All({.reverse = i % 2 == 0});
    EXPECT_EQ(pairs.size(), std::size_t{kKeys});
    for (const auto& [key, value] : pairs) {
      EXPECT_TRUE(value == pairs.front().second) << key;
    }
    if (HasFailure()) break;
  }
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace remora
