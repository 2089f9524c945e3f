// Writes that are on disk before any reader sees them (store/write/sync_queue.h), step by step: the store
// calls fsync when the test says so.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "patient_writes.h"
#include "store/base/shortage.h"
#include "store/delete_range.h"
#include "store/scan.h"
#include "store/server_store.h"
#include "synced_fixture.h"
#include "test_files.h"
#include "tests/support/manual_clock.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

TEST_F(SyncedTest, AWriteIsVisibleWhenTheDiskHasIt) {
  EXPECT_EQ(Submit({PutOf("key", "one")}), Outcomes{"pending"});
  EXPECT_EQ(Get("key"), "NOT_FOUND");
  const std::vector<SyncedWrite> outcomes = Sync();
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].ticket, tickets_[0]);
  EXPECT_TRUE(outcomes[0].status.ok());
  EXPECT_EQ(Get("key"), "one");
  std::uint64_t version = 0;
  std::string value;
  ASSERT_TRUE(store_->Get("key", &value, &version).ok());
  EXPECT_EQ(outcomes[0].version, version);
  EXPECT_EQ(store_->Locate("key")->slot, outcomes[0].slot);
  EXPECT_FALSE(store_->Sync()) << "nothing is left to do";
  const auto stats = store_->Stats();
  const auto count = [&stats](std::string_view name) {
    return std::ranges::find(stats, name, &std::pair<std::string, std::uint64_t>::first)->second;
  };
  EXPECT_EQ(count("sync_time_count"), count("syncs"));
  EXPECT_EQ(count("commit_groups"), 2u);
  EXPECT_EQ(count("rocksdb_write_time_count"), 1u) << "both groups came at the same time";
}

/// Makes each fsync of the store's log fail, as one of /dev/null does. Writes succeed.
void BreakLog(const std::string& dir) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;  // the iterator's own descriptor may be gone
    const std::string file = std::filesystem::read_symlink(entry.path(), error).string();
    if (!file.starts_with(dir) || !file.ends_with(".log")) continue;
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    ASSERT_GE(dup2(null, std::stoi(entry.path().filename())), 0);
    close(null);
  }
}

// Nothing that was pending becomes visible, so it needs no memory either; nor do writes that are rejected
// from then on.
TEST_F(SyncedTest, AFailedFsyncHoldsNoMemory) {
  ASSERT_NO_FATAL_FAILURE(Open(std::size_t{32} << 20));
  constexpr std::size_t kLarge = std::size_t{3} << 20;
  const std::uint64_t used = store_->Read(Metric::kLogBytesUsed);
  const std::uint64_t free = store_->Read(Metric::kMemoryBytesFree);
  const auto pending = store_->Reserve(3, kLarge);
  ASSERT_TRUE(pending.ok());
  std::vector<Write> writes = {PutOf("small", "value"), PutOf("", "")};
  writes[1].reserved = &*pending;
  EXPECT_EQ(Submit(writes), (Outcomes{"pending", "pending"}));
  ASSERT_NO_FATAL_FAILURE(BreakLog(temp_ / "store"));
  for (const SyncedWrite& outcome : Sync()) {
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kUnavailable) << outcome.status;
    EXPECT_TRUE(IsDiskFailure(outcome.status));
  }
  EXPECT_EQ(Get("small"), "NOT_FOUND");
  EXPECT_EQ(store_->Read(Metric::kLogBytesUsed), used);
  EXPECT_EQ(store_->Read(Metric::kMemoryBytesFree), free);
  for (int round = 0; round < 20; ++round) {
    const auto reservation = store_->Reserve(3, kLarge);
    ASSERT_TRUE(reservation.ok()) << "round " << round << ": " << reservation.status();
    std::vector<Write> rejected = {PutOf("", "")};
    rejected[0].reserved = &*reservation;
    EXPECT_EQ(Submit(rejected), Outcomes{"UNAVAILABLE"});
    EXPECT_EQ(store_->Read(Metric::kMemoryBytesFree), free);
  }
}

// A server deletes a range in steps, because it serves other clients meanwhile. No step calls fsync. Between
// two steps, other clients write, and read their writes.
TEST_F(SyncedTest, ARangeIsDeletedInStepsThatDoNotWaitForTheDisk) {
  constexpr std::uint64_t kKeys = 1000;
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_TRUE(store_->Put("range " + std::to_string(i), "", {.durability = Durability::kLogged}).ok());
  }
  const auto deletion = store_->BeginDeleteRange({.prefix = "range "});
  ASSERT_TRUE(deletion.ok()) << deletion.status();
  const std::uint64_t syncs = store_->Read(Metric::kSyncs);
  std::uint64_t asked = 0;
  std::size_t steps = 0;
  for (;; ++steps) {
    ASSERT_LT(steps, 100u);
    const absl::StatusOr<bool> more = (*deletion)->StepWithoutWaiting();
    ASSERT_EQ(store_->Read(Metric::kSyncs), syncs + asked) << "a step asked the disk";
    const std::string other = "other " + std::to_string(steps);
    EXPECT_EQ(Submit({PutOf(other, "served", Durability::kLogged)}), Outcomes{"OK"});
    EXPECT_EQ(Get(other), "served");
    if (absl::IsAborted(more.status())) {  // readers see the deleted keys until the fsync
      const std::uint64_t keys = store_->Count().value();
      Sync();
      ++asked;
      EXPECT_LT(store_->Count().value(), keys);
      continue;
    }
    ASSERT_TRUE(more.ok()) << more.status();
    if (!*more) break;
  }
  EXPECT_EQ((*deletion)->deleted(), kKeys);
  EXPECT_EQ(asked, (kKeys + 255) / 256) << "one for each step that deletes";
  EXPECT_EQ(Get("range 7"), "NOT_FOUND");
}

TEST_F(SyncedTest, TheValueBeforeIsReadUntilThen) {
  ASSERT_TRUE(store_->Put("key", "old").ok());
  EXPECT_EQ(Submit({PutOf("key", "new")}), Outcomes{"pending"});
  EXPECT_EQ(Get("key"), "old");
  Sync();
  EXPECT_EQ(Get("key"), "new");
  EXPECT_EQ(Submit({DeleteOf("key")}), Outcomes{"pending"});
  EXPECT_EQ(Get("key"), "new");
  Sync();
  EXPECT_EQ(Get("key"), "NOT_FOUND");
}

TEST_F(SyncedTest, OtherWritesDoNotWaitForTheDisk) {
  EXPECT_EQ(Submit({PutOf("synced", "1"), PutOf("logged", "2", Durability::kLogged),
                    PutOf("memory", "3", Durability::kMemory)}),
            (Outcomes{"pending", "OK", "OK"}));
  EXPECT_EQ(Get("logged"), "2");
  EXPECT_EQ(Get("memory"), "3");
  EXPECT_EQ(Get("synced"), "NOT_FOUND");
  EXPECT_EQ(Submit({PutOf("logged", "4", Durability::kLogged)}), Outcomes{"OK"});
  EXPECT_EQ(Get("logged"), "4");
  Sync();
  EXPECT_EQ(Get("synced"), "1");
}

TEST_F(SyncedTest, LaterWritesOfAPendingKeyArePending) {
  Submit({PutOf("key", "1")});
  Write append = PutOf("key", "2", Durability::kLogged);
  append.kind = Write::Kind::kAppend;
  EXPECT_EQ(Submit({append, PutOf("other", "x", Durability::kLogged), append}),
            (Outcomes{"pending", "OK", "pending"}));
  EXPECT_EQ(Get("key"), "NOT_FOUND");
  EXPECT_EQ(Submit({DeleteOf("key"), DeleteOf("key"), append}), (Outcomes{"pending", "pending", "pending"}));
  const std::vector<SyncedWrite> outcomes = Sync();
  ASSERT_EQ(outcomes.size(), 6u);
  EXPECT_EQ(outcomes[2].result, 3);
  EXPECT_EQ(outcomes[4].result, 1);
  EXPECT_TRUE(absl::IsNotFound(outcomes[5].status)) << outcomes[5].status;
  EXPECT_EQ(Get("key"), "2");
  EXPECT_EQ(Submit({PutOf("key", "two", Durability::kLogged)}), Outcomes{"OK"});
  EXPECT_EQ(Get("key"), "two");
}

TEST_F(SyncedTest, InOneGroupWritesOfAKeyFollowEachOther) {
  std::vector<Write> writes = {PutOf("key", "one"), PutOf("key", "two", Durability::kLogged)};
  Write increment = PutOf("number", "");
  writes.push_back(PutOf("number", "41", Durability::kLogged));
  const std::int64_t one = 1;
  increment.kind = Write::Kind::kIncrement;
  increment.value = {reinterpret_cast<const char*>(&one), sizeof(one)};
  writes.push_back(increment);
  EXPECT_EQ(Submit(writes), (Outcomes{"pending", "pending", "OK", "pending"}));
  EXPECT_EQ(Get("key"), "NOT_FOUND");
  EXPECT_EQ(Get("number"), "41");
  const std::vector<SyncedWrite> outcomes = Sync();
  ASSERT_EQ(outcomes.size(), 3u);
  EXPECT_LT(outcomes[0].version, outcomes[1].version);
  EXPECT_EQ(outcomes[2].result, 42);
  EXPECT_EQ(Get("key"), "two");
  EXPECT_EQ(Get("number"), "42");
}

TEST_F(SyncedTest, ConditionsAreDecidedAsOfTheWriteBefore) {
  Write absent = PutOf("key", "one");
  absent.condition = Condition::Absent();
  Write again = PutOf("key", "two", Durability::kLogged);
  again.condition = Condition::Absent();
  EXPECT_EQ(Submit({absent, again}), (Outcomes{"pending", "pending"}));
  EXPECT_EQ(Submit({again}), Outcomes{"pending"});
  Write same = PutOf("key", "three");
  same.condition = Condition::Present();
  EXPECT_EQ(Submit({same}), Outcomes{"pending"});
  Sync();
  EXPECT_EQ(Submit({again}), Outcomes{"ALREADY_EXISTS"});
  EXPECT_EQ(Get("key"), "three");
}

TEST_F(SyncedTest, ABatchIsSyncedAsAWhole) {
  ASSERT_TRUE(store_->Put("a", "old").ok());
  std::vector<Write> batch = {PutOf("a", "1", Durability::kLogged), PutOf("b", "2"), DeleteOf("gone")};
  ASSERT_TRUE(store_->Put("gone", "x").ok());
  batch[0].continues_batch = batch[1].continues_batch = true;
  // A write after a synced write of "b" is synced, too, and so is its whole batch.
  std::vector<Write> writes = {PutOf("b", "0")};
  writes.insert(writes.end(), batch.begin(), batch.end());
  EXPECT_EQ(Submit(writes), (Outcomes{"pending", "pending", "pending", "pending"}));
  EXPECT_EQ(Get("a"), "old");
  EXPECT_EQ(Get("gone"), "x");
  // A batch with one such key is pending. So are later writes of its other keys.
  EXPECT_EQ(Submit({PutOf("c", "3", Durability::kLogged)}), Outcomes{"OK"});
  std::vector<Write> second = {PutOf("c", "4", Durability::kLogged), PutOf("a", "5", Durability::kLogged),
                               PutOf("c", "6", Durability::kLogged), PutOf("d", "7", Durability::kLogged)};
  second[0].continues_batch = true;
  EXPECT_EQ(Submit(second), (Outcomes{"pending", "pending", "pending", "OK"}));
  EXPECT_EQ(Get("c"), "3");
  EXPECT_EQ(Sync().size(), 4u) << "one outcome for a batch";
  EXPECT_EQ(Get("a") + Get("b") + Get("c"), "526");
  EXPECT_EQ(Get("gone"), "NOT_FOUND");
}

TEST_F(SyncedTest, AnUnsyncedWriteSurvivesTheProcess) {
  Submit({PutOf("key", "one")});
  Open();  // the end of the store syncs the pending write or drops it; RocksDB has it
  EXPECT_EQ(Get("key"), "one");
}

TEST_F(SyncedTest, ACommitWaitsForTheDiskItself) {
  ASSERT_TRUE(store_->Put("key", "one").ok());
  EXPECT_EQ(Get("key"), "one");
  WriteBatch batch;
  batch.Put("a", "1");
  batch.Delete("key");
  std::uint64_t version = 0;
  ASSERT_TRUE(store_->Apply(batch, &version).ok());
  EXPECT_GT(version, 0u);
  EXPECT_EQ(Get("a"), "1");
  EXPECT_EQ(Get("key"), "NOT_FOUND");
  EXPECT_GE(store_->Read(Metric::kSyncs), 2u);
  EXPECT_EQ(store_->Read(Metric::kSyncedWrites), 3u);
}

TEST_F(SyncedTest, LevelsThatTheStoreDoesNotHaveAreRejected) {
  StoreOptions options;
  options.memory_size = kMinMemorySize;
  auto store = ServerStore::Open(options);
  ASSERT_TRUE(store.ok());
  EXPECT_TRUE(absl::IsInvalidArgument((*store)->Put("k", "v", {.durability = Durability::kLogged})));
  EXPECT_TRUE(absl::IsInvalidArgument((*store)->Put("k", "v", {.durability = Durability::kSynced})));
  EXPECT_TRUE((*store)->Put("k", "v", {.durability = Durability::kMemory}).ok());
  EXPECT_EQ(Submit({PutOf("k", "v", static_cast<Durability>(9))}), Outcomes{"INVALID_ARGUMENT"});
}

// S2: the tier has a write that no reader may see yet.
TEST_F(SyncedTest, AColdKeysPendingWriteIsNotFetched) {
  const std::string filler(60'000, 'f');
  ASSERT_TRUE(store_->Put("key", "old").ok());
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(
        CommitPatiently(*store_, clock_, PutOf("filler " + std::to_string(i), filler, Durability::kLogged))
            .ok());
  }
  ASSERT_GT(store_->Read(Metric::kColdKeys), 100u);
  ASSERT_EQ(Submit({PutOf("key", "new")}), Outcomes{"pending"});
  EXPECT_TRUE(absl::IsAborted(store_->Locate("key").status()));
  Sync();
  EXPECT_EQ(Get("key"), "new");
}

// S2: the deletion of the expired record would come behind the pending write.
TEST_F(SyncedTest, TheSweeperLeavesAKeyAloneThatHasAPendingWrite) {
  Write expires = PutOf("key", "old", Durability::kLogged);
  expires.ttl = milliseconds(500);
  ASSERT_EQ(Submit({expires, PutOf("other", "x", Durability::kLogged)}), (Outcomes{"OK", "OK"}));
  ASSERT_EQ(Submit({PutOf("key", "new")}), Outcomes{"pending"});
  clock_.Advance(std::chrono::seconds(10));
  while (store_->RunMaintenance()) {
  }
  ASSERT_TRUE(CommitPatiently(*store_, clock_, PutOf("other", "y", Durability::kLogged)).ok());
  EXPECT_EQ(Get("key"), "NOT_FOUND") << "the old one has expired";
  Sync();
  EXPECT_EQ(Get("key"), "new");
  Open();
  EXPECT_EQ(Get("key"), "new");
}

// A sweep passes over a record that no reader sees yet. It must not be forgotten.
TEST_F(SyncedTest, AWriteThatIsPendingDuringASweepExpires) {
  Write first = PutOf("expires before", "x", Durability::kLogged);
  first.ttl = milliseconds(500);
  ASSERT_EQ(Submit({first}), Outcomes{"OK"});
  Write pending = PutOf("expires behind", "y");
  pending.ttl = std::chrono::seconds(20);
  ASSERT_EQ(Submit({pending}), Outcomes{"pending"});
  const auto sweep = [&] {
    clock_.Advance(std::chrono::seconds(10));
    while (store_->RunMaintenance()) {
    }
    return store_->Read(Metric::kExpired);
  };
  EXPECT_EQ(sweep(), 1u);
  Sync();
  EXPECT_EQ(Get("expires behind"), "y");
  sweep();
  EXPECT_EQ(sweep(), 2u);
}

// S3, S4: meanwhile, other writes fill the log many times.
TEST_F(SyncedTest, PendingRecordsStayWhileTheLogIsCleanedAndOldOnesAreEvicted) {
  const std::string value(50'000, 'v');
  std::vector<std::string> keys;
  for (int i = 0; i < 8; ++i) keys.push_back("key " + std::to_string(i));
  for (const std::string& key : keys) ASSERT_TRUE(store_->Put(key, "old " + key).ok());
  std::vector<std::string> values;
  for (const std::string& key : keys) values.push_back("new " + key + value);
  std::vector<Write> writes;
  for (std::size_t i = 0; i < 6; ++i) writes.push_back(PutOf(keys[i], values[i]));
  writes.push_back(DeleteOf(keys[6]));
  writes.push_back(PutOf("fresh", values[7]));
  ASSERT_EQ(Submit(writes), Outcomes(8, "pending"));
  std::mt19937_64 random(1);
  for (int i = 0; i < 3000; ++i) {
    const std::string key = "filler " + std::to_string(random() % 700);
    ASSERT_TRUE(CommitPatiently(*store_, clock_, PutOf(key, value, Durability::kLogged)).ok());
    clock_.Advance(milliseconds(1));
  }
  ASSERT_GT(store_->Read(Metric::kSegmentsCleaned), 50u);
  ASSERT_GT(store_->Read(Metric::kColdKeys), 100u);
  EXPECT_EQ(Sync().size(), 8u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_TRUE(GetPatiently(*store_, clock_, keys[i]) == values[i]) << i;
  }
  EXPECT_EQ(GetPatiently(*store_, clock_, keys[6]), "NOT_FOUND");
  EXPECT_EQ(GetPatiently(*store_, clock_, keys[7]), "old " + keys[7]);
  EXPECT_TRUE(GetPatiently(*store_, clock_, "fresh") == values[7]);
}

TEST_F(SyncedTest, LargeValues) {
  Open(std::size_t{32} << 20);
  const std::string value(std::size_t{3} << 20, 'x');
  const auto reserved = store_->Reserve(3, value.size());
  ASSERT_TRUE(reserved.ok());
  std::ranges::copy("key" + value, reinterpret_cast<char*>(reserved->bytes.data()));
  Write write;
  write.reserved = &*reserved;
  EXPECT_EQ(Submit({write, PutOf("other", value)}), (Outcomes{"pending", "pending"}));
  EXPECT_EQ(Get("key"), "NOT_FOUND");
  Sync();
  EXPECT_TRUE(Get("key") == value);
  EXPECT_TRUE(Get("other") == value);
}

// When a group raises the version limit, the store calls
// fsync at once. That covers all earlier pending writes.
TEST_F(SyncedTest, ARaiseOfTheVersionLimitPublishesPendingWritesFirst) {
  Open(std::size_t{256} << 20);
  const std::uint64_t syncs = store_->Read(Metric::kSyncs);
  const std::vector<Write> filling(1000, PutOf("other", "", Durability::kMemory));
  std::string value;
  for (std::uint64_t i = 0; store_->Read(Metric::kSyncs) == syncs; ++i) {
    ASSERT_LT(i, 2000u);
    std::vector<Write> group = filling;
    value = std::to_string(i);
    group.push_back(PutOf("key", value));
    Submit(group);
  }
  EXPECT_EQ(Get("key"), value);
  while (store_->Sync()) {
  }
  EXPECT_EQ(Get("key"), value);
  ASSERT_TRUE(store_->Put("key", "last").ok());
  EXPECT_EQ(Get("key"), "last");
}

// A scan shows the state of the tier, so the store calls fsync before.
TEST_F(SyncedTest, AScanShowsWhatIsPublished) {
  ASSERT_EQ(Submit({PutOf("a", "1"), PutOf("b", "2", Durability::kLogged)}), (Outcomes{"pending", "OK"}));
  const std::uint64_t syncs = store_->Read(Metric::kSyncs);
  const auto scan = store_->Scan();
  ASSERT_TRUE(scan.ok()) << scan.status();
  EXPECT_EQ(store_->Read(Metric::kSyncs), syncs + 1);
  EXPECT_EQ(Get("a"), "1") << "visible as soon as a scan may show it";
  std::string shown;
  while ((*scan)->Next()) shown.append((*scan)->key()).append((*scan)->value());
  EXPECT_NE(shown.find("a1"), std::string::npos) << shown;
  std::vector<SyncedWrite> outcomes;
  store_->TakeSynced(&outcomes);
  EXPECT_EQ(outcomes.size(), 1u);
  EXPECT_FALSE(store_->Sync());
}

// The store calls fsync in its own thread. When a write returns, its caller sees it.
TEST(SyncedThreadsTest, ManyWritersShareTheDisksTurns) {
  const TempDir temp;
  StoreOptions options = LoggedIn(temp / "store", std::size_t{64} << 20);
  options.durability = Durability::kSynced;
  auto store = ServerStore::Open(options);
  ASSERT_TRUE(store.ok());
  constexpr int kThreads = 16;
  constexpr int kWrites = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::string got;
      for (int i = 0; i < kWrites; ++i) {
        const std::string key = "key " + std::to_string(t) + " " + std::to_string(i % 20);
        const std::string value = std::to_string(i);
        ASSERT_TRUE((*store)->Put(key, value).ok());
        ASSERT_TRUE((*store)->Get(key, &got).ok());
        ASSERT_EQ(got, value);
        ASSERT_TRUE((*store)->Increment("counter", 1).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::string got;
  ASSERT_TRUE((*store)->Get("counter", &got).ok());
  EXPECT_EQ(got, std::to_string(kThreads * kWrites));
  EXPECT_EQ((*store)->Read(Metric::kSyncedWrites), 2u * kThreads * kWrites);
  // The timing decides how many writes share an fsync. A store
  // that calls fsync for each write would reach this number.
  EXPECT_LT((*store)->Read(Metric::kSyncs), 2u * kThreads * kWrites);
}

}  // namespace
}  // namespace remora
