// Scans in any order, of stores that are only in memory. Each scan shows each key that exists during the
// whole scan exactly once, whatever other callers do meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store/delete_range.h"
#include "store/format/memory/hash_order.h"
#include "store/format/types/scan_range.h"
#include "store/scan.h"
#include "store/server_store.h"
#include "test_files.h"
#include "tests/support/sizes.h"
#include "tests/support/test_clock.h"

namespace remora {
namespace {

using testing::HasSubstr;
using Map = std::map<std::string, std::string>;

TEST(HashOrder, IsThatOfTheBitsFromTheLowestOn) {
  EXPECT_EQ(ReverseBits(0), 0u);
  EXPECT_EQ(ReverseBits(2), std::uint64_t{1} << 62);
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t bits = random();
    std::uint64_t reversed = 0;
    for (int bit = 0; bit < 64; ++bit) reversed |= (bits >> bit & 1) << (63 - bit);
    ASSERT_EQ(ReverseBits(bits), reversed);
  }
}

// A walk can continue while buckets split, because each bucket holds the hashes of one interval in hash
// order, and its halves hold the halves of that interval.
TEST(HashOrder, HalvesOfABucketLieSideBySide) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t hash = random();
    const auto depth = static_cast<std::uint32_t>(1 + random() % 30);
    const std::uint64_t begin = ReverseBits(BucketAtDepth(hash, depth));
    const std::uint64_t size = std::uint64_t{1} << (64 - depth);
    ASSERT_LT(ReverseBits(hash) - begin, size);
    const std::uint64_t half = ReverseBits(BucketAtDepth(hash, depth + 1));
    ASSERT_TRUE(half == begin || half == begin + size / 2);
  }
}

class AnyOrderTest : public testing::Test {
 protected:
  void Open(std::size_t memory_size = 64 * kMiB, Eviction eviction = Eviction::kNone) {
    store_.reset();
    auto store = ServerStore::Open({.memory_size = memory_size,
                                    .eviction = eviction,
                                    .grace = std::chrono::milliseconds(kMinGraceMs),
                                    .clock = &clock_});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  void Put(const std::string& key, const std::string& value, const PutOptions& options = {}) {
    const absl::Status status = store_->Put(key, value, options);
    ASSERT_TRUE(status.ok()) << status;
  }
  std::unique_ptr<StoreScan> Begin(ScanOptions options = {}) {
    options.any_order = options.resume_token.empty();
    auto scan = store_->Scan(options);
    EXPECT_TRUE(scan.ok()) << scan.status();
    return *std::move(scan);
  }
  /// Returns the entries that the scan has yet to show. Checks that it shows each key once, in hash order.
  static Map Rest(StoreScan& scan) {
    Map shown;
    std::string last;
    while (scan.Next()) {
      EXPECT_TRUE(last.empty() || ComesBeforeByHash(last, scan.key()));
      last = scan.key();
      EXPECT_TRUE(shown.emplace(scan.key(), scan.value()).second) << "twice: " << scan.key();
    }
    EXPECT_TRUE(scan.status().ok()) << scan.status();
    EXPECT_FALSE(scan.Next()) << "an end is the end";
    return shown;
  }
  Map All(const ScanOptions& options = {}) { return Rest(*Begin(options)); }
  static std::string KeyOf(int i) { return "key " + std::to_string(100'000 + i); }

  ShiftedClock clock_;
  std::unique_ptr<ServerStore> store_;
};

TEST_F(AnyOrderTest, AnEmptyStoreHasNothing) {
  Open();
  EXPECT_TRUE(All().empty());
  EXPECT_TRUE(All({.prefix = "k", .limit = 1}).empty());
  EXPECT_EQ(store_->Count({.prefix = "k"}).value(), 0u);
}

TEST_F(AnyOrderTest, AgreesWithAMap) {
  Open();
  std::mt19937 random(1);
  Map map;
  for (int i = 0; i < 3000; ++i) {
    std::string key(1 + random() % 3, '\0');
    for (char& byte : key) byte = static_cast<char>(random() % 6 * 51);
    const std::size_t sizes[] = {0, 10, 1000, 20'000};
    const std::string value(sizes[random() % 4], static_cast<char>('a' + i % 26));
    if (random() % 4 == 0) {
      store_->Delete(key).IgnoreError();
      map.erase(key);
    } else {
      ASSERT_NO_FATAL_FAILURE(Put(key, value));
      map[key] = value;
    }
  }
  ASSERT_TRUE(All() == map);
  const auto bound = [&] {
    return random() % 2 == 0 ? std::string()
                             : std::string(1 + random() % 2, static_cast<char>(random() % 6 * 51));
  };
  for (int i = 0; i < 500; ++i) {
    const std::string prefix = bound(), begin = bound(), end = bound();
    const bool keys_only = random() % 4 == 0;
    Map expected;
    for (const auto& [key, value] : map) {
      if (!key.starts_with(prefix) || key < begin || (!end.empty() && key >= end)) continue;
      expected[key] = keys_only ? "" : value;
    }
    ScanOptions options{.prefix = prefix, .begin = begin, .end = end, .keys_only = keys_only};
    ASSERT_TRUE(All(options) == expected) << i;
    ASSERT_EQ(store_->Count({.prefix = prefix, .begin = begin, .end = end}).value(), expected.size());
    // The same scan in pages, each of which continues from the resume token of the page before.
    Map pages;
    std::string token;
    for (bool more = true; more;) {
      ScanOptions page = options;
      if (!token.empty()) page = {.keys_only = keys_only, .resume_token = token};
      page.limit = 1 + random() % 7;
      const auto scan = Begin(page);
      const Map shown = Rest(*scan);
      token = scan->resume_token();
      more = !shown.empty();
      for (const auto& entry : shown) ASSERT_TRUE(pages.insert(entry).second) << "twice: " << entry.first;
    }
    ASSERT_TRUE(pages == expected) << i;
  }
}

TEST_F(AnyOrderTest, ShowsVersionsAndExpiriesAndNothingThatIsOver) {
  Open();
  std::uint64_t version = 0;
  ASSERT_NO_FATAL_FAILURE(Put("for a while", "1", {.ttl = std::chrono::hours(1), .version = &version}));
  ASSERT_NO_FATAL_FAILURE(Put("for ever", "2"));
  ASSERT_NO_FATAL_FAILURE(Put("not for long", "3", {.ttl = std::chrono::minutes(1)}));
  clock_.Advance(std::chrono::minutes(2));
  const auto scan = Begin({.begin = "for a", .end = "for b"});
  ASSERT_TRUE(scan->Next());
  EXPECT_EQ(scan->version(), version);
  EXPECT_GT(scan->expiry_ms(), 0u);
  EXPECT_EQ(All(), (Map{{"for a while", "1"}, {"for ever", "2"}}));
  EXPECT_EQ(store_->Count({.begin = "a"}).value(), 2u);
}

TEST_F(AnyOrderTest, LargeValuesAreShownWhole) {
  Open(128 * kMiB);
  Map map;
  for (const std::size_t size : {kMaxSmallValueSize, kMaxSmallValueSize + 1, 3 * kMiB, 20 * kMiB}) {
    map[std::to_string(size)] = std::string(size, static_cast<char>('a' + size % 7));
    ASSERT_NO_FATAL_FAILURE(Put(std::to_string(size), map[std::to_string(size)]));
  }
  EXPECT_TRUE(All() == map);
}

// --- What happens meanwhile -------------------------------------------------------------------------------

// The index grows from a hundred buckets to some thousands during the scan.
TEST_F(AnyOrderTest, EachKeyIsShownOnceWhileTheIndexGrows) {
  Open();
  constexpr int kStay = 2000, kAdded = 60'000;
  for (int i = 0; i < kStay; ++i) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), std::to_string(i)));
  const std::uint64_t buckets = store_->Read(Metric::kIndexBuckets);
  const auto scan = Begin();
  std::set<std::string> shown;
  int added = 0;
  while (scan->Next()) {
    ASSERT_TRUE(shown.insert(std::string(scan->key())).second) << "twice: " << scan->key();
    for (int i = 0; i < 20 && added < kAdded; ++i)
      ASSERT_NO_FATAL_FAILURE(Put(KeyOf(kStay + added++), "added"));
  }
  EXPECT_GT(store_->Read(Metric::kIndexBuckets), 8 * buckets);
  for (int i = 0; i < kStay; ++i) ASSERT_TRUE(shown.contains(KeyOf(i))) << i;
  EXPECT_GT(shown.size(), std::size_t{kStay}) << "and some of the others";
}

// Every second key is deleted and put again, so its entry moves between slots, and chains become shorter.
TEST_F(AnyOrderTest, KeysThatComeAndGoLeaveTheOthersAlone) {
  Open();
  constexpr int kKeys = 6000;
  for (int i = 0; i < kKeys; ++i) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), "value"));
  std::mt19937 random(3);
  const auto scan = Begin({.keys_only = true});
  std::set<std::string> shown;
  while (scan->Next()) {
    ASSERT_TRUE(shown.insert(std::string(scan->key())).second) << "twice: " << scan->key();
    for (int i = 0; i < 5; ++i) {
      const std::string key = KeyOf(static_cast<int>(random() % (kKeys / 2)) * 2);
      if (!store_->Delete(key).ok()) {
        ASSERT_NO_FATAL_FAILURE(Put(key, "again"));
      }
    }
  }
  for (int i = 1; i < kKeys; i += 2) ASSERT_TRUE(shown.contains(KeyOf(i))) << i;
}

TEST_F(AnyOrderTest, EachKeyIsShownOnceWhileItsRecordIsMoved) {
  Open(kMinMemorySize);
  constexpr int kKeys = 3000;
  const std::string value(1000, 'v');
  for (int i = 0; i < kKeys; ++i) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), value));
  const std::uint64_t cleaned = store_->Read(Metric::kSegmentsCleaned);
  std::mt19937 random(4);
  const auto scan = Begin();
  Map shown;
  while (scan->Next()) {
    ASSERT_TRUE(shown.emplace(scan->key(), scan->value()).second) << "twice: " << scan->key();
    // Other writes overwrite every third key again and again,
    // so that the cleaner moves the records of the others.
    for (int i = 0; i < 10; ++i) {
      ASSERT_NO_FATAL_FAILURE(Put(KeyOf(static_cast<int>(random() % (kKeys / 3)) * 3), value));
    }
  }
  EXPECT_GT(store_->Read(Metric::kSegmentsCleaned), cleaned + 5);
  ASSERT_EQ(shown.size(), std::size_t{kKeys});
  for (const auto& [key, shown_value] : shown) ASSERT_TRUE(shown_value == value);
}

TEST_F(AnyOrderTest, KeysThatStayInMemoryAreShown) {
  Open(kMinMemorySize, Eviction::kLeastUsed);
  const std::string value(2000, 'v');
  int next = 0;
  while (store_->Read(Metric::kEvictions) == 0) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(next++), value));
  const auto scan = Begin();
  std::set<std::string> shown;
  while (scan->Next()) {
    ASSERT_TRUE(shown.insert(std::string(scan->key())).second) << "twice: " << scan->key();
    if (shown.size() % 4 == 0) {
      ASSERT_NO_FATAL_FAILURE(Put(KeyOf(next++), value));
    }
  }
  const std::uint64_t evicted = store_->Read(Metric::kEvictions);
  EXPECT_GT(evicted, 100u);
  // Each of these keys was written once, before the scan began.
  // So a key that still exists also existed during the scan.
  int there = 0;
  for (int i = 0; i < next; ++i) {
    if (!store_->Exists(KeyOf(i)).value()) continue;
    ++there;
    if (i < next - static_cast<int>(shown.size() / 4)) {
      ASSERT_TRUE(shown.contains(KeyOf(i))) << i;
    }
  }
  EXPECT_GT(there, 100);
}

// One thread writes, another one scans.
TEST_F(AnyOrderTest, EachKeyIsShownOnceWhileAnotherThreadWrites) {
  Open();
  constexpr int kStay = 3000;
  for (int i = 0; i < kStay; ++i) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), std::string(50, 'v')));
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int i = 0; !stop && i < 200'000; ++i) {
      EXPECT_TRUE(store_->Put(KeyOf(i % 3 == 0 ? i % kStay : kStay + i), std::string(50, 'w')).ok());
    }
  });
  for (int round = 0; round < 10; ++round) {
    const Map shown = All({.end = KeyOf(kStay)});
    EXPECT_EQ(shown.size(), std::size_t{kStay});
    for (const auto& [key, value] : shown) {
      EXPECT_TRUE(value == std::string(50, 'v') || value == std::string(50, 'w')) << key;
    }
  }
  stop = true;
  writer.join();
}

// --- Going on later ---------------------------------------------------------------------------------------

// The second store has fewer buckets, so the bucket of the token's key begins before that key.
TEST_F(AnyOrderTest, ATokenGoesOnInAStoreOfAnySize) {
  const auto token_after = [&](int shown) {
    const auto scan = Begin();
    for (int i = 0; i < shown; ++i) EXPECT_TRUE(scan->Next());
    return std::pair(scan->resume_token(), std::string(scan->key()));
  };
  Open();
  for (int i = 0; i < 20'000; ++i) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), "large"));
  std::vector<std::pair<std::string, std::string>> tokens;
  for (const int shown : {1, 777, 10'000, 19'999, 20'000}) tokens.push_back(token_after(shown));
  Open();
  for (int i = 0; i < 500; ++i) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), "small"));
  for (const auto& [token, last] : tokens) {
    const Map shown = Rest(*Begin({.resume_token = token}));
    for (int i = 0; i < 500; ++i) {
      ASSERT_EQ(shown.contains(KeyOf(i)), ComesBeforeByHash(last, KeyOf(i))) << i;
    }
  }
}

// Each call of Advance does a bounded amount of work. A scan
// of many keys takes many calls, even if it shows none.
TEST_F(AnyOrderTest, AdvanceDoesABoundedAmountOfWork) {
  Open();
  for (int i = 0; i < 5000; ++i) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), "value"));
  const auto scan = Begin({.prefix = "none of these"});
  int steps = 0;
  while (scan->Advance() == StoreScan::Step::kNotYet) ++steps;
  EXPECT_GT(steps, 5000);
  EXPECT_LT(steps, 11'000);
}

TEST_F(AnyOrderTest, ContradictoryOptionsAreRejected) {
  Open();
  ASSERT_NO_FATAL_FAILURE(Put("key", "value"));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->Scan({.reverse = true, .any_order = true}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->Scan({.any_order = true, .one_moment = true}).status()));
  const std::string token = Begin()->resume_token();
  EXPECT_TRUE(absl::IsInvalidArgument(store_->Scan({.any_order = true, .resume_token = token}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->Scan({.resume_token = token, .one_moment = true}).status()));
  EXPECT_EQ(Rest(*Begin({.resume_token = token})).size(), 1u);
  // A store in memory has no order of keys. A token of a
  // scan by hash is not valid in a store with another order.
  ScanRange ordered{.begin = "k"};
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->Scan({.resume_token = MakeScanToken(ordered)}).status()));
  const auto shown = Begin();
  ASSERT_TRUE(shown->Next());
  const TempDir temp;
  const auto logged = ServerStore::Open(LoggedIn(temp / "store"));
  ASSERT_TRUE(logged.ok()) << logged.status();
  const absl::Status status = (*logged)->Scan({.resume_token = shown->resume_token()}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("start a new scan"));
}

TEST(ScanTokens, OfAnyOrderSayWhatIsLeft) {
  for (const char* after : {"", "key"}) {
    const ScanRange range{.begin = "a", .end = "z", .by_hash = true, .after = after};
    const std::string token = MakeScanToken(range);
    EXPECT_EQ(ReadScanToken(token), range);
    for (std::size_t cut = 1; cut < token.size(); ++cut) EXPECT_FALSE(ReadScanToken(token.substr(cut)));
  }
  const ScanRange longest{
      .end = std::string(kMaxBoundSize, 'e'), .by_hash = true, .after = std::string(kMaxKeySize, 'k')};
  EXPECT_EQ(ReadScanToken(MakeScanToken(longest)), longest);
  ScanRange wrong = longest;
  wrong.after += 'k';
  EXPECT_FALSE(ReadScanToken(MakeScanToken(wrong))) << "that is no key";
  wrong = {.after = "key"};
  EXPECT_FALSE(ReadScanToken(MakeScanToken(wrong))) << "it is not by hash";
  wrong = {.reverse = true, .by_hash = true};
  EXPECT_FALSE(ReadScanToken(MakeScanToken(wrong))) << "there is no such order";
}

// DeleteRange finds its keys with the same walk.
TEST_F(AnyOrderTest, ADropWhileTheIndexGrowsDeletesAllThatWasThere) {
  Open();
  constexpr int kThere = 3000;
  for (int i = 0; i < kThere; ++i) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), "value"));
  const auto deletion = store_->BeginDeleteRange({});
  ASSERT_TRUE(deletion.ok());
  int added = 0;
  for (bool more = true; more;) {
    const absl::StatusOr<bool> step = (*deletion)->Step();
    ASSERT_TRUE(step.ok()) << step.status();
    more = *step;
    for (int i = 0; i < 300; ++i) ASSERT_NO_FATAL_FAILURE(Put("added " + std::to_string(added++), "later"));
  }
  EXPECT_EQ((*deletion)->deleted(), std::uint64_t{kThere});
  EXPECT_EQ(store_->Count().value(), static_cast<std::uint64_t>(added));
  EXPECT_EQ(store_->Count({.prefix = "added"}).value(), static_cast<std::uint64_t>(added));
}

}  // namespace
}  // namespace remora
