// Records that go from store to store, where the store that takes them has followers: X3 to X8 of
// store/slot_transfer.h.
#include "store/slot_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "replicated_fixture.h"
#include "store/base/moved.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/slot.h"
#include "store/watch.h"

namespace remora {
namespace {

using testing::SizeIs;

constexpr std::uint32_t kFirstUpper = kSlots / 2;

ClusterSlots Lower() {
  ClusterSlots slots;
  slots.Add(0, kFirstUpper - 1);
  return slots;
}
ClusterSlots Upper() {
  ClusterSlots slots;
  slots.Add(kFirstUpper, kSlots - 1);
  return slots;
}

/// Returns the keys NAME<i> of the lower half, or of the upper one.
std::vector<std::string> KeysIn(bool lower, const std::string& name, std::size_t count) {
  std::vector<std::string> keys;
  for (int i = 0; keys.size() < count; ++i) {
    std::string key = absl::StrCat(name, i);
    if ((SlotOf(key) < kFirstUpper) == lower) keys.push_back(std::move(key));
  }
  return keys;
}

/// A primary that has the lower half of the slots, and its follower, which has all.
class SlotTransferTest : public ReplicatedTest, public testing::WithParamInterface<bool> {
 protected:
  SlotTransferTest() : ReplicatedTest(GetParam()) {
    EXPECT_TRUE(primary_->NewSlotTransfer()->Limit(Lower()).ok());
    EXPECT_TRUE(primary_->Promote(&groups_, 0).ok());
    transfer_ = primary_->NewSlotTransfer();
  }
  StoreOptions PartOptions(const std::string& name) {
    StoreOptions options = FollowerOptions(name, std::size_t{32} << 20);
    auto all = std::make_shared<ClusterSlots>();
    all->Add(0, kSlots - 1);
    options.slots = all;
    return options;
  }
  void Deliver() {
    ReplicatedTest::Deliver(*follower_, groups_, groups_.last());
    ASSERT_TRUE(primary_->Acknowledge(groups_.last()).ok());
  }
  void Put(const std::string& key, const std::string& value) {
    Write write = PutOf(key, value);
    SubmitPatiently(*primary_, write);
    ASSERT_NE(write.ticket, 0u) << write.status;
    Deliver();
  }
  /// Takes over by the follower, which has these slots.
  void TakeOver(const ClusterSlots& own) {
    const absl::Status limited = follower_->NewSlotTransfer()->Limit(own);
    ASSERT_TRUE(limited.ok()) << limited;
    later_groups_ = std::make_unique<KeptGroups>(groups_.last() + 1);
    ASSERT_TRUE(follower_->Promote(later_groups_.get(), 0).ok());
  }
  /// Records of another store, whose versions are not in their order.
  std::vector<SlotRecord> Records() const {
    std::vector<SlotRecord> records;
    std::uint64_t version = 1000;
    for (const std::string& key : keys_)
      records.push_back({.key = key, .value = value_, .version = --version});
    return records;
  }

  const std::vector<std::string> keys_ = KeysIn(/*lower=*/false, "copied", 20);
  const std::string value_ = std::string(100, 'c');
  KeptGroups groups_;
  std::unique_ptr<KeptGroups> later_groups_;  // of the follower, once it has taken over
  std::unique_ptr<ServerStore> primary_ = Open(PartOptions("primary"));
  std::unique_ptr<ServerStore> follower_ = Open(PartOptions("follower"));
  std::unique_ptr<SlotTransfer> transfer_;
};

INSTANTIATE_TEST_SUITE_P(Order, SlotTransferTest, testing::Bool(), [](const auto& one) {
  return one.param ? "WithOrderedIndex" : "WithoutOrderedIndex";
});

TEST_P(SlotTransferTest, FollowersGetACopyBeforeItIsShown) {
  Put(KeysIn(true, "own", 1)[0], "1");
  ASSERT_TRUE(transfer_->Check().ok()) << transfer_->Check();
  transfer_->BeginToTake();
  const std::vector<SlotRecord> records = Records();
  const absl::StatusOr<std::uint64_t> group = transfer_->Log(records, 5000);
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_EQ(*group, groups_.last());
  Deliver();
  EXPECT_TRUE(IsMoved(primary_->Locate(keys_[0]).status()));
  EXPECT_THAT(Contents(*primary_), SizeIs(1));
  EXPECT_EQ(Get(*follower_, keys_[0]), value_);
  EXPECT_THAT(Contents(*follower_), SizeIs(21));

  ASSERT_TRUE(transfer_->Take(records, 5000).ok());
  transfer_->Own(Upper());
  EXPECT_EQ(groups_.last(), *group) << "they are logged once";
  EXPECT_EQ(Get(*primary_, keys_[0]), value_);
  EXPECT_EQ(Contents(*primary_), Contents(*follower_));
  const std::vector<SeenEntry> shown = Contents(*primary_);
  const auto first = std::ranges::find(shown, keys_[0], &SeenEntry::key);
  ASSERT_NE(first, shown.end());
  EXPECT_EQ(first->version, 999u) << "X4";
  Put(keys_[3], "later");
  EXPECT_EQ(Get(*follower_, keys_[3]), "later");
  EXPECT_GT(groups_.Read(groups_.last()).last_version, 4999u) << "X4";
}

TEST_P(SlotTransferTest, AFollowerThatStartsAgainHasTheCopy) {
  transfer_->BeginToTake();
  ASSERT_TRUE(transfer_->Log(Records(), 5000).ok());
  Deliver();
  follower_.reset();
  follower_ = Open(PartOptions("follower"));
  EXPECT_EQ(Get(*follower_, keys_[7]), value_);
  ClusterSlots all = Lower();
  all.Add(kFirstUpper, kSlots - 1);
  TakeOver(all);
  EXPECT_THAT(Contents(*follower_), SizeIs(20));
  Write write = PutOf(keys_[7], "later");
  SubmitPatiently(*follower_, write);
  EXPECT_GT(later_groups_->Read(later_groups_->last()).last_version, 4999u) << "X4";
}

TEST_P(SlotTransferTest, ASuccessorShowsNothingOfACopyThatCameToNothing) {  // X8
  const std::string own = KeysIn(true, "own", 1)[0];
  Put(own, "1");
  transfer_->BeginToTake();
  ASSERT_TRUE(transfer_->Log(Records(), 5000).ok());
  Deliver();
  ASSERT_EQ(follower_->Read(Metric::kKeys), 21u);
  TakeOver(Lower());
  EXPECT_EQ(follower_->Read(Metric::kKeys), 1u) << "a reader of its memory would find them";
  EXPECT_TRUE(IsMoved(follower_->Locate(keys_[0]).status()));
  EXPECT_EQ(Get(*follower_, own), "1");
  EXPECT_THAT(Contents(*follower_), SizeIs(1));
}

TEST_P(SlotTransferTest, ASuccessorShowsNoColdKeyOfOthers) {  // X8
  transfer_->BeginToTake();
  ASSERT_TRUE(transfer_->Log(Records(), 5000).ok());
  Deliver();
  const std::vector<std::string> large = KeysIn(true, "large", 40);
  for (const std::string& key : large) Put(key, std::string(std::size_t{1} << 20, 'x'));
  while (follower_->RunMaintenance()) {
  }
  ASSERT_GT(follower_->Read(Metric::kColdKeys), 0u);
  TakeOver(Lower());
  EXPECT_EQ(follower_->Read(Metric::kKeys), 40u);
  EXPECT_THAT(Contents(*follower_), SizeIs(40));
}

TEST_P(SlotTransferTest, AFollowerEvictsNoCopyThatRocksdbLacks) {  // X5
  for (const std::string& key : KeysIn(true, "first", 3)) Put(key, std::string(1000, 'x'));
  Contents(*follower_);  // RocksDB has all versions so far, which are greater than those of the copy
  std::vector<SlotRecord> records = Records();
  for (std::size_t i = 0; i < records.size(); ++i) records[i].version = i + 1;
  transfer_->BeginToTake();
  ASSERT_TRUE(transfer_->Log(records, 5).ok());
  Deliver();
  EXPECT_EQ(follower_->Read(Metric::kCommitLogUnapplied), 0u);
  for (const std::string& key : KeysIn(true, "large", 60)) {
    Put(key, std::string(std::size_t{1} << 20, 'x'));
    for (const std::string& copied : keys_) ASSERT_EQ(Get(*follower_, copied), value_) << copied;
  }
  EXPECT_GT(follower_->Read(Metric::kColdKeys), 0u);
}

TEST_P(SlotTransferTest, FollowersForgetWhatWasGiven) {  // X3, X6
  ClusterSlots given;
  const std::string key = KeysIn(true, "own", 1)[0];
  given.Add(SlotOf(key), SlotOf(key));
  Put(key, "1");
  transfer_->BeginToGive(given);
  transfer_->Close(given);
  ASSERT_TRUE(transfer_->IsQuiet());
  const SlotTransfer::GivenKey gone{.key = key};
  ASSERT_TRUE(transfer_->Give(given, {&gone, 1}).ok());
  Deliver();
  EXPECT_EQ(Get(*follower_, key), "1");
  ASSERT_TRUE(transfer_->Forget({&key, 1}).ok());
  Deliver();
  EXPECT_EQ(Get(*follower_, key), "NOT_FOUND");
}

TEST_P(SlotTransferTest, AWriteIsPendingUntilTheFollowersHaveIt) {
  ClusterSlots given;
  const std::string key = KeysIn(true, "own", 1)[0];
  given.Add(SlotOf(key), SlotOf(key));
  transfer_->BeginToGive(given);
  Write write = PutOf(key, "1");
  SubmitPatiently(*primary_, write);
  transfer_->Close(given);
  EXPECT_FALSE(transfer_->IsQuiet());
  EXPECT_EQ(transfer_->changed(), 0u);
  Deliver();
  EXPECT_TRUE(transfer_->IsQuiet());
  EXPECT_EQ(transfer_->changed(), 1u);
  Write late = PutOf(key, "2");
  primary_->Submit({&late, 1});
  EXPECT_TRUE(IsMoved(late.status)) << late.status;
}

TEST_P(SlotTransferTest, AWatchShowsNoCopy) {  // X6
  auto watch = primary_->Watch(WatchOptions{});
  ASSERT_TRUE(watch.ok()) << watch.status();
  transfer_->BeginToTake();
  ASSERT_TRUE(transfer_->Log(Records(), 5000).ok());
  Deliver();
  const std::string own = KeysIn(true, "own", 1)[0];
  Put(own, "1");
  const absl::StatusOr<bool> came = (*watch)->Next(std::chrono::milliseconds(0));
  ASSERT_TRUE(came.ok()) << came.status();
  ASSERT_TRUE(*came);
  EXPECT_EQ((*watch)->key(), own);
}

}  // namespace
}  // namespace remora
