// Reads at a server that has a part of the slots. A miss counts only if the server has said that the key's
// slot is its own (client/session/known_slots.h); a hit costs what it costs elsewhere.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/session/known_slots.h"
#include "store/base/moved.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/slot.h"
#include "store/region/atomic_word.h"
#include "tests/conformance/async_fixture.h"

namespace remora {
namespace {

// So long that, however slow the machine, no look grows old in a test that counts READs.
constexpr std::chrono::milliseconds kLongGrace{60'000};
constexpr std::uint32_t kOwnSlots = kSlots / 2;

class OwnSlots : public Async {
 protected:
  /// Starts a server that has the lower half of the slots, and a client that remembers no locations.
  void StartHalf(const ClientOptions& client = {.location_cache_bytes = 0}) {
    ClusterSlots slots;
    slots.Add(0, kOwnSlots - 1);
    Start({.grace = kLongGrace, .slots = std::make_shared<const ClusterSlots>(slots)}, client);
  }
  /// Returns the key NAME{number}, with the first number that has such a slot.
  static std::string KeyIn(bool own, const std::string& name) {
    for (int i = 0;; ++i) {
      std::string key = name + "{" + std::to_string(i) + "}";
      if ((SlotOf(key) < kOwnSlots) == own) return key;
    }
  }
  /// Returns the outcomes of all calls that read the key.
  std::vector<absl::Status> ReadsOf(const std::string& key) {
    Client& client = *kv_->client();
    std::string value;
    std::vector<std::byte> memory(64);
    const std::unique_ptr<RegisteredBuffer> buffer = *client.Register(memory);
    const std::vector<std::string_view> keys(3, key);
    std::vector<GetResult> results(keys.size());
    EXPECT_CODE(kOk, client.MultiGet(keys, results));
    const auto is_there = [](const absl::StatusOr<bool>& exists) {
      if (!exists.ok()) return exists.status();
      return *exists ? absl::OkStatus() : absl::NotFoundError("");
    };
    std::vector<absl::Status> reads = {client.Get(key, &value), client.Get(key, *buffer).status(),
                                       client.Visit(key, [](std::string_view) {}),
                                       is_there(client.Exists(key)), client.Ttl(key).status()};
    for (const GetResult& result : results) reads.push_back(result.status);
    reads.push_back(AsyncGet(key).status);
    reads.push_back(Do([&](AsyncClient::Done done) { return async_->Exists(key, std::move(done)); }).status);
    reads.push_back(Do([&](AsyncClient::Done done) { return async_->Ttl(key, std::move(done)); }).status);
    return reads;
  }
  /// Returns the growth of the client's counters by a miss of the key.
  ClientCounters CostOfMiss(const std::string& key) {
    const ClientCounters before = kv_->client()->counters();
    EXPECT_CODE(kNotFound, GetStatus(key));
    return kv_->client()->counters() - before;
  }
  /// Sets the word as a server would that gives a slot away.
  void SetWord(std::uint64_t word) {
    StoreWord(const_cast<Superblock&>(store().superblock()).slots_word, word, std::memory_order_release);
  }
};

INSTANTIATE_TEST_SUITE_P(On, OwnSlots,
                         testing::Values(DeploymentKind::kLocal, DeploymentKind::kTcp, DeploymentKind::kTls,
                                         DeploymentKind::kVerbs, DeploymentKind::kSim),
                         [](const auto& test) { return NameOf(test.param); });

#define START_HALF(...)   \
  StartHalf(__VA_ARGS__); \
  if (IsSkipped() || HasFatalFailure()) return

TEST_P(OwnSlots, NoReadMissesAKeyOfAnotherSlot) {
  START_HALF();
  ConnectAsync();
  const std::string other = KeyIn(false, "key");
  for (int round = 0; round < 2; ++round) {
    for (const absl::Status& status : ReadsOf(other)) EXPECT_TRUE(IsMoved(status)) << status;
  }
}

TEST_P(OwnSlots, ReadsOfItsOwnSlotsAreAsElsewhere) {
  START_HALF();
  ConnectAsync();
  const std::string own = KeyIn(true, "key");
  for (int round = 0; round < 2; ++round) {
    for (const absl::Status& status : ReadsOf(own)) EXPECT_CODE(kNotFound, status);
  }
  ASSERT_CODE(kOk, Put(own, "value"));
  for (const absl::Status& status : ReadsOf(own)) EXPECT_CODE(kOk, status);
  ASSERT_CODE(kOk, Delete(own));
  for (const absl::Status& status : ReadsOf(own)) EXPECT_CODE(kNotFound, status);
}

TEST_P(OwnSlots, AMissAsksForItsSlotOnce) {
  START_HALF();
  const std::string first = KeyIn(true, "first"), second = "second" + first.substr(first.find('{'));
  ASSERT_EQ(SlotOf(first), SlotOf(second));
  EXPECT_EQ(CostOfMiss(first).locates, 1u);
  const std::uint64_t asked = store().Read(Metric::kLocates);
  for (const std::string& key : {first, second}) {
    const ClientCounters cost = CostOfMiss(key);
    EXPECT_EQ(cost.locates, 0u) << key;
    EXPECT_EQ(cost.requests, 0u) << key;
    // The word is a READ where memory is not mapped.
    EXPECT_EQ(cost.reads, GetParam() == DeploymentKind::kLocal ? 1u : 2u) << key;
  }
  EXPECT_EQ(store().Read(Metric::kLocates), asked);
}

TEST_P(OwnSlots, AHitCostsNothingMore) {
  START_HALF();
  const std::string own = KeyIn(true, "key");
  ASSERT_CODE(kOk, Put(own, "value"));
  const ClientCounters before = kv_->client()->counters();
  EXPECT_EQ(Get(own), "value");
  const ClientCounters cost = kv_->client()->counters() - before;
  EXPECT_EQ(cost.reads, 2u);
  EXPECT_EQ(cost.requests, 0u);
}

TEST_P(OwnSlots, AMissDoesNotCountOnceTheWordHasChanged) {
  START_HALF();
  const std::string own = KeyIn(true, "key"), tag = own.substr(own.find('{'));
  EXPECT_EQ(CostOfMiss(own).locates, 1u);
  EXPECT_EQ(CostOfMiss(own).locates, 0u);
  SetWord(kFirstSlotsWord + 1);
  EXPECT_EQ(CostOfMiss(own).locates, 1u);
  EXPECT_EQ(CostOfMiss("other" + tag).locates, 0u) << "the client has learned the new word";
  SetWord(kFirstSlotsWord);
  EXPECT_EQ(CostOfMiss(own).locates, 1u) << "it remembers one word";
}

TEST_P(OwnSlots, ManyMissesOfACallAskForTheirSlots) {
  START_HALF();
  std::vector<std::string> names;
  for (int i = 0; i < 40; ++i) names.push_back(KeyIn(i % 2 == 0, "key" + std::to_string(i)));
  const std::vector<std::string_view> keys(names.begin(), names.end());
  for (int round = 0; round < 2; ++round) {
    std::vector<GetResult> results(keys.size());
    ASSERT_CODE(kOk, kv_->MultiGet(keys, results));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      EXPECT_EQ(results[i].status.code(),
                i % 2 == 0 ? absl::StatusCode::kNotFound : absl::StatusCode::kFailedPrecondition);
      EXPECT_EQ(IsMoved(results[i].status), i % 2 != 0) << results[i].status;
    }
  }
}

TEST_P(OwnSlots, AClientWithAMirrorDoesTheSame) {
  START_HALF({.index_mirror_bytes = std::size_t{4} << 20});
  const std::string own = KeyIn(true, "key"), other = KeyIn(false, "key");
  EXPECT_EQ(CostOfMiss(own).locates, 1u);
  EXPECT_EQ(CostOfMiss(own).locates, 0u);
  EXPECT_TRUE(IsMoved(GetStatus(other)));
  ASSERT_CODE(kOk, Put(own, "value"));
  EXPECT_EQ(Get(own), "value");
}

TEST(KnownSlotsTest, ProveAMissWithOneWord) {
  KnownSlots slots;
  EXPECT_FALSE(slots.compares());
  slots.Begin(0);
  slots.Learn(7, 1);
  EXPECT_FALSE(slots.compares()) << "the server has all slots";
  slots.Begin(1);
  ASSERT_TRUE(slots.compares());
  EXPECT_FALSE(slots.Has(7));
  EXPECT_FALSE(slots.Proves(7, 1));
  slots.Learn(7, 1);
  slots.Learn(8, 0);  // no server says so
  EXPECT_TRUE(slots.Proves(7, 1));
  EXPECT_FALSE(slots.Proves(7, 2));
  EXPECT_FALSE(slots.Has(8));
  slots.Learn(8, 2);
  EXPECT_TRUE(slots.Proves(8, 2));
  EXPECT_FALSE(slots.Has(7)) << "another word";
  slots.Begin(2);
  EXPECT_FALSE(slots.Has(8)) << "another connection";
  slots.Begin(0);
  EXPECT_FALSE(slots.compares());
}

}  // namespace
}  // namespace remora
