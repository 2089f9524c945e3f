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

// Opens a synced store that has the key "first". The write of that raises the version limit, and is therefore
// synced at once; later ones wait for Sync.
std::unique_ptr<ServerStore> OpenWithFirst(const std::string& dir) {
  StoreOptions options = LoggedIn(dir, kMinMemorySize);
  options.durability = Durability::kSynced;
  options.syncing = Syncing::kInSteps;
  std::unique_ptr<ServerStore> store = *ServerStore::Open(options);
  EXPECT_TRUE(store->Put("first", "", {.durability = Durability::kLogged}).ok());
  return store;
}

TEST(RejectedTest, HearsSoWhenWhatItWasRejectedForIsVisible) {
  const TempDir temp;
  const std::unique_ptr<ServerStore> store = OpenWithFirst(temp / "store");
  WriteBatch both;
  both.Put("other", "x");
  both.Put("key", "two", {.condition = Condition::Absent()});
  std::vector<Write> writes = {PutIfAbsent("key"), PutIfAbsent("key")};
  std::string_view bytes = both.bytes();
  while (!bytes.empty()) AddWrite(TakeBatchWrite(&bytes).value(), &writes).continues_batch = true;
  writes.back().continues_batch = false;
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
  EXPECT_FALSE(store->Sync()) << "no rejection needs the disk for itself";
}

TEST(RejectedTest, WaitsForTheWritesByWhichItsChecksHold) {
  const TempDir temp;
  const std::unique_ptr<ServerStore> store = OpenWithFirst(temp / "store");
  std::vector<Write> writes = {PutIfAbsent("key")};
  const auto add = [&writes](const WriteBatch& batch) {
    const std::size_t first = writes.size();
    std::string_view bytes = batch.bytes();
    while (!bytes.empty()) AddWrite(TakeBatchWrite(&bytes).value(), &writes).continues_batch = true;
    writes.back().continues_batch = false;
    writes[first].begins_batch = true;
    writes[first].durability = Durability::kLogged;
  };
  WriteBatch one;
  one.Put("other", "x");
  one.Check("key", Condition::Present());
  add(one);
  WriteBatch checks;
  checks.Check("key", Condition::Present());
  checks.Check("first", Condition::Present());
  add(checks);
  WriteBatch apart;
  apart.Put("third", "x");
  apart.Check("first", Condition::Present());
  add(apart);
  store->Submit(writes);
  EXPECT_NE(writes[0].ticket, 0u);
  EXPECT_NE(writes[1].ticket, 0u) << "its check holds by a write that waits";
  EXPECT_NE(writes[3].ticket, 0u) << "and so do those of checks alone";
  EXPECT_TRUE(writes[5].ticket == 0 && writes[5].status.ok()) << "by what is visible";
  std::string value;
  EXPECT_TRUE(absl::IsNotFound(store->Get("other", &value)));
  EXPECT_TRUE(store->Get("third", &value).ok());
  EXPECT_TRUE(store->Sync());
  std::vector<SyncedWrite> outcomes;
  store->TakeSynced(&outcomes);
  ASSERT_EQ(outcomes.size(), 3u);
  for (const SyncedWrite& outcome : outcomes) EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_TRUE(store->Get("other", &value).ok());
  EXPECT_FALSE(store->Sync());
}

}  // namespace
}  // namespace remora
