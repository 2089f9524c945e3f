// Warm GETs: their cost, and that nobody can tell them from cold ones otherwise.
#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "tests/conformance/conformance_fixture.h"
#include "tests/support/self_describing.h"

namespace remora {
namespace {

const ClientOptions kWarm{.location_cache_bytes = std::size_t{1} << 20};
const ClientOptions kCold{.location_cache_bytes = 0};

// So long that, however slow the machine, no look grows old in a test that counts READs.
constexpr std::chrono::milliseconds kLongGrace{60'000};

class Locations : public Behaviour {
 protected:
  void StartWarm() { Start({.grace = kLongGrace}, kWarm); }

  /// Returns the growth of this client's counters by `operation`.
  template <typename Operation>
  ClientCounters Cost(const Operation& operation) {
    const ClientCounters before = kv_->client()->counters();
    operation();
    return kv_->client()->counters() - before;
  }
};

INSTANTIATE_TEST_SUITE_P(On, Locations,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

#define START_WARM() \
  StartWarm();       \
  if (IsSkipped() || HasFatalFailure()) return

TEST_P(Locations, AWarmGetIsOneRead) {
  START_WARM();
  const std::unique_ptr<KeyValue> other = Connect();
  ASSERT_CODE(kOk, other->Put("key", "value"));
  const ClientCounters cold = Cost([&] { EXPECT_EQ(Get("key"), "value"); });
  EXPECT_EQ(cold.reads, 3u);  // with the first look
  EXPECT_EQ(cold.generation_reads, 1u);
  for (int i = 0; i < 20; ++i) {
    const ClientCounters warm = Cost([&] { EXPECT_EQ(Get("key"), "value"); });
    EXPECT_EQ(warm.reads, 1u);
    EXPECT_EQ(warm.requests, 0u);
    EXPECT_EQ(warm.location_hits, 1u);
  }
  EXPECT_EQ(kv_->client()->counters().location_false_hits, 0u);
}

TEST_P(Locations, AWarmGetOfWhatExpiresLaterIsOneRead) {
  START_WARM();
  ASSERT_CODE(kOk, kv_->Put("key", "value", {.ttl = std::chrono::hours(10)}));
  ASSERT_EQ(Get("key"), "value");
  ASSERT_EQ(Get("key"), "value");
  const ClientCounters warm = Cost([&] { EXPECT_EQ(Get("key"), "value"); });
  EXPECT_EQ(warm.reads, 1u);
  EXPECT_EQ(warm.requests, 0u);
  EXPECT_EQ(warm.location_hits, 1u);
}

TEST_P(Locations, AGetAfterOnesOwnPutIsOneRead) {
  START_WARM();
  ASSERT_CODE(kOk, Put("look", ""));
  ASSERT_EQ(Get("look"), "");
  for (int i = 0; i < 5; ++i) {
    const ClientCounters put = Cost([&] { ASSERT_CODE(kOk, Put("key", std::to_string(i))); });
    EXPECT_EQ(put.reads, 0u);
    const ClientCounters get = Cost([&] { EXPECT_EQ(Get("key"), std::to_string(i)); });
    EXPECT_EQ(get.reads, 1u);
    EXPECT_EQ(get.location_hits, 1u);
  }
}

TEST_P(Locations, AfterAnothersPutTheOldPlaceCostsOneReadAndTheNewValueComes) {
  START_WARM();
  const std::unique_ptr<KeyValue> other = Connect();
  ASSERT_CODE(kOk, Put("key", "old"));
  ASSERT_EQ(Get("key"), "old");
  ASSERT_EQ(Get("key"), "old");
  ASSERT_CODE(kOk, other->Put("key", "new"));
  const ClientCounters stale = Cost([&] { EXPECT_EQ(Get("key"), "new"); });
  EXPECT_EQ(stale.reads, 3u);
  EXPECT_EQ(stale.location_false_hits, 1u);
  EXPECT_EQ(stale.location_hits, 0u);
  const ClientCounters warm = Cost([&] { EXPECT_EQ(Get("key"), "new"); });
  EXPECT_EQ(warm.reads, 1u);
  EXPECT_EQ(warm.location_false_hits, 0u);
}

TEST_P(Locations, AfterAnothersDeleteTheOldPlaceCostsOneReadAndTheKeyIsMissing) {
  START_WARM();
  const std::unique_ptr<KeyValue> other = Connect();
  ASSERT_CODE(kOk, Put("key", "value"));
  ASSERT_EQ(Get("key"), "value");
  ASSERT_EQ(Get("key"), "value");
  ASSERT_CODE(kOk, other->Delete("key"));
  const ClientCounters stale = Cost([&] { EXPECT_CODE(kNotFound, GetStatus("key")); });
  EXPECT_EQ(stale.reads, 2u);
  EXPECT_EQ(stale.location_false_hits, 1u);
  const ClientCounters missing = Cost([&] { EXPECT_CODE(kNotFound, GetStatus("key")); });
  EXPECT_EQ(missing.reads, 1u);
  EXPECT_EQ(missing.location_false_hits, 0u);
}

TEST_P(Locations, AfterOnesOwnDeleteNothingIsWasted) {
  START_WARM();
  ASSERT_CODE(kOk, Put("key", "value"));
  ASSERT_EQ(Get("key"), "value");
  ASSERT_CODE(kOk, Delete("key"));
  const ClientCounters missing = Cost([&] { EXPECT_CODE(kNotFound, GetStatus("key")); });
  EXPECT_EQ(missing.reads, 1u);
  EXPECT_EQ(missing.location_false_hits, 0u);
}

TEST_P(Locations, WithoutACacheEveryGetIsTwoReads) {
  START({}, kCold);
  ASSERT_CODE(kOk, Put("key", "value"));
  for (int i = 0; i < 5; ++i) {
    const ClientCounters cold = Cost([&] { EXPECT_EQ(Get("key"), "value"); });
    EXPECT_EQ(cold.reads, 2u);
  }
  const ClientCounters& all = kv_->client()->counters();
  EXPECT_EQ(all.location_hits + all.location_false_hits + all.generation_reads, 0u);
}

TEST_P(Locations, ValuesOfEverySizeComeWarm) {
  START_WARM();
  std::vector<std::size_t> sizes = {0, 1, 100, 4000, 4096, 70001, kMaxSmallValueSize};
  for (const std::size_t size : sizes) {
    const std::string key = "key " + std::to_string(size);
    const std::string value(size, 'v');
    ASSERT_CODE(kOk, Put(key, value));
    for (int i = 0; i < 3; ++i) ASSERT_EQ(Get(key), value);
  }
  EXPECT_GE(kv_->client()->counters().location_hits, 2 * sizes.size());
}

// Half of the keys are overwritten by somebody else: their cached locations are wrong, and the client does
// not know which. In as few GETs as there are keys or more, no more than a tenth of READs are in vain.
TEST_P(Locations, WhereHalfOfTheKeysWereOverwrittenFewReadsAreWasted) {
  START_WARM();
  const int keys = GetParam() == DeploymentKind::kLocal ? 4000 : 1000;
  const std::unique_ptr<KeyValue> other = Connect(kCold);
  const auto key_of = [](int i) { return "key " + std::to_string(i); };
  for (int i = 0; i < keys; ++i) ASSERT_CODE(kOk, other->Put(key_of(i), MakeValue(key_of(i), 0, 40)));
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < keys; ++i) ASSERT_EQ(NumberOf(key_of(i), Get(key_of(i))), 0u);
  }
  std::mt19937 random(5);
  std::vector<std::uint64_t> written(static_cast<std::size_t>(keys), 0);
  for (std::uint64_t round = 1; round <= 3; ++round) {
    for (int i = 0; i < keys; ++i) {
      if (random() % 2 == 0) continue;
      ASSERT_CODE(kOk, other->Put(key_of(i), MakeValue(key_of(i), round, 40)));
      written[static_cast<std::size_t>(i)] = round;
    }
    const ClientCounters cost = Cost([&] {
      for (int gets = 0; gets < keys; ++gets) {
        const int i = static_cast<int>(random() % static_cast<unsigned>(keys));
        ASSERT_EQ(NumberOf(key_of(i), Get(key_of(i))), written[static_cast<std::size_t>(i)]);
      }
    });
    EXPECT_LE(cost.location_false_hits * 10, cost.reads) << "round " << round;
  }
  // It comes back: with nobody writing, GETs soon are warm again.
  for (int gets = 0; gets < 10 * keys; ++gets) Get(key_of(gets % keys));
  const ClientCounters settled = Cost([&] {
    for (int i = 0; i < keys; ++i) Get(key_of(i));
  });
  EXPECT_GT(settled.location_hits, static_cast<std::uint64_t>(keys) * 9 / 10);
  EXPECT_LE(settled.reads, static_cast<std::uint64_t>(keys) * 12 / 10);
}

// Memory comes round many times while the places of all keys are remembered, with a grace period so short
// that looks grow old all the time.
TEST_P(Locations, ThroughCleaningNoValueIsEverWrong) {
  START({.memory_size = kMinMemorySize, .grace = std::chrono::milliseconds(kMinGraceMs)}, kWarm);
  const std::unique_ptr<KeyValue> other = Connect(kCold);
  const auto key_of = [](unsigned i) { return "key " + std::to_string(i); };
  constexpr unsigned kKeys = 60;
  const std::uint64_t writes = GetParam() == DeploymentKind::kVerbs ? 300 : 1000;
  std::vector<std::uint64_t> written(kKeys, 0);
  std::mt19937 random(11);
  for (std::uint64_t number = 1; number <= writes; ++number) {
    const unsigned i =
        number <= kKeys ? static_cast<unsigned>(number - 1) : static_cast<unsigned>(random() % kKeys);
    // Of the same few sizes all over: records come to stand exactly where others stood.
    const std::size_t size = 20'000 * (1 + number % 5);
    ASSERT_CODE(kOk, other->Put(key_of(i), MakeValue(key_of(i), number, size)));
    written[i] = number;
    for (int gets = 0; gets < 3; ++gets) {
      const auto j = static_cast<unsigned>(random() % std::min<std::uint64_t>(kKeys, number));
      ASSERT_EQ(NumberOf(key_of(j), Get(key_of(j))), written[j]) << key_of(j) << " " << number;
    }
  }
  EXPECT_GT(store().Read(Metric::kSegmentsCleaned), 5u);
  EXPECT_GT(kv_->client()->counters().location_hits, 0u);
}

}  // namespace
}  // namespace remora
