// A store that has a part of the slots: puts by the fast path, which takes the plain puts of a store in
// memory.
#include <gtest/gtest.h>

#include <cstddef>
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

}  // namespace
}  // namespace remora
