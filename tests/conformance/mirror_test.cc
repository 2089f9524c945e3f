// Clients with a mirror of the index: the cost of their GETs, and that nobody can tell them from others
// otherwise.
#include <array>
#include <chrono>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "client/async_client.h"
#include "client/mirror/mirror_frames.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/support/self_describing.h"
#include "tests/support/sizes.h"

namespace remora {
namespace {

const ClientOptions kMirrored{.index_mirror_bytes = 4 * kMiB};
const ClientOptions kUnmirrored{.location_cache_bytes = 0};

// So long that, however slow the machine, no look grows old in a test that counts READs.
constexpr std::chrono::milliseconds kNoLookGrowsOld{60'000};

class Mirror : public Behaviour {
 protected:
  static std::string KeyOf(int i) { return "key " + std::to_string(i); }
  static std::string ValueOf(int i, int round = 0) {
    return "value " + std::to_string(i) + "/" + std::to_string(round);
  }

  /// Starts a server that has the keys, and a client with a mirror.
  void StartMirrored(std::chrono::milliseconds grace, int keys) {
    Start({.memory_size = 64 * kMiB, .grace = grace}, kUnmirrored);
    if (IsSkipped() || HasFatalFailure()) return;
    PutAll(*kv_, keys);
    kv_ = Connect(kMirrored);
  }
  /// So many that few buckets have overflow buckets.
  int keys() const { return slow() ? 300 : GetParam() == DeploymentKind::kLocal ? 20'000 : 4500; }

  static void PutAll(KeyValue& kv, int keys, int round = 0, int step = 1) {
    for (int i = 0; i < keys; i += step) ASSERT_CODE(kOk, kv.Put(KeyOf(i), ValueOf(i, round)));
  }
  void GetAll(int keys, int round = 0) {
    for (int i = 0; i < keys; ++i) ASSERT_EQ(Get(KeyOf(i)), ValueOf(i, round));
  }

  ClientCounters counters() const { return kv_->client()->counters(); }
  /// Returns the growth of this client's counters by `operation`.
  template <typename Operation>
  ClientCounters Cost(const Operation& operation) {
    const ClientCounters before = counters();
    operation();
    return counters() - before;
  }
  /// Lets time pass where it does not do so by itself.
  void Pass(std::chrono::milliseconds time) {
    if (GetParam() == DeploymentKind::kSim) deployment_->clock().Sleep(time);
  }
  /// Calls `done` until it returns true, while the server does its maintenance. 1500 times at most.
  template <typename Done>
  bool TryAgain(const Done& done) {
    bool is_done = false;
    int tries = 0;
    Await([&] {
      Pass(std::chrono::milliseconds(10));
      EXPECT_CODE(kOk, kv_->client()->Ping());
      is_done = done();
      return is_done || HasFailure() || ++tries == 1500;
    });
    return is_done;
  }
  /// GETs some keys until the client has READ changes of the index, twice.
  void AwaitUpkeep() {
    for (int round = 0; round < 2; ++round) {
      const std::uint64_t before = counters().mirror_read_bytes;
      ASSERT_TRUE(Await([&] {
        Pass(std::chrono::milliseconds(150));
        Get(KeyOf(0));
        return counters().mirror_read_bytes > before + sizeof(std::uint64_t);
      }));
    }
  }
};

INSTANTIATE_TEST_SUITE_P(On, Mirror,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

#define START_MIRRORED(...)   \
  StartMirrored(__VA_ARGS__); \
  if (IsSkipped() || HasFatalFailure()) return

TEST_P(Mirror, TheFirstGetOfEachKeyIsOneRead) {
  START_MIRRORED(std::chrono::milliseconds(100), keys());
  const auto keys = static_cast<std::uint64_t>(this->keys());
  const ClientCounters built = counters();
  EXPECT_EQ(built.reads, built.mirror_reads);
  EXPECT_EQ(built.requests, 0u);
  // Bulk READs of 256 KiB, and those of the directory, the generations, the retired segments and the changes.
  EXPECT_LE(built.mirror_reads, 6 + built.mirror_read_bytes / 100'000);
  // While the index grows, buckets have slots of both halves, until the grace period is over.
  ClientCounters cost;
  const bool is_one_read = TryAgain([&] {
    kv_.reset();  // the mirror ends with it
    kv_ = Connect(kMirrored);
    cost = Cost([&] { GetAll(this->keys()); });
    // All but those whose bucket has another key of their fingerprint, or that are in an overflow bucket.
    return (cost.reads - cost.mirror_reads - cost.generation_reads) * 100 <= keys * 102;
  });
  EXPECT_TRUE(is_one_read) << cost.reads << " READs of " << keys << " keys";
  EXPECT_GE(cost.mirror_hits * 100, keys * 98);
  EXPECT_EQ(cost.mirror_hits, cost.location_hits);
}

TEST_P(Mirror, AMissReadsTheBucket) {
  START_MIRRORED(kNoLookGrowsOld, 100);
  std::uint64_t reads = 0;
  for (int i = 0; i < 100; ++i) {
    reads += Cost([&] { EXPECT_CODE(kNotFound, GetStatus("missing " + std::to_string(i))); }).reads;
  }
  EXPECT_GE(reads, 100u);
  EXPECT_LE(reads, 110u);
  // A key that another client puts after the mirror was made.
  const std::unique_ptr<KeyValue> other = Connect(kUnmirrored);
  ASSERT_CODE(kOk, other->Put("missing 7", "value"));
  EXPECT_EQ(Get("missing 7"), "value");
  EXPECT_EQ(Cost([&] { EXPECT_EQ(Get("missing 7"), "value"); }).reads, 1u);
}

TEST_P(Mirror, AStalePlaceCostsOneReadAndIsReplaced) {
  START_MIRRORED(kNoLookGrowsOld, 100);
  const std::unique_ptr<KeyValue> other = Connect(kUnmirrored);
  ASSERT_CODE(kOk, other->Put(KeyOf(1), "new"));
  const ClientCounters stale = Cost([&] { EXPECT_EQ(Get(KeyOf(1)), "new"); });
  EXPECT_EQ(stale.reads, 3u);
  EXPECT_EQ(stale.mirror_false_hits, 1u);
  EXPECT_EQ(stale.location_false_hits, 1u);
  EXPECT_EQ(Cost([&] { EXPECT_EQ(Get(KeyOf(1)), "new"); }).reads, 1u);
  ASSERT_CODE(kOk, other->Delete(KeyOf(2)));
  EXPECT_EQ(Cost([&] { EXPECT_CODE(kNotFound, GetStatus(KeyOf(2))); }).reads, 2u);
  EXPECT_EQ(Cost([&] { EXPECT_CODE(kNotFound, GetStatus(KeyOf(2))); }).reads, 1u);
}

TEST_P(Mirror, AGetAfterOnesOwnPutIsOneRead) {
  START_MIRRORED(kNoLookGrowsOld, 100);
  for (int round = 1; round < 5; ++round) {
    ASSERT_CODE(kOk, Put(KeyOf(3), ValueOf(3, round)));
    EXPECT_EQ(Cost([&] { EXPECT_EQ(Get(KeyOf(3)), ValueOf(3, round)); }).reads, 1u);
  }
  std::array<PutRequest, 1> puts{PutRequest{.key = "key 4", .value = "put", .options = {}}};
  std::array<PutResult, 1> results;
  ASSERT_CODE(kOk, kv_->client()->MultiPut(puts, results));
  EXPECT_EQ(Cost([&] { EXPECT_EQ(Get("key 4"), "put"); }).reads, 1u);
}

TEST_P(Mirror, ChangesOfOthersCome) {
  START_MIRRORED(std::chrono::milliseconds(100), 200);
  const std::unique_ptr<KeyValue> other = Connect(kUnmirrored);
  for (int round = 1; round < 4; ++round) {
    ASSERT_NO_FATAL_FAILURE(PutAll(*other, 200, round, /*step=*/2));
    ASSERT_CODE(kOk, other->Put("new " + std::to_string(round), "value"));
    ASSERT_NO_FATAL_FAILURE(AwaitUpkeep());
    ASSERT_CODE(kOk, other->Put(KeyOf(0), ValueOf(0, round)));
    ASSERT_NO_FATAL_FAILURE(AwaitUpkeep());
    const ClientCounters cost = Cost([&] {
      for (int i = 0; i < 200; i += 2) ASSERT_EQ(Get(KeyOf(i)), ValueOf(i, round));
      ASSERT_EQ(Get("new " + std::to_string(round)), "value");
    });
    EXPECT_GE(cost.mirror_hits, 99u) << round;
  }
}

TEST_P(Mirror, ASecondClientUsesThatOfTheFirst) {
  START_MIRRORED(kNoLookGrowsOld, 300);
  for (int i = 0; i < 3; ++i) {
    const std::unique_ptr<KeyValue> second = Connect(kMirrored);
    const ClientCounters& its = second->client()->counters();
    EXPECT_EQ(its.mirror_reads, 0u);
    EXPECT_EQ(its.generation_reads, 0u);
    for (int key = 0; key < 300; ++key) ASSERT_EQ(Get(*second, KeyOf(key)), ValueOf(key));
    EXPECT_GE(its.mirror_hits, 290u);
    // A place that one learned is known to the other.
    const std::string mine = "second " + std::to_string(i);
    ASSERT_CODE(kOk, second->Put(mine, "value"));
    EXPECT_EQ(Cost([&] { EXPECT_EQ(Get(mine), "value"); }).reads, 1u);
    std::unique_ptr<KeyValue> third = Connect(kMirrored);
    kv_ = std::move(third);  // the first one ends, and the mirror does not
  }
  const std::unique_ptr<KeyValue> of_another_size = Connect({.index_mirror_bytes = 3 * kMiB});
  EXPECT_GT(of_another_size->client()->counters().mirror_reads, 0u);
  kv_.reset();
  kv_ = Connect(kMirrored);
  EXPECT_GT(counters().mirror_reads, 0u);
}

TEST_P(Mirror, OneClientReadsTheChangesForAll) {
  START_MIRRORED(std::chrono::milliseconds(100), 200);
  const std::unique_ptr<KeyValue> second = Connect(kMirrored);
  const std::unique_ptr<KeyValue> writer = Connect(kUnmirrored);
  for (int round = 1; round < 4; ++round) {
    const std::string key = "new " + std::to_string(round);
    ASSERT_CODE(kOk, writer->Put(key, "value"));
    ASSERT_NO_FATAL_FAILURE(AwaitUpkeep());
    ASSERT_CODE(kOk, writer->Put(KeyOf(0), ValueOf(0, round)));
    ASSERT_NO_FATAL_FAILURE(AwaitUpkeep());
    EXPECT_EQ(Get(*second, key), "value");
    EXPECT_EQ(second->client()->counters().mirror_hits, static_cast<std::uint64_t>(round));
  }
}

TEST_P(Mirror, AMultiGetIsOneRound) {
  START_MIRRORED(kNoLookGrowsOld, 1000);
  std::uint64_t reads = 0;
  for (int first = 0; first < 992; first += 16) {
    std::vector<std::string> names;
    for (int i = first; i < first + 16; ++i) names.push_back(KeyOf(i));
    const std::vector<std::string_view> keys(names.begin(), names.end());
    std::vector<GetResult> results(keys.size());
    reads += Cost([&] { ASSERT_CODE(kOk, kv_->MultiGet(keys, results)); }).reads;
    for (int i = 0; i < 16; ++i) EXPECT_EQ(results[static_cast<std::size_t>(i)].value, ValueOf(first + i));
  }
  EXPECT_LE(reads * 100, 992u * 103);
}

TEST_P(Mirror, AnAsyncClientUsesItToo) {
  START_MIRRORED(kNoLookGrowsOld, 1000);
  auto connection = deployment_->Dial();
  ASSERT_CODE(kOk, connection.status());
  auto async = AsyncClient::Connect(*std::move(connection), kMirrored, {.depth = 32}, deployment_->clock());
  ASSERT_CODE(kOk, async.status());
  int right = 0;
  for (int i = 0; i < 1000; ++i) {
    while ((*async)->free_slots() == 0) {
      ASSERT_CODE(kOk, (*async)->Wait(deployment_->clock().Now() + kNoLookGrowsOld).status());
    }
    const auto begun = (*async)->Get(KeyOf(i), [&right, i](const AsyncResult& got) {
      right += got.status.ok() && got.value == ValueOf(i) ? 1 : 0;
    });
    ASSERT_CODE(kOk, begun.status());
  }
  ASSERT_CODE(kOk, (*async)->WaitAll(deployment_->clock().Now() + kNoLookGrowsOld));
  EXPECT_EQ(right, 1000);
  EXPECT_GE((*async)->counters().mirror_hits, 980u);
}

TEST_P(Mirror, IndexGrowthLeavesPlacesAndNewBucketsAreRead) {
  START_MIRRORED(std::chrono::milliseconds(100), 100);
  const int keys = slow() ? 2000 : 10'000;  // the index begins with 64 buckets for 1536 keys
  const std::unique_ptr<KeyValue> other = Connect(kUnmirrored);
  ASSERT_NO_FATAL_FAILURE(PutAll(*other, keys));
  ClientCounters cost;
  const bool is_served = TryAgain([&] {
    cost = Cost([&] { GetAll(keys); });
    return cost.mirror_hits * 100 >= static_cast<std::uint64_t>(keys) * 97;
  });
  EXPECT_TRUE(is_served) << cost.mirror_hits << " of " << keys << " keys";
}

TEST_P(Mirror, AMirrorOfAPartOfTheIndexServesThatPart) {
  START_MIRRORED(kNoLookGrowsOld, keys());
  const std::size_t needed = 64 * kMiB;
  ASSERT_GT(needed, 0u);
  kv_ = Connect({.index_mirror_bytes = 14'000});  // four frames, of 64 buckets
  ASSERT_NO_FATAL_FAILURE(GetAll(keys()));
  EXPECT_GT(counters().mirror_hits, 0u);
  kv_ = Connect({.index_mirror_bytes = 1});
  ASSERT_NO_FATAL_FAILURE(GetAll(100));
  EXPECT_EQ(counters().mirror_hits, 0u);
}

TEST_P(Mirror, ASizeThatCannotBeIsRejected) {
  START();
  EXPECT_CODE(kInvalidArgument,
              deployment_->Connect({.index_mirror_bytes = kMaxIndexMirrorBytes + 1}).status());
}

TEST_P(Mirror, BesideACacheOfLocationsItServesTheOtherKeys) {
  START_MIRRORED(kNoLookGrowsOld, 500);
  kv_ = Connect({.location_cache_bytes = 1 << 20, .index_mirror_bytes = 4 * kMiB});
  ASSERT_NO_FATAL_FAILURE(GetAll(500));
  EXPECT_GE(counters().mirror_hits, 490u);
  EXPECT_CODE(kOk, Put(KeyOf(1), "mine"));
  const ClientCounters cost = Cost([&] { EXPECT_EQ(Get(KeyOf(1)), "mine"); });
  EXPECT_EQ(cost.location_hits, 1u);
  EXPECT_EQ(cost.mirror_hits, 0u);
}

// Memory comes round many times, with a grace period so short that looks grow old all the time.
TEST_P(Mirror, ThroughCleaningNoValueIsEverWrong) {
  START({.memory_size = kMinMemorySize, .grace = std::chrono::milliseconds(kMinGraceMs)}, kMirrored);
  const std::unique_ptr<KeyValue> other = Connect(kUnmirrored);
  constexpr unsigned kKeys = 60;
  const std::uint64_t writes = GetParam() == DeploymentKind::kVerbs ? 300 : 1000;
  std::vector<std::uint64_t> written(kKeys, 0);
  std::mt19937 random(11);
  for (std::uint64_t number = 1; number <= writes; ++number) {
    const auto i = static_cast<unsigned>(number <= kKeys ? number - 1 : random() % kKeys);
    // Values have one of a few sizes, so new records come to stand exactly where others stood.
    const std::size_t size = 20'000 * (1 + number % 5);
    const std::string key = KeyOf(static_cast<int>(i));
    ASSERT_CODE(kOk, other->Put(key, MakeValue(key, number, size)));
    written[i] = number;
    if (number % 200 == 0) kv_ = Connect(kMirrored);
    for (int gets = 0; gets < 3; ++gets) {
      const auto j = static_cast<unsigned>(random() % std::min<std::uint64_t>(kKeys, number));
      const std::string wanted = KeyOf(static_cast<int>(j));
      ASSERT_EQ(NumberOf(wanted, Get(wanted)), written[j]) << wanted << " " << number;
    }
  }
  EXPECT_GT(store().Read(Metric::kSegmentsCleaned), 5u);
}

}  // namespace
}  // namespace remora
