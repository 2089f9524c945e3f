// Rejections because of a write that waits for the disk (store/write/sync_queue.h, S6). If a caller is told
// that a key exists, and reads the key, it finds it.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "store/server_store.h"
#include "test_files.h"

namespace remora {
namespace {

Write PutIfAbsent(std::string_view key) {
  Write write;
  write.key = key;
  write.value = "one";
  write.condition = Condition::Absent();
  return write;
}

TEST(RefusedTest, HearsSoWhenWhatItWasRefusedForIsVisible) {
  const TempDir temp;
  StoreOptions options = LoggedIn(temp / "store", kMinMemorySize);
  options.durability = Durability::kSynced;
  options.syncing = Syncing::kInSteps;
  const auto store = *ServerStore::Open(options);
  // The first write raises the version limit, and is therefore synced at once.
  ASSERT_TRUE(store->Put("first", "", {.durability = Durability::kLogged}).ok());
  WriteBatch both;
  both.Put("other", "x");
  both.Put("key", "two", {.condition = Condition::Absent()});
  std::vector<Write> writes = {PutIfAbsent("key"), PutIfAbsent("key")};
  std::string_view bytes = both.bytes();
  while (!bytes.empty()) AddWrite(TakeBatchWrite(&bytes).value(), &writes).with_next = true;
  writes.back().with_next = false;
  writes.push_back(PutIfAbsent("first"));
  store->Submit(writes);
  EXPECT_NE(writes[0].ticket, 0u);
  EXPECT_NE(writes[1].ticket, 0u);
  EXPECT_NE(writes[2].ticket, 0u) << "of a batch, the first one's";
  EXPECT_TRUE(writes[4].ticket == 0 && absl::IsAlreadyExists(writes[4].status)) << "for what is visible";
  std::vector<SyncedWrite> outcomes;
  store->TakeSynced(&outcomes);
  EXPECT_TRUE(outcomes.empty());
  std::string value;
  EXPECT_TRUE(absl::IsNotFound(store->Get("key", &value)));

  EXPECT_TRUE(store->Sync());
  store->TakeSynced(&outcomes);
  ASSERT_EQ(outcomes.size(), 3u);
  EXPECT_TRUE(outcomes[0].status.ok()) << outcomes[0].status;
  EXPECT_TRUE(absl::IsAlreadyExists(outcomes[1].status)) << outcomes[1].status;
  EXPECT_TRUE(absl::IsAlreadyExists(outcomes[2].status)) << outcomes[2].status;
  EXPECT_TRUE(store->Get("key", &value).ok());
  EXPECT_TRUE(absl::IsNotFound(store->Get("other", &value)));
  EXPECT_FALSE(store->Sync()) << "no refusal needs the disk for itself";
}

}  // namespace
}  // namespace remora
