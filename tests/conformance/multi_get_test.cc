// MultiGet, wherever the store is, and its cost for a client.
#include <atomic>
#include <chrono>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "store/format/memory/index_view.h"
#include "store/format/memory/layout.h"
#include "store/format/memory/record.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/support/self_describing.h"

namespace remora {
namespace {

class MultiGet : public Behaviour {
 protected:
  static std::string KeyOf(std::size_t i) { return "key " + std::to_string(i); }

  /// Values, or status codes in words.
  std::vector<std::string> GetAll(const std::vector<std::string>& keys) {
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    results_.resize(keys.size());
    const absl::Status status = kv_->MultiGet(views, results_);
    EXPECT_TRUE(status.ok()) << status;
    std::vector<std::string> said;
    for (const GetResult& result : results_) {
      said.push_back(result.status.ok() ? result.value : absl::StatusCodeToString(result.status.code()));
    }
    return said;
  }
  std::vector<GetResult> results_;  // used again
};

INSTANTIATE_TEST_SUITE_P(On, MultiGet,
                         testing::Values(DeploymentKind::kEmbedded, DeploymentKind::kLocal,
                                         DeploymentKind::kTcp, DeploymentKind::kTls, DeploymentKind::kVerbs,
                                         DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(MultiGet, SaysOfEachKeyWhatAGetWould) {
  START();
  std::uint64_t version = 0;
  ASSERT_CODE(kOk, Put("a", "1"));
  ASSERT_CODE(kOk, kv_->Put("b", "", {.version = &version}));
  const std::vector<std::string> keys = {"b", "missing", "", "a", std::string(kMaxKeySize + 1, 'k'), "a"};
  EXPECT_THAT(GetAll(keys),
              testing::ElementsAre("", "NOT_FOUND", "INVALID_ARGUMENT", "1", "INVALID_ARGUMENT", "1"));
  EXPECT_EQ(results_[0].version, version);
  EXPECT_EQ(results_[3].version, version - 1);
  // Again into the same results: the earlier ones are not in the way.
  EXPECT_THAT(GetAll({"a", "b", "b", "missing", "a", "missing"}),
              testing::ElementsAre("1", "", "", "NOT_FOUND", "1", "NOT_FOUND"));
}

TEST_P(MultiGet, OfNothingAndOfUnequalNumbers) {
  START();
  EXPECT_THAT(GetAll({}), testing::ElementsAre());
  const std::vector<std::string_view> keys = {"a", "b"};
  std::vector<GetResult> results(1);
  EXPECT_CODE(kInvalidArgument, kv_->MultiGet(keys, results));
}

TEST_P(MultiGet, OfMoreKeysAndBytesThanAreInFlightAtOnce) {
  START({.memory_size = std::size_t{48} << 20});
  std::vector<std::string> keys;
  std::vector<std::string> values;
  for (std::size_t i = 0; i < 100; ++i) {
    keys.push_back(KeyOf(i));
    // Some fit side by side, some only one after the other, and one is large.
    const std::size_t size = i == 50 ? 700'000 : i % 9 == 0 ? kMaxSmallValueSize - i : i * 97;
    values.push_back(MakeValue(keys.back(), i, size));
    ASSERT_CODE(kOk, Put(keys.back(), values.back()));
  }
  for (int round = 0; round < 2; ++round) EXPECT_TRUE(GetAll(keys) == values);
}

TEST_P(MultiGet, OfWhatHasExpired) {
  START();
  ASSERT_CODE(kOk, kv_->Put("short", "1", {.ttl = std::chrono::hours(1)}));
  ASSERT_CODE(kOk, kv_->Put("long", "2", {.ttl = std::chrono::hours(2)}));
  const std::vector<std::string> keys = {"short", "long", "none"};
  EXPECT_THAT(GetAll(keys), testing::ElementsAre("1", "2", "NOT_FOUND"));
  deployment_->Advance(std::chrono::hours(1));
  EXPECT_THAT(GetAll(keys), testing::ElementsAre("NOT_FOUND", "2", "NOT_FOUND"));
  deployment_->Advance(std::chrono::hours(1));
  EXPECT_THAT(GetAll(keys), testing::ElementsAre("NOT_FOUND", "NOT_FOUND", "NOT_FOUND"));
}

TEST_P(MultiGet, OfWhatIsNotLoadedYet) {
  START({.durability = Durability::kLogged, .loading = Loading::kInSteps});
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < 50; ++i) {
    keys.push_back(KeyOf(i));
    ASSERT_CODE(kOk, Put(keys.back(), keys.back()));
  }
  Restart();
  ASSERT_TRUE(store().loading());
  EXPECT_TRUE(GetAll(keys) == keys);
  EXPECT_THAT(GetAll({"missing"}), testing::ElementsAre("NOT_FOUND"));
}

TEST_P(MultiGet, OfWhatIsNotInMemory) {
  START({.durability = Durability::kLogged,
         .memory_size = kMinMemorySize,
         .eviction = Eviction::kLeastUsed,
         .grace = std::chrono::milliseconds(kMinGraceMs)});
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < 300; ++i) {
    keys.push_back(KeyOf(i));
    ASSERT_CODE(kOk, Put(keys.back(), MakeValue(keys.back(), i, 100'000)));
  }
  ASSERT_GT(store().Read(Metric::kColdKeys), 50u);
  const std::vector<std::string> values = GetAll(keys);
  for (std::size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(NumberOf(keys[i], values[i]), i);
}

// In both tests, a client that is held up for the grace period reads again.
TEST_P(MultiGet, CostsTwoReadsAKeyAndNoRequest) {
  START({.grace = std::chrono::seconds(10)});
  if (!remote()) GTEST_SKIP() << "of clients";
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < 16; ++i) keys.push_back(KeyOf(i));
  for (const std::string& key : keys) ASSERT_CODE(kOk, Put(key, key));
  for (const bool remembers : {false, true}) {
    kv_ = Connect({.location_cache_bytes = remembers ? kDefaultLocationCacheBytes : 0});
    EXPECT_TRUE(GetAll(keys) == keys);
    const ClientCounters before = kv_->client()->counters();
    EXPECT_TRUE(GetAll(keys) == keys);
    const ClientCounters cost = kv_->client()->counters() - before;
    EXPECT_EQ(cost.requests, 0u);
    EXPECT_EQ(cost.reads - cost.generation_reads, remembers ? 16u : 32u);
    EXPECT_EQ(cost.location_hits, remembers ? 16u : 0u);
  }
}

// Keys of one chain of buckets, two or more to a fingerprint. Searches go on from a record to the next one of
// the same bucket, while others read the next bucket. Each finds the same as it would find alone.
TEST_P(MultiGet, SearchesSideBySideDoNotDisturbEachOther) {
  START({.grace = std::chrono::seconds(10)});
  if (!remote()) GTEST_SKIP() << "of clients";
  kv_ = Connect({.location_cache_bytes = 0});
  constexpr std::uint32_t kFirstDepth = 6;
  std::map<std::uint32_t, std::vector<std::string>> by_fingerprint;
  std::vector<std::string> keys;
  for (std::size_t i = 0; keys.size() < 48; ++i) {
    const std::uint64_t hash = HashKey(KeyOf(i));
    if (BucketAtDepth(hash, kFirstDepth) != 7) continue;
    std::vector<std::string>& same = by_fingerprint[Fingerprint(hash)];
    same.push_back(KeyOf(i));
    if (same.size() == 2) keys.insert(keys.end(), same.begin(), same.end());
  }
  for (const std::string& key : keys) ASSERT_CODE(kOk, Put(key, "value of " + key));
  ASSERT_GT(store().Read(Metric::kOverflowBuckets), 0u);
  const ClientCounters before = kv_->client()->counters();
  for (const std::string& key : keys) ASSERT_EQ(Get(key), "value of " + key);
  const ClientCounters alone = kv_->client()->counters() - before;
  ASSERT_GT(alone.reads, 2 * keys.size());
  const std::vector<std::string> values = GetAll(keys);
  for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(values[i], "value of " + keys[i]);
  const ClientCounters together = kv_->client()->counters() - before;
  EXPECT_EQ(together.reads, 2 * alone.reads);
  EXPECT_EQ(together.requests, 0u);
}

TEST_P(MultiGet, FindsWhatOthersOverwroteWhereItWasRemembered) {
  START();
  kv_ = Connect({.location_cache_bytes = kDefaultLocationCacheBytes});
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < 40; ++i) keys.push_back(KeyOf(i));
  const std::unique_ptr<KeyValue> other = Connect();
  for (int round = 0; round < 20; ++round) {
    std::vector<std::string> values;
    for (const std::string& key : keys) {
      values.push_back(key + " in round " + std::to_string(round));
      ASSERT_CODE(kOk, other->Put(key, values.back()));
    }
    ASSERT_TRUE(GetAll(keys) == values);
    ASSERT_TRUE(GetAll(keys) == values);
  }
}

// Of each key that somebody overwrites meanwhile, what is read is whole, and no older than what was
// acknowledged.
TEST_P(MultiGet, BesideWritersIsNeitherTornNorStale) {
  START({.memory_size = kMinMemorySize});
  if (!deployment_->concurrent()) GTEST_SKIP() << "one thread; see living_test.cc";
  constexpr std::size_t kKeys = 24;
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < kKeys; ++i) keys.push_back(KeyOf(i));
  std::vector<std::atomic<std::uint64_t>> acknowledged(kKeys);
  for (const std::string& key : keys) ASSERT_CODE(kOk, Put(key, MakeValue(key, 0, 100)));
  std::atomic<bool> done = false;
  const std::unique_ptr<KeyValue> writer = Connect();
  std::thread writing([&] {
    std::mt19937_64 random(5);
    for (std::uint64_t number = 1; !done.load(); ++number) {
      const std::size_t i = random() % kKeys;
      ASSERT_CODE(kOk, writer->Put(keys[i], MakeValue(keys[i], number, 50 + random() % 4000)));
      acknowledged[i] = number;
    }
  });
  const int rounds = GetParam() == DeploymentKind::kVerbs ? 100 : 3000;
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    std::vector<std::uint64_t> oldest;
    for (const auto& number : acknowledged) oldest.push_back(number);
    const std::vector<std::string> values = GetAll(keys);
    for (std::size_t i = 0; i < kKeys; ++i) {
      const std::optional<std::uint64_t> number = NumberOf(keys[i], values[i]);
      EXPECT_TRUE(number.has_value()) << values[i];
      EXPECT_GE(number.value_or(0), oldest[i]) << "stale";
    }
  }
  done = true;
  writing.join();
}

TEST_P(MultiGet, SaysThatTheServerIsGone) {
  START({}, {.reconnect = false});
  if (!remote()) GTEST_SKIP() << "of clients";
  ASSERT_CODE(kOk, Put("a", "1"));
  deployment_->Stop();
  const std::vector<std::string_view> keys = {"a", "", "b"};
  std::vector<GetResult> results(keys.size());
  EXPECT_CODE(kUnavailable, kv_->MultiGet(keys, results));
  // The second time, nothing is sent at all.
  for (int round = 0; round < 2; ++round) {
    EXPECT_FALSE(results[0].status.ok());
    EXPECT_CODE(kInvalidArgument, results[1].status);
    EXPECT_FALSE(results[2].status.ok());
    for (GetResult& result : results) result = {};
    EXPECT_FALSE(kv_->MultiGet(keys, results).ok());
  }
}

}  // namespace
}  // namespace remora
