// A store that has a part of the slots (store/engine/owned_slots.h): writes of others, and records of others
// on its disk, which stay there and are not shown.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cold_fixture.h"
#include "replicated_fixture.h"
#include "store/base/moved.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/slot.h"
#include "store/format/memory/index_view.h"
#include "store/options.h"
#include "store/server_store.h"
#include "twin_keys.h"

namespace remora {
namespace {

using std::chrono::hours;

constexpr std::uint32_t kHalf = kSlots / 2;

std::shared_ptr<const ClusterSlots> LowerHalf() {
  auto slots = std::make_shared<ClusterSlots>();
  slots->Add(0, kHalf - 1);
  return slots;
}
bool IsLower(std::string_view key) { return SlotOf(key) < kHalf; }

/// Returns the first key NAME<number> of the lower half, or of the upper one.
std::string KeyIn(bool lower, const std::string& name) {
  for (int i = 0;; ++i) {
    std::string key = absl::StrCat(name, i);
    if (IsLower(key) == lower) return key;
  }
}

TEST(OwnedSlotsTest, APutToAnotherSlotDoesNothing) {
  StoreOptions options;
  options.memory_size = kMinMemorySize;
  options.slots = LowerHalf();
  auto opened = ServerStore::Open(options);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const std::unique_ptr<ServerStore> store = *std::move(opened);
  std::size_t owned = 0;
  for (int i = 0; i < 100; ++i) {
    // The slot is that of the tag, if there is one.
    const std::string key = i % 2 == 0 ? absl::StrCat("key ", i) : absl::StrCat("key {", i, "}");
    const bool is_owned = IsLower(key);
    const absl::Status put = store->Put(key, "value");
    EXPECT_EQ(put.ok(), is_owned) << key << ": " << put;
    EXPECT_EQ(IsMoved(put), !is_owned) << key << ": " << put;
    EXPECT_EQ(store->Get(key).ok(), is_owned) << key;
    owned += is_owned ? 1 : 0;
  }
  EXPECT_GT(owned, 20u);
  EXPECT_LT(owned, 80u);
  EXPECT_EQ(store->Read(Metric::kMovedRequests), 100 - owned);
}

TEST(OwnedSlotsTest, TheSuperblockSaysWhetherTheStoreHasAPart) {
  StoreOptions options;
  options.memory_size = kMinMemorySize;
  EXPECT_EQ((*ServerStore::Open(options))->superblock().slots_word, 0u);
  options.slots = LowerHalf();
  EXPECT_EQ((*ServerStore::Open(options))->superblock().slots_word, kFirstSlotsWord);
}

// --- Records of other slots on the disk --------------------------------------------------------------------

class RecordsOfOtherSlots : public ColdFixture {
 protected:
  void OpenAll() {
    options_.slots = nullptr;
    ASSERT_NO_FATAL_FAILURE(Open());
  }
  void OpenLower(Loading loading = Loading::kInOpen) {
    options_.slots = LowerHalf();
    ASSERT_NO_FATAL_FAILURE(Open(loading));
  }
  void LoadAll() {
    while (store_->Load()) clock_.Advance(kPatience);
    ASSERT_FALSE(store_->loading()) << store_->load_status();
  }
  void PutWithTtl(const std::string& key, const std::string& value, std::chrono::milliseconds ttl) {
    Write write = WriteOf(Write::Kind::kPut, key, value);
    write.ttl = ttl;
    ASSERT_TRUE(CommitPatiently(*store_, clock_, write).ok());
  }
  void Maintain() {
    while (store_->RunMaintenance()) {
    }
  }
  /// Returns the value by a read in this process, or the name of the status.
  std::string Read(const std::string& key) {
    std::string value;
    const absl::Status status = store_->Get(key, &value);
    return status.ok() ? value : absl::StatusCodeToString(status.code());
  }
  std::vector<std::string> Scanned() {
    auto scan = store_->Scan({});
    EXPECT_TRUE(scan.ok()) << scan.status();
    std::vector<std::string> keys;
    while (scan.ok() && (*scan)->Next()) keys.emplace_back((*scan)->key());
    return keys;
  }
};

/// How the store is opened: how it loads, and whether it has an ordered index, and a commit log.
class EachLoad : public RecordsOfOtherSlots,
                 public testing::WithParamInterface<std::tuple<Loading, bool, bool>> {
 protected:
  EachLoad() {
    options_.ordered_index = std::get<1>(GetParam());
    if (std::get<2>(GetParam())) options_.commit_log_bytes = std::size_t{64} << 20;
    Open();
  }
  void Fill() {
    for (int i = 0; i < 200; ++i) stored_[absl::StrCat("key ", i)] = absl::StrCat("value ", i);
    for (int i = 0; i < 6; ++i) stored_[absl::StrCat("large ", i)] = std::string(300'000, 'l');
    for (const auto& [key, value] : stored_) ASSERT_NO_FATAL_FAILURE(Put(key, value));
  }
  std::vector<std::string> Owned() const {
    std::vector<std::string> keys;
    for (const auto& [key, value] : stored_) {
      if (IsLower(key)) keys.push_back(key);
    }
    return keys;
  }
  void ExpectOwnedAlone() {
    EXPECT_THAT(Scanned(), testing::ElementsAreArray(Owned()));
    EXPECT_EQ(store_->Count().value_or(0), Owned().size());
    EXPECT_EQ(store_->Count(RangeOptions{.prefix = "key "}).value_or(0) +
                  store_->Count(RangeOptions{.prefix = "large "}).value_or(0),
              Owned().size());
    for (const auto& [key, value] : stored_) {
      EXPECT_EQ(Read(key), IsLower(key) ? value : "NOT_FOUND") << key;
      EXPECT_EQ(store_->Exists(key).value_or(!IsLower(key)), IsLower(key)) << key;
      EXPECT_EQ(Get(key), IsLower(key) ? value : "FAILED_PRECONDITION") << key;
    }
  }

  std::map<std::string, std::string> stored_;
};

INSTANTIATE_TEST_SUITE_P(
    OwnedSlots, EachLoad,
    testing::Combine(testing::Values(Loading::kInOpen, Loading::kInSteps), testing::Bool(), testing::Bool()),
    [](const auto& test) {
      return absl::StrCat(std::get<0>(test.param) == Loading::kInOpen ? "InOpen" : "InSteps",
                          std::get<1>(test.param) ? "Ordered" : "", std::get<2>(test.param) ? "WithLog" : "");
    });

TEST_P(EachLoad, ShowsNoRecordOfAnotherSlotAndKeepsIt) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  ASSERT_NO_FATAL_FAILURE(OpenLower(std::get<0>(GetParam())));
  ExpectOwnedAlone();
  ASSERT_NO_FATAL_FAILURE(LoadAll());
  ExpectOwnedAlone();
  EXPECT_EQ(store_->Read(Metric::kKeys), Owned().size());
  ASSERT_NO_FATAL_FAILURE(OpenAll());
  EXPECT_EQ(store_->Count().value_or(0), stored_.size());
  for (const auto& [key, value] : stored_) EXPECT_EQ(Get(key), value) << key;
}

TEST_P(EachLoad, ADeletionOfARangeLeavesThemAlone) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  ASSERT_NO_FATAL_FAILURE(OpenLower(std::get<0>(GetParam())));
  std::size_t deleted = 0;
  for (const std::string& key : Owned()) deleted += absl::StartsWith(key, "key 1") ? 1 : 0;
  EXPECT_EQ(store_->DeleteRange({.prefix = "key 1"}).value_or(0), deleted);
  EXPECT_EQ(store_->Read(Metric::kMovedRequests), 0u);
  ASSERT_NO_FATAL_FAILURE(LoadAll());
  EXPECT_EQ(store_->Count().value_or(0), Owned().size() - deleted);
  EXPECT_EQ(store_->DeleteAll().value_or(0), Owned().size() - deleted);
  EXPECT_EQ(store_->Read(Metric::kMovedRequests), 0u);
  ASSERT_NO_FATAL_FAILURE(OpenAll());
  for (const auto& [key, value] : stored_) EXPECT_EQ(Get(key), IsLower(key) ? "NOT_FOUND" : value) << key;
}

TEST_F(RecordsOfOtherSlots, StayWhenTheyHaveExpired) {
  const std::string own = KeyIn(true, "key "), other = KeyIn(false, "key ");
  ASSERT_NO_FATAL_FAILURE(PutWithTtl(own, "1", hours(1)));
  ASSERT_NO_FATAL_FAILURE(PutWithTtl(other, "2", hours(1)));
  clock_.Advance(hours(2));
  ASSERT_NO_FATAL_FAILURE(OpenLower());
  Maintain();
  store_.reset();
  clock_.StepUnix(-hours(2));
  ASSERT_NO_FATAL_FAILURE(OpenAll());
  EXPECT_EQ(Get(own), "NOT_FOUND") << "the load has removed it";
  EXPECT_EQ(Get(other), "2");
}

// A cold entry has only a hash. That of a key may be that of a key of another slot.
TEST_F(RecordsOfOtherSlots, DoNotPassForAColdKeyOfTheirHash) {
  const std::string own = kTaggedTwin, other = kOtherTaggedTwin, due = "z";
  ASSERT_EQ(EncodeColdSlot(HashKey(own)), EncodeColdSlot(HashKey(other)));
  ASSERT_NE(SlotOf(own), SlotOf(other));
  const std::string value(16'000, 'v');  // as large as all that is loaded before
  ASSERT_NO_FATAL_FAILURE(PutWithTtl(own, value, hours(1000)));
  ASSERT_NO_FATAL_FAILURE(PutWithTtl(other, value, hours(1)));
  ASSERT_NO_FATAL_FAILURE(PutWithTtl(due, value, hours(1)));
  ASSERT_NO_FATAL_FAILURE(EvictAll());
  auto slots = std::make_shared<ClusterSlots>();
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    if (slot != SlotOf(other)) slots->Add(slot, slot);
  }
  options_.slots = slots;
  ASSERT_NO_FATAL_FAILURE(Open());  // in the order of keys, so these keys are cold
  EXPECT_EQ(Read(other), "NOT_FOUND");
  clock_.Advance(hours(2));
  Maintain();
  EXPECT_EQ(store_->Read(Metric::kExpired), 1u);
  EXPECT_EQ(Read(other), "NOT_FOUND");
  const std::uint64_t fetched = store_->Read(Metric::kFetches);
  EXPECT_EQ(Get(own), value);
  EXPECT_EQ(store_->Read(Metric::kFetches), fetched + 1) << "it was cold";
  store_.reset();
  clock_.StepUnix(-hours(2));
  ASSERT_NO_FATAL_FAILURE(OpenAll());
  EXPECT_EQ(Get(other), value);
}

// --- A store that follows ----------------------------------------------------------------------------------

class FollowedSlots : public ReplicatedTest {};

TEST_F(FollowedSlots, GroupsOfAPrimaryThatHadMoreSlots) {
  const std::unique_ptr<ServerStore> primary = Open(Options("primary"));
  KeptGroups groups;
  ASSERT_TRUE(primary->SetGroupSink(&groups).ok());
  StoreOptions options = FollowerOptions("follower");
  options.slots = LowerHalf();
  std::unique_ptr<ServerStore> follower = Open(options);
  const std::string own = KeyIn(true, "key "), other = KeyIn(false, "key "), gone = KeyIn(false, "gone ");
  for (Write write : {PutOf(gone, "1"), PutOf(own, "1"), PutOf(other, "1"), DeleteOf(gone)}) {
    SubmitPatiently(*primary, write);
    Deliver(*follower, groups, groups.last());
    ASSERT_TRUE(primary->Acknowledge(groups.last()).ok());
  }
  EXPECT_EQ(Get(*follower, own), "1");
  EXPECT_EQ(Get(*follower, other), "NOT_FOUND");
  EXPECT_THAT(Contents(*follower), testing::SizeIs(1));
  EXPECT_EQ(follower->Read(Metric::kKeys), 1u);
  ASSERT_TRUE(follower->Promote().ok());
  EXPECT_EQ(Get(*follower, other), "NOT_FOUND");
  follower.reset();
  follower = Open(FollowerOptions("follower"));
  EXPECT_EQ(Get(*follower, own), "1");
  EXPECT_EQ(Get(*follower, other), "1");
  EXPECT_EQ(Get(*follower, gone), "NOT_FOUND");
}

TEST(OwnedSlotsTest, MetricsTellOfTheSlots) {
  StoreOptions options;
  options.memory_size = kMinMemorySize;
  ClusterSlots all;
  all.Add(0, kSlots - 1);
  auto store = ServerStore::Open(options);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->Read(Metric::kOwnedSlots), kSlots);
  EXPECT_EQ((*store)->Read(Metric::kOwnedSlotsChecksum), SlotsChecksum(all));
  const auto slots = std::make_shared<ClusterSlots>();
  slots->Add(5, 8);
  slots->Add(kSlots - 1, kSlots - 1);
  options.slots = slots;
  store = ServerStore::Open(options);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->Read(Metric::kOwnedSlots), 5u);
  EXPECT_EQ((*store)->Read(Metric::kOwnedSlotsChecksum), SlotsChecksum(*slots));
}

TEST(OwnedSlotsTest, AChecksumIsOfTheSlotsAndOfNothingElse) {
  // Part of the format: servers and tools of different releases compare it.
  EXPECT_EQ(SlotsChecksum(*SlotsIn("0-8191")), 121679425u);
  EXPECT_EQ(SlotsChecksum(*SlotsIn("2,0-1,3")), SlotsChecksum(*SlotsIn("0-3")));
  EXPECT_NE(SlotsChecksum(*SlotsIn("0-3")), SlotsChecksum(*SlotsIn("1-4")));
  EXPECT_LT(SlotsChecksum(*SlotsIn("0-3")), std::uint64_t{1} << 32);
}

}  // namespace
}  // namespace remora
