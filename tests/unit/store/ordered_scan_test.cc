// Scans over the ordered index of a store that is only in memory: each shows one moment, whatever is written
// meanwhile, or says that it cannot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "store/delete_range.h"
#include "store/format/types/scan_range.h"
#include "store/ordered/ordered_index.h"
#include "store/scan.h"
#include "store/server_store.h"
#include "tests/support/sizes.h"
#include "tests/support/test_clock.h"

namespace remora {
namespace {

using testing::HasSubstr;
using Shown = std::vector<std::pair<std::string, std::string>>;
using Contents = std::map<std::string, std::string>;

class OrderedScanTest : public testing::Test {
 protected:
  void Open(std::size_t memory_size = 64 * kMiB, Eviction eviction = Eviction::kNone) {
    auto store = ServerStore::Open({.memory_size = memory_size,
                                    .eviction = eviction,
                                    .ordered_index = true,
                                    .grace = std::chrono::milliseconds(kMinGraceMs),
                                    .clock = &clock_});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  void Put(const std::string& key, const std::string& value, const PutOptions& options = {}) {
    const absl::Status status = store_->Put(key, value, options);
    ASSERT_TRUE(status.ok()) << status;
  }
  std::unique_ptr<StoreScan> Begin(const ScanOptions& options = {}) {
    auto scan = store_->Scan(options);
    EXPECT_TRUE(scan.ok()) << scan.status();
    return *std::move(scan);
  }
  static Shown Rest(StoreScan& scan) {
    Shown shown;
    while (scan.Next()) shown.emplace_back(scan.key(), scan.value());
    EXPECT_TRUE(scan.status().ok()) << scan.status();
    return shown;
  }
  std::uint64_t SavedBytes() {
    while (store_->RunMaintenance()) {
    }
    return store_->Read(Metric::kScanSavedBytes);
  }
  static std::string KeyOf(int i) { return "key " + std::to_string(100'000 + i); }
  void Fill(int count, const std::string& value) {
    for (int i = 0; i < count; ++i) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), value));
  }

  ShiftedClock clock_;
  std::unique_ptr<ServerStore> store_;
};

// --- One moment -----------------------------------------------------------------------------------------

/// A scan in flight, and the entries that it has yet to show.
struct ScanInFlight {
  std::unique_ptr<StoreScan> scan;
  Shown rest;
  std::size_t next = 0;
};

Shown InRange(const Contents& contents, const ScanOptions& options) {
  ScanRange range;
  EXPECT_EQ(ResolveScan(options, &range), nullptr);
  Shown shown;
  for (const auto& [key, value] : contents) {
    if (range.Contains(key)) shown.emplace_back(key, options.keys_only ? "" : value);
  }
  if (options.reverse) std::reverse(shown.begin(), shown.end());
  if (options.limit != 0 && shown.size() > options.limit) shown.resize(options.limit);
  return shown;
}

// Scans of all kinds in turns with writes of all kinds. Few keys, so that most writes meet a key that some
// scan has yet to show.
TEST_F(OrderedScanTest, EachScanShowsTheMomentAtWhichItBegan) {
  Open();
  std::mt19937 random(7);
  Contents contents;
  std::vector<ScanInFlight> scans;
  const auto any_key = [&] { return "k" + std::to_string(random() % 300); };
  const auto change = [&] {
    const std::string key = any_key();
    const std::string value(random() % 200, static_cast<char>('a' + random() % 26));
    switch (random() % 8) {
      case 0:
      case 1:
        EXPECT_EQ(store_->Delete(key).ok(), contents.erase(key) == 1);
        return;
      case 2: {
        WriteBatch batch;
        for (const std::string& each : {key, any_key() + "x", any_key() + "y"}) {
          batch.Put(each, value);
          contents[each] = value;
        }
        ASSERT_TRUE(store_->Apply(batch).ok());
        return;
      }
      case 3:
        ASSERT_TRUE(store_->Append(key, "more").ok());
        contents[key] += "more";
        return;
      case 4: {
        if (random() % 16 != 0) return;
        const std::string end = key + "9";
        ASSERT_TRUE(store_->DeleteRange({.begin = key, .end = end}).ok());
        contents.erase(contents.lower_bound(key), contents.lower_bound(end));
        return;
      }
      default:
        ASSERT_NO_FATAL_FAILURE(Put(key, value));
        contents[key] = value;
    }
  };
  for (int i = 0; i < 30'000; ++i) {
    ASSERT_NO_FATAL_FAILURE(change());
    if (scans.size() < 8 && random() % 20 == 0) {
      const std::string begin = random() % 2 == 0 ? any_key() : "";
      const std::string end = random() % 3 == 0 ? any_key() : "";
      ScanOptions options{.begin = begin, .end = end};
      options.reverse = random() % 2 == 0;
      options.keys_only = random() % 4 == 0;
      options.limit = random() % 3 == 0 ? 1 + random() % 150 : 0;
      scans.push_back({Begin(options), InRange(contents, options)});
    }
    for (auto it = scans.begin(); it != scans.end();) {
      bool is_over = false;
      for (std::size_t steps = random() % 3; steps > 0 && !is_over; --steps) {
        is_over = !it->scan->Next();
        ASSERT_EQ(is_over, it->next == it->rest.size());
        if (is_over) break;
        ASSERT_EQ(std::pair(std::string(it->scan->key()), std::string(it->scan->value())),
                  it->rest[it->next]);
        ++it->next;
      }
      ASSERT_TRUE(it->scan->status().ok()) << it->scan->status();
      it = is_over || random() % 500 == 0 ? scans.erase(it) : std::next(it);
    }
  }
  scans.clear();
  EXPECT_EQ(SavedBytes(), 0u);
  EXPECT_EQ(Rest(*Begin()), InRange(contents, {}));
}

TEST_F(OrderedScanTest, AKeyThatComesAndGoesDuringAScanIsNotShown) {
  Open();
  ASSERT_NO_FATAL_FAILURE(Fill(3, "old"));
  const auto forth = Begin();
  const auto back = Begin({.reverse = true});
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(1) + "x", "between"));
  ASSERT_TRUE(store_->Delete(KeyOf(1) + "x").ok());
  ASSERT_TRUE(store_->Delete(KeyOf(0)).ok());
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(0), "again"));
  const Shown old = {{KeyOf(0), "old"}, {KeyOf(1), "old"}, {KeyOf(2), "old"}};
  EXPECT_EQ(Rest(*forth), old);
  EXPECT_EQ(Rest(*back), Shown(old.rbegin(), old.rend()));
}

TEST_F(OrderedScanTest, RecordsThatExpireOrAreEvictedAreThoseOfTheMoment) {
  Open(kMinMemorySize, Eviction::kLeastUsed);
  ASSERT_NO_FATAL_FAILURE(Put("expires", "v", {.ttl = std::chrono::minutes(1)}));
  ASSERT_NO_FATAL_FAILURE(Put("stays", "v"));
  const auto expired = Begin();
  clock_.Advance(std::chrono::minutes(2));
  while (store_->RunMaintenance()) {
  }
  ASSERT_EQ(store_->Read(Metric::kExpired), 1u);
  EXPECT_EQ(Rest(*expired), (Shown{{"stays", "v"}})) << "its time is over";
  const auto evicted = Begin();
  for (int i = 0; store_->Read(Metric::kEvictions) < 200; ++i) {
    ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), std::string(9000, 'e')));
  }
  EXPECT_EQ(Rest(*evicted), (Shown{{"stays", "v"}}));
  // V4: the keys of the index are those with a record.
  const auto scan = Begin();
  std::uint64_t shown = 0;
  for (; scan->Next(); ++shown) ASSERT_TRUE(store_->Exists(scan->key()).value());
  ASSERT_TRUE(scan->status().ok()) << scan->status();
  EXPECT_EQ(shown, store_->Count().value());
  EXPECT_EQ(store_->Count({.begin = "a"}).value(), shown);
}

// --- Bounds ---------------------------------------------------------------------------------------------

TEST_F(OrderedScanTest, AScanIsGivenUpWhenMoreIsWrittenThanTheStoreKeeps) {
  Open(kMinMemorySize);  // of which scans may keep 256 KiB
  const std::string value(2000, 'o');
  ASSERT_NO_FATAL_FAILURE(Fill(400, value));
  const auto scan = Begin();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(scan->Next());
  for (int i = 0; i < 100; ++i) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(399 - i), "new"));
  const auto small = Begin({.begin = KeyOf(390)});
  EXPECT_GT(SavedBytes(), 100u * 2000);
  EXPECT_EQ(store_->Read(Metric::kScansOvertaken), 0u);
  for (int i = 100; i < 380; ++i) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(399 - i), "new"));
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(395), "newer"));
  EXPECT_LT(SavedBytes(), 10'000u);
  EXPECT_EQ(store_->Read(Metric::kScansOvertaken), 1u);
  std::string last(scan->key());
  int shown = 10;
  for (; scan->Next(); ++shown) {
    EXPECT_EQ(scan->value(), value) << "the entries that it had copied are of its moment";
    last = scan->key();
  }
  EXPECT_LT(shown, 100);
  EXPECT_TRUE(absl::IsAborted(scan->status())) << scan->status();
  EXPECT_THAT(std::string(scan->status().message()), HasSubstr("resume_token"));
  EXPECT_FALSE(scan->Next());
  const auto rest = Begin({.resume_token = scan->resume_token()});
  EXPECT_EQ(Rest(*rest).size(), 400u - static_cast<std::size_t>(shown));
  Shown of_small;
  for (int i = 390; i < 400; ++i) of_small.emplace_back(KeyOf(i), "new");
  EXPECT_EQ(Rest(*small), of_small) << "only the largest one is given up";
}

TEST_F(OrderedScanTest, AValueThatNoScanMayKeepGivesThemUp) {
  Open(64 * kMiB);
  ASSERT_NO_FATAL_FAILURE(Put("large", std::string(3 * kMiB, 'l')));
  ASSERT_NO_FATAL_FAILURE(Put("small", "s"));
  const auto with_it = Begin();
  const auto behind_it = Begin({.begin = "m"});
  ASSERT_NO_FATAL_FAILURE(Put("large", "new"));
  EXPECT_FALSE(with_it->Next());
  EXPECT_TRUE(absl::IsAborted(with_it->status())) << with_it->status();
  EXPECT_EQ(Rest(*behind_it), (Shown{{"small", "s"}}));
  EXPECT_EQ(SavedBytes(), 0u);
}

TEST_F(OrderedScanTest, OneScanMoreThanTheStoreKeepsGivesTheOldestUp) {
  Open();
  ASSERT_NO_FATAL_FAILURE(Fill(2, "v"));
  std::vector<std::unique_ptr<StoreScan>> scans;
  for (std::size_t i = 0; i < OrderedIndex::kMaxViews + 1; ++i) scans.push_back(Begin());
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(0), "new"));
  EXPECT_FALSE(scans[0]->Next());
  EXPECT_TRUE(absl::IsAborted(scans[0]->status())) << scans[0]->status();
  for (std::size_t i = 1; i < scans.size(); ++i) {
    ASSERT_TRUE(scans[i]->Next());
    EXPECT_EQ(scans[i]->value(), "v");
  }
  scans.clear();
  EXPECT_EQ(SavedBytes(), 0u);
}

// --- Counts, deletions and options ----------------------------------------------------------------------

TEST_F(OrderedScanTest, CountsAreThoseOfTheScan) {
  Open();
  ASSERT_NO_FATAL_FAILURE(Fill(1000, "v"));
  EXPECT_EQ(store_->Count({.begin = KeyOf(10), .end = KeyOf(990)}).value(), 980u);
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(20), "v", {.ttl = std::chrono::minutes(1)}));
  EXPECT_EQ(Begin({.prefix = "key"})->CountAtOnce(), 1000u);
  EXPECT_EQ(Begin({.prefix = "key", .limit = 7})->CountAtOnce(), 7u);
  EXPECT_EQ(Begin({.begin = "b", .end = "a"})->CountAtOnce(), 0u);
  const auto changed = Begin();
  ASSERT_TRUE(store_->Delete(KeyOf(0)).ok());
  EXPECT_EQ(changed->CountAtOnce(), std::nullopt);
  EXPECT_EQ(Rest(*changed).size(), 1000u);
  clock_.Advance(std::chrono::minutes(2));
  EXPECT_EQ(Begin()->CountAtOnce(), std::nullopt) << "a record has expired, and is not removed yet";
  EXPECT_EQ(store_->Count({.prefix = "key"}).value(), 998u);
}

TEST_F(OrderedScanTest, ADeletionLooksOnlyAtItsRange) {
  Open();
  ASSERT_NO_FATAL_FAILURE(Fill(5000, "v"));
  const auto deletion = store_->BeginDeleteRange({.begin = KeyOf(1000), .end = KeyOf(1700)});
  ASSERT_TRUE(deletion.ok()) << deletion.status();
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(1600), "later"));
  int steps = 1;
  for (; (*deletion)->Step().value(); ++steps) {
  }
  EXPECT_LE(steps, 4);
  EXPECT_EQ((*deletion)->deleted(), 699u);
  EXPECT_EQ(Rest(*Begin({.begin = KeyOf(999), .end = KeyOf(1701)})),
            (Shown{{KeyOf(999), "v"}, {KeyOf(1600), "later"}, {KeyOf(1700), "v"}}));
  EXPECT_EQ(store_->DeleteAll().value(), 4301u);
  EXPECT_TRUE(Rest(*Begin()).empty());
}

TEST_F(OrderedScanTest, AScanInAnyOrderIsInOrder) {
  Open();
  ASSERT_NO_FATAL_FAILURE(Fill(200, "v"));
  const auto scan = Begin({.any_order = true});
  EXPECT_FALSE(scan->by_hash());
  const Shown shown = Rest(*scan);
  EXPECT_EQ(shown.size(), 200u);
  EXPECT_TRUE(std::is_sorted(shown.begin(), shown.end()));
  // A token of a store without an ordered index continues in its order.
  const auto by_hash = Begin({.resume_token = MakeScanToken({.by_hash = true, .after = KeyOf(5)})});
  EXPECT_TRUE(by_hash->by_hash());
  EXPECT_LT(Rest(*by_hash).size(), 200u);
}

TEST_F(OrderedScanTest, TheIndexGrowsAndShrinksWithTheKeys) {
  Open();
  ASSERT_NO_FATAL_FAILURE(Fill(20'000, "v"));
  SavedBytes();
  const std::uint64_t full = store_->Read(Metric::kOrderedIndexBytes);
  EXPECT_GT(full, 20'000u);
  EXPECT_LT(full, 24u * 20'000);
  ASSERT_EQ(store_->DeleteAll().value(), 20'000u);
  SavedBytes();
  EXPECT_LT(store_->Read(Metric::kOrderedIndexBytes), 16'384u);
}

}  // namespace
}  // namespace remora
