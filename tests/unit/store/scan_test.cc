// Scans of a store, and counts.
#include "store/scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "scan_fixture.h"
#include "store/server_store.h"
#include "tests/support/sanitizers.h"

namespace remora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using ScanPairs = std::vector<std::pair<std::string, std::string>>;
using ScanMap = std::map<std::string, std::string>;

std::unique_ptr<StoreScan> BeginScan(ServerStore& store, const ScanOptions& options = {}) {
  absl::StatusOr<std::unique_ptr<StoreScan>> scan = store.Scan(options);
  EXPECT_TRUE(scan.ok()) << scan.status();
  return *std::move(scan);
}

ScanPairs RestOfScan(StoreScan& scan) {
  ScanPairs pairs;
  while (scan.Next()) pairs.emplace_back(scan.key(), scan.value());
  EXPECT_TRUE(scan.status().ok()) << scan.status();
  EXPECT_FALSE(scan.Next()) << "an end is the end";
  return pairs;
}
ScanPairs AllShown(ServerStore& store, const ScanOptions& options = {}) {
  return RestOfScan(*BeginScan(store, options));
}

std::vector<std::string> KeysShown(ServerStore& store, const ScanOptions& options = {}) {
  std::vector<std::string> keys;
  for (auto& [key, value] : AllShown(store, options)) keys.push_back(key);
  return keys;
}

ScanPairs ExpectedPairs(const ScanMap& map, const ScanOptions& options) {
  ScanPairs pairs;
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

/// The part of the scanned store that has the order.
enum class OrderBy : std::uint8_t { kRocksdbLog = 1, kCommitLog = 2, kOrderedIndex = 3, kOrderedOnDisk = 4 };

class ScanTest : public ScanFixture, public testing::WithParamInterface<OrderBy> {
 protected:
  ScanTest() : ScanFixture(GetParam() == OrderBy::kRocksdbLog ? 0 : kSomeCommitLog) {}

  StoreOptions InOrder() {
    if (GetParam() != OrderBy::kOrderedIndex) return WithDisk();
    return {.memory_size = LoggedIn({}).memory_size, .ordered_index = true};
  }
  StoreOptions WithDisk() {
    StoreOptions options = Logged();
    options.ordered_index = GetParam() == OrderBy::kOrderedOnDisk;
    return options;
  }
};
std::string NameOfScanned(const testing::TestParamInfo<OrderBy>& info) {
  switch (info.param) {
    case OrderBy::kRocksdbLog:
      return "RocksdbLog";
    case OrderBy::kCommitLog:
      return "CommitLog";
    case OrderBy::kOrderedIndex:
      return "OrderedIndex";
    default:
      return "OrderedOnDisk";
  }
}
constexpr auto kAllOrders = {OrderBy::kRocksdbLog, OrderBy::kCommitLog, OrderBy::kOrderedIndex,
                             OrderBy::kOrderedOnDisk};
constexpr auto kLoggedOrders = {OrderBy::kRocksdbLog, OrderBy::kCommitLog, OrderBy::kOrderedOnDisk};
INSTANTIATE_TEST_SUITE_P(All, ScanTest, testing::ValuesIn(kAllOrders), NameOfScanned);
/// Scans of a store with a disk.
class LoggedScanTest : public ScanTest {};
INSTANTIATE_TEST_SUITE_P(All, LoggedScanTest, testing::ValuesIn(kLoggedOrders), NameOfScanned);

TEST_P(ScanTest, AnEmptyStoreHasNothing) {
  Open(InOrder());
  EXPECT_THAT(KeysShown(*store_), IsEmpty());
  EXPECT_THAT(KeysShown(*store_, {.reverse = true}), IsEmpty());
  EXPECT_EQ(store_->Count().value(), 0u);
  EXPECT_EQ(store_->Count({.prefix = "k"}).value(), 0u);
  EXPECT_EQ(store_->DeleteAll().value(), 0u);
}

// Bounds of all kinds, also some that are not valid keys, over keys that are hard to tell apart.
TEST_P(ScanTest, AgreesWithAMap) {
  Open(InOrder());
  std::mt19937 random(1);
  const std::string letters("\0a\x7f\x80\xff", 5);
  const auto some_bytes = [&](std::size_t least) {
    std::string bytes(least + random() % 4, '\0');
    for (char& byte : bytes) byte = letters[random() % letters.size()];
    return bytes;
  };
  ScanMap map;
  for (int i = 0; i < 500; ++i) {
    const std::string key = some_bytes(1);
    ASSERT_NO_FATAL_FAILURE(Put(key, std::to_string(i)));
    map[key] = std::to_string(i);
  }
  for (int i = 0; i < 4000; ++i) {
    const std::string prefix = random() % 2 == 0 ? some_bytes(0) : "";
    const std::string begin = random() % 2 == 0 ? some_bytes(0) : "";
    const std::string end = random() % 2 == 0 ? some_bytes(0) : "";
    ScanOptions options{.prefix = prefix, .begin = begin, .end = end};
    options.reverse = random() % 2 == 0;
    options.keys_only = random() % 4 == 0;
    const std::size_t all = ExpectedPairs(map, options).size();
    EXPECT_EQ(store_->Count({.prefix = prefix, .begin = begin, .end = end}).value(), all);
    const std::size_t limits[] = {0, 1, all, all + 1, all > 1 ? all - 1 : 1};
    options.limit = limits[random() % 5];
    ASSERT_EQ(AllShown(*store_, options), ExpectedPairs(map, options)) << i;
  }
}

TEST_P(ScanTest, APrefixOfTheLastBytesThereAre) {
  Open(InOrder());
  for (const char* key : {"\xfe\xff", "\xff", "\xff\xff", "\xff\xff\x01", "\xff\x01"}) {
    ASSERT_NO_FATAL_FAILURE(Put(key, "value"));
  }
  EXPECT_THAT(KeysShown(*store_, {.prefix = "\xff\xff"}), ElementsAre("\xff\xff", "\xff\xff\x01"));
  EXPECT_THAT(KeysShown(*store_, {.prefix = "\xff\xff", .reverse = true}),
              ElementsAre("\xff\xff\x01", "\xff\xff"));
  EXPECT_THAT(KeysShown(*store_, {.prefix = "\xfe\xff"}), ElementsAre("\xfe\xff"));
}

TEST_P(ScanTest, EmptyRangesShowNothing) {
  Open(InOrder());
  ASSERT_NO_FATAL_FAILURE(Put("b", "value"));
  for (const bool reverse : {false, true}) {
    EXPECT_THAT(KeysShown(*store_, {.begin = "b", .end = "b", .reverse = reverse}), IsEmpty());
    EXPECT_THAT(KeysShown(*store_, {.begin = "c", .end = "a", .reverse = reverse}), IsEmpty());
    EXPECT_THAT(KeysShown(*store_, {.prefix = "a", .begin = "b", .reverse = reverse}), IsEmpty());
    EXPECT_THAT(KeysShown(*store_, {.prefix = "b", .end = "a", .reverse = reverse}), IsEmpty());
  }
}

TEST_P(ScanTest, OptionsOutOfBoundsAreRejected) {
  Open(InOrder());
  const std::string long_bound(kMaxKeySize + 2, 'k');
  EXPECT_TRUE(absl::IsInvalidArgument(store_->Scan({.prefix = long_bound}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->Count({.end = long_bound}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->DeleteRange({.begin = long_bound}).status()));
  ASSERT_NO_FATAL_FAILURE(Put("key", "value"));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->DeleteRange({}).status())) << "that would be all";
  EXPECT_EQ(Get("key"), "value");
}

TEST_P(ScanTest, AStoreInMemoryHasNoOrderAndSaysWhatToDo) {
  Open({.memory_size = kMinMemorySize});
  const absl::Status status = store_->Scan().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("logged"), HasSubstr("any_order"), HasSubstr("--ordered=memory")));
  ASSERT_NO_FATAL_FAILURE(Put("key", "value"));
  EXPECT_EQ(store_->Count().value(), 1u);
}

TEST_P(ScanTest, ShowsWhatAGetShows) {
  Open(InOrder());
  std::uint64_t version = 0;
  ASSERT_NO_FATAL_FAILURE(Put("for a while", "1", {.ttl = std::chrono::hours(1), .version = &version}));
  ASSERT_NO_FATAL_FAILURE(Put("for ever", "2"));
  const auto scan = BeginScan(*store_);
  ASSERT_TRUE(scan->Next());
  EXPECT_EQ(scan->key(), "for a while");
  EXPECT_EQ(scan->version(), version);
  EXPECT_NEAR(static_cast<double>(scan->expiry_ms()), static_cast<double>(clock_.UnixMillis() + 3'600'000),
              60'000);
  ASSERT_TRUE(scan->Next());
  EXPECT_EQ(scan->value(), "2");
  EXPECT_EQ(scan->expiry_ms(), 0u);
}

TEST_P(ScanTest, ShowsTheMomentWhenItBegan) {
  Open(InOrder());
  for (const char* key : {"a", "b", "c"}) ASSERT_NO_FATAL_FAILURE(Put(key, "old"));
  const auto forth = BeginScan(*store_);
  const auto back = BeginScan(*store_, {.reverse = true});
  ASSERT_TRUE(forth->Next());
  ASSERT_NO_FATAL_FAILURE(Put("b", "new"));
  ASSERT_NO_FATAL_FAILURE(Put("bb", "new"));
  ASSERT_TRUE(store_->Delete("c").ok());
  EXPECT_EQ(RestOfScan(*forth), (ScanPairs{{"b", "old"}, {"c", "old"}}));
  EXPECT_EQ(RestOfScan(*back), (ScanPairs{{"c", "old"}, {"b", "old"}, {"a", "old"}}));
  EXPECT_EQ(AllShown(*store_), (ScanPairs{{"a", "old"}, {"b", "new"}, {"bb", "new"}}));
}

TEST_P(ScanTest, ExpiredKeysAreNotShown) {
  Open(InOrder());
  for (const char* key : {"a", "b", "c", "d"}) {
    ASSERT_NO_FATAL_FAILURE(Put(key, "v", {.ttl = *key == 'd' ? kNeverExpires : std::chrono::minutes(1)}));
  }
  const auto scan = BeginScan(*store_);
  const auto few = BeginScan(*store_, {.begin = "b", .limit = 1});
  ASSERT_TRUE(scan->Next());
  clock_.Advance(std::chrono::minutes(2));
  EXPECT_EQ(RestOfScan(*scan), (ScanPairs{{"d", "v"}}));
  EXPECT_EQ(RestOfScan(*few), (ScanPairs{{"d", "v"}})) << "what is not shown counts for no limit";
  EXPECT_EQ(store_->Count({.begin = "a"}).value(), 1u);
}

TEST_P(LoggedScanTest, ColdKeysAreShown) {
  StoreOptions options = WithDisk();
  options.memory_size = kMinMemorySize;
  Open(options);
  ScanMap map;
  const std::string large(20'000, 'v');
  for (int i = 0; i < 1500; ++i) {
    const std::string key = "key " + std::to_string(i);
    ASSERT_NO_FATAL_FAILURE(Put(key, std::to_string(i) + large));
    map[key] = std::to_string(i) + large;
  }
  ASSERT_GT(store_->Read(Metric::kColdKeys), 100u);
  EXPECT_TRUE(AllShown(*store_) == ExpectedPairs(map, {}));
  EXPECT_TRUE(AllShown(*store_, {.reverse = true}) == ExpectedPairs(map, {.reverse = true}));
  EXPECT_EQ(store_->Read(Metric::kFetches), 0u) << "and stays where it is";
  EXPECT_EQ(store_->Count().value(), 1500u);
}

TEST_P(LoggedScanTest, KeysThatAreNotLoadedAreShownAndDeleted) {
  Open(WithDisk());
  for (int i = 0; i < 3000; ++i) ASSERT_NO_FATAL_FAILURE(Put(std::to_string(i), "value"));
  StoreOptions options = WithDisk();
  options.loading = Loading::kInSteps;
  Open(options);
  ASSERT_TRUE(store_->loading());
  EXPECT_EQ(KeysShown(*store_).size(), 3000u);
  EXPECT_EQ(store_->DeleteRange({.prefix = "1"}).value(), 1111u);
  while (store_->Load()) {
  }
  EXPECT_EQ(store_->Count().value(), 1889u);
  EXPECT_EQ(KeysShown(*store_).size(), 1889u);
}

TEST_P(ScanTest, TheLargestValue) {
  StoreOptions options = InOrder();
  options.memory_size = std::size_t{256} << 20;
  Open(options);
  const std::string value(kMaxValueSize, 'v');
  ASSERT_NO_FATAL_FAILURE(Put("large", value));
  const auto scan = BeginScan(*store_);
  ASSERT_TRUE(scan->Next());
  EXPECT_TRUE(scan->value() == value);
}

// --- While others write -----------------------------------------------------------------------------------

class ScanWhileWritingTest : public ScanTest {
 protected:
  /// Runs `write(round)` in a thread until `read` has returned.
  template <typename WriteSome, typename Read>
  void While(const WriteSome& write, const Read& read) {
    std::atomic<bool> stop = false;
    std::thread writer([&] {
      for (int round = 1; !stop; ++round) write(round);
    });
    read();
    stop = true;
    writer.join();
  }
};

INSTANTIATE_TEST_SUITE_P(All, ScanWhileWritingTest, testing::ValuesIn(kAllOrders), NameOfScanned);
class LoggedScanWhileWritingTest : public ScanWhileWritingTest {};
INSTANTIATE_TEST_SUITE_P(All, LoggedScanWhileWritingTest, testing::ValuesIn(kLoggedOrders), NameOfScanned);

TEST_P(ScanWhileWritingTest, BatchesAreWholeInEveryScan) {
  Open(InOrder());
  const auto apply = [&](int round) {
    WriteBatch batch;
    for (int i = 0; i < 20; ++i) batch.Put("key " + std::to_string(i * 7 % 20), std::to_string(round));
    ASSERT_TRUE(store_->Apply(batch).ok());
  };
  apply(0);
  While(apply, [&] {
    for (int i = 0; i < 300; ++i) {
      const ScanPairs pairs = AllShown(*store_, {.reverse = i % 2 == 0});
      ASSERT_EQ(pairs.size(), 20u);
      for (const auto& [key, value] : pairs) ASSERT_EQ(value, pairs.front().second) << key;
    }
  });
}

// The last write of a large group is in the durable tier some
// time before it is published. No reader sees it before that.
TEST_P(ScanWhileWritingTest, AGetSeesAllThatAScanShowed) {
  Open(InOrder());
  std::vector<std::string> keys;
  for (int i = 0; i < 1000; ++i) keys.push_back("key " + std::to_string(10'000 + i));
  std::atomic<int> rounds = 0;
  const auto commit = [&](int round) {
    rounds = round;
    const std::string value = std::to_string(round);
    std::vector<Write> writes(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      writes[i].key = keys[i];
      writes[i].value = value;
    }
    store_->Commit(writes);
  };
  commit(0);
  While(commit, [&] {
    // If both threads share a CPU, they meet only when the system switches between them.
    for (int i = 0; i < Rounds(3000) || rounds < Rounds(500); ++i) {
      const auto scan = BeginScan(*store_, {.reverse = true, .limit = 1});
      ASSERT_TRUE(scan->Next());
      ASSERT_EQ(scan->key(), keys.back());
      std::string value;
      std::uint64_t version = 0;
      ASSERT_TRUE(store_->Get(keys.back(), &value, &version).ok());
      ASSERT_GE(version, scan->version()) << "a scan showed what was not there yet";
    }
  });
}

TEST_P(LoggedScanWhileWritingTest, GrowthCleaningAndEvictionHideNothing) {
  StoreOptions options = WithDisk();
  options.memory_size = kMinMemorySize;
  Open(options);
  constexpr int kKept = 300;
  const auto kept = [](int i) { return "kept " + std::to_string(1000 + i); };
  for (int i = 0; i < kKept; ++i) ASSERT_NO_FATAL_FAILURE(Put(kept(i), std::string(9000, 'k') + kept(i)));
  const auto write = [&](int round) {
    ASSERT_NO_FATAL_FAILURE(Put("more " + std::to_string(round % 4000), std::string(9000, 'm')));
  };
  While(write, [&] {
    while (store_->Read(Metric::kEvictions) < 2000) {
      const ScanPairs pairs = AllShown(*store_, {.prefix = "kept"});
      ASSERT_EQ(pairs.size(), std::size_t{kKept});
      for (int i = 0; i < kKept; ++i) {
        ASSERT_EQ(pairs[static_cast<std::size_t>(i)].first, kept(i));
        ASSERT_TRUE(pairs[static_cast<std::size_t>(i)].second == std::string(9000, 'k') + kept(i));
      }
    }
  });
}

// --- Tokens
// -------------------------------------------------------------------------------------------------

TEST_P(ScanTest, ATokenGoesOnBehindEachEntry) {
  Open(InOrder());
  std::vector<std::string> keys;
  for (int i = 0; i < 30; ++i) keys.push_back(std::string("p\xff") + static_cast<char>(i * 8));
  for (const std::string& key : keys) ASSERT_NO_FATAL_FAILURE(Put(key, "v"));
  ASSERT_NO_FATAL_FAILURE(Put("o", "outside"));
  ASSERT_NO_FATAL_FAILURE(Put("q", "outside"));
  for (const bool reverse : {false, true}) {
    if (reverse) std::reverse(keys.begin(), keys.end());
    for (std::size_t shown = 0; shown <= keys.size(); ++shown) {
      const auto scan = BeginScan(*store_, {.prefix = "p", .reverse = reverse});
      for (std::size_t i = 0; i < shown; ++i) ASSERT_TRUE(scan->Next());
      if (shown == keys.size()) {
        ASSERT_FALSE(scan->Next());
      }
      const std::vector<std::string> rest(keys.begin() + static_cast<std::ptrdiff_t>(shown), keys.end());
      EXPECT_EQ(KeysShown(*store_, {.resume_token = scan->resume_token()}), rest);
    }
  }
}

TEST_P(LoggedScanTest, PagesByTokensAcrossARestartShowAll) {
  Open(WithDisk());
  for (int i = 0; i < 100; ++i) ASSERT_NO_FATAL_FAILURE(Put("key " + std::to_string(100 + i), "v"));
  std::vector<std::string> keys;
  std::string token;
  for (bool more = true; more;) {
    Open(WithDisk());
    const auto scan = token.empty() ? BeginScan(*store_, {.limit = 7})
                                    : BeginScan(*store_, {.limit = 7, .resume_token = token});
    more = false;
    for (; scan->Next(); more = true) keys.emplace_back(scan->key());
    token = scan->resume_token();
  }
  EXPECT_EQ(keys, KeysShown(*store_));
}

TEST_P(ScanTest, ATokenThatWasChangedIsRejected) {
  Open(InOrder());
  ASSERT_NO_FATAL_FAILURE(Put("key", "value"));
  const auto scan = BeginScan(*store_, {.prefix = "k"});
  ASSERT_TRUE(scan->Next());
  const std::string token = scan->resume_token();
  for (const char letter : token) EXPECT_TRUE(std::isalnum(letter) || letter == '-' || letter == '_');
  EXPECT_TRUE(absl::IsInvalidArgument(store_->Scan({.prefix = "k", .resume_token = token}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->Scan({.reverse = true, .resume_token = token}).status()));
  std::vector<std::string> wrong = {"A", "=", token + "A", token + token, std::string(20'000, 'A')};
  for (std::size_t i = 0; i < token.size(); ++i) {
    wrong.push_back(token.substr(0, i + 1 == token.size() ? i : i + 1));
    wrong.push_back(token);
    wrong.back()[i] = token[i] == 'A' ? 'B' : 'A';
  }
  for (const std::string& each : wrong) {
    EXPECT_TRUE(absl::IsInvalidArgument(store_->Scan({.resume_token = each}).status())) << each;
  }
}
}  // namespace
}  // namespace remora
