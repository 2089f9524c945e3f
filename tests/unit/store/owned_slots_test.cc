// A store that has a part of the slots: puts by the fast path, which takes the plain puts of a store in
// memory.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/base/moved.h"
#include "store/format/cluster/cluster_slots.h"
#include "store/format/cluster/slot.h"
#include "store/options.h"
#include "store/server_store.h"

namespace remora {
namespace {

TEST(OwnedSlotsTest, APutToAnotherSlotDoesNothing) {
  StoreOptions options;
  options.memory_size = kMinMemorySize;
  auto opened = ServerStore::Open(options);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const std::unique_ptr<ServerStore> store = *std::move(opened);
  ClusterSlots slots;
  slots.Add(0, kSlots / 2 - 1);
  store->SetSlots(slots);
  std::size_t owned = 0;
  for (int i = 0; i < 100; ++i) {
    // The slot is that of the tag, if there is one.
    const std::string key = i % 2 == 0 ? absl::StrCat("key ", i) : absl::StrCat("key {", i, "}");
    const bool is_owned = SlotOf(key) < kSlots / 2;
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

TEST(OwnedSlotsTest, MetricsTellOfTheSlots) {
  StoreOptions options;
  options.memory_size = kMinMemorySize;
  auto opened = ServerStore::Open(options);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const std::unique_ptr<ServerStore> store = *std::move(opened);
  ClusterSlots all;
  all.Add(0, kSlots - 1);
  EXPECT_EQ(store->Read(Metric::kOwnedSlots), kSlots);
  EXPECT_EQ(store->Read(Metric::kOwnedSlotsChecksum), SlotsChecksum(all));
  ClusterSlots slots;
  slots.Add(5, 8);
  slots.Add(kSlots - 1, kSlots - 1);
  store->SetSlots(slots);
  EXPECT_EQ(store->Read(Metric::kOwnedSlots), 5u);
  EXPECT_EQ(store->Read(Metric::kOwnedSlotsChecksum), SlotsChecksum(slots));
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
