// A store that ships its groups (store/durable/group_sink.h, G1 to G5).
#include "store/durable/group_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "replicated_fixture.h"
#include "store/delete_range.h"
#include "store/watch.h"

namespace remora {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class GroupSinkTest : public ReplicatedTest {
 protected:
  GroupSinkTest() {
    const absl::Status set = store_->SetGroupSink(&groups_);
    EXPECT_TRUE(set.ok()) << set;
  }
  /// Submits writes, each of which becomes pending. Returns the number of their group.
  std::uint64_t Submit(std::vector<Write> writes) {
    store_->Submit(writes);
    for (const Write& write : writes) EXPECT_NE(write.ticket, 0u) << write.status;
    return groups_.last();
  }
  void Acknowledge(std::uint64_t number) {
    const absl::Status acknowledged = store_->Acknowledge(number);
    EXPECT_TRUE(acknowledged.ok()) << acknowledged;
  }
  std::string Get(std::string_view key) { return ReplicatedTest::Get(*store_, key); }
  /// Returns the changes that the watch shows now, each as "key=value" or "-key".
  std::vector<std::string> Rest(StoreWatch& watch) {
    std::vector<std::string> lines;
    for (;;) {
      const absl::StatusOr<bool> came = watch.Next(milliseconds(0));
      EXPECT_TRUE(came.ok()) << came.status();
      if (!came.ok() || !*came) return lines;
      const bool is_put = watch.kind() == ChangeKind::kPut;
      lines.push_back(is_put ? std::string(watch.key()) + "=" + std::string(watch.value())
                             : "-" + std::string(watch.key()));
    }
  }
  std::vector<std::string> Keys() {
    std::vector<std::string> keys;
    for (const SeenEntry& entry : Contents(*store_)) keys.push_back(entry.key);
    return keys;
  }

  KeptGroups groups_;
  std::unique_ptr<ServerStore> store_ = Open(Options("store"));
};

TEST_F(GroupSinkTest, OnlyAStoreWithACommitLogHasOne) {
  StoreOptions memory;
  memory.memory_size = kMinMemorySize;
  StoreOptions without = Options("without");
  without.commit_log_bytes = 0;
  for (const StoreOptions& options : {memory, without}) {
    const auto store = Open(options);
    const absl::Status set = store->SetGroupSink(&groups_);
    EXPECT_EQ(set.code(), absl::StatusCode::kFailedPrecondition) << set;
    EXPECT_THAT(std::string(set.message()), testing::HasSubstr("commit_log_bytes"));
    EXPECT_TRUE(store->Put("key", "value").ok()) << "it goes on without";
    EXPECT_EQ(store->last_group(), 0u);
    EXPECT_EQ(store->Acknowledge(1).code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(store_->SetGroupSink(&groups_).code(), absl::StatusCode::kFailedPrecondition) << "it has one";
  EXPECT_EQ(store_->SetGroupSink(nullptr).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(GroupSinkTest, AWriteOfAnyLevelIsVisibleOnceItsGroupIsAcknowledged) {
  for (const Durability level : {Durability::kMemory, Durability::kLogged}) {
    const std::uint64_t put = Submit({PutOf("key", "value", level)});
    EXPECT_EQ(Get("key"), "NOT_FOUND");
    EXPECT_THAT(Outcomes(*store_), IsEmpty());
    Acknowledge(put - 1);
    EXPECT_FALSE(store_->Sync()) << "no write waits for the disk";
    store_->RunMaintenance();
    EXPECT_EQ(Get("key"), "NOT_FOUND");
    Acknowledge(put);
    EXPECT_EQ(Get("key"), "value");
    const std::vector<SyncedWrite> outcomes = Outcomes(*store_);
    ASSERT_THAT(outcomes, SizeIs(1));
    EXPECT_TRUE(outcomes.front().status.ok());
    EXPECT_NE(outcomes.front().version, 0u);
    const std::uint64_t gone = Submit({DeleteOf("key", level)});
    EXPECT_EQ(Get("key"), "value");
    Acknowledge(gone);
    EXPECT_EQ(Get("key"), "NOT_FOUND");
    Outcomes(*store_);
  }
  EXPECT_EQ(store_->Acknowledge(groups_.last() + 1).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(GroupSinkTest, ASyncedWriteWaitsForTheDiskAndForTheFollowers) {
  const std::uint64_t first =
      Submit({PutOf("first", "1", Durability::kLogged)});  // it raises the version limit
  Acknowledge(first);
  Acknowledge(Submit({PutOf("a", "1", Durability::kSynced)}));
  EXPECT_EQ(Get("a"), "NOT_FOUND") << "acknowledged, not synced";
  EXPECT_TRUE(store_->Sync());
  EXPECT_EQ(Get("a"), "1");
  const std::uint64_t second = Submit({PutOf("a", "2", Durability::kSynced)});
  EXPECT_TRUE(store_->Sync());
  EXPECT_EQ(Get("a"), "1") << "synced, not acknowledged";
  Acknowledge(second);
  EXPECT_EQ(Get("a"), "2");
}

TEST_F(GroupSinkTest, AGroupThatRaisesTheLimitOfVersionsWaitsToo) {
  const std::uint64_t first =
      Submit({PutOf("first", "1")});  // the first write of a store raises it, and is synced
  EXPECT_EQ(Get("first"), "NOT_FOUND");
  Acknowledge(first);
  EXPECT_EQ(Get("first"), "1");
}

TEST_F(GroupSinkTest, WritesBecomeVisibleInTheirOrder) {
  Acknowledge(Submit({PutOf("first", "1")}));
  const std::uint64_t synced = Submit({PutOf("a", "1", Durability::kSynced)});
  const std::uint64_t logged = Submit({PutOf("b", "1", Durability::kLogged)});
  Submit({PutOf("c", "1", Durability::kLogged)});
  Acknowledge(logged);
  EXPECT_EQ(Get("b"), "NOT_FOUND") << "the write before it is not on the disk";
  EXPECT_TRUE(store_->Sync());
  EXPECT_LT(synced, logged);
  EXPECT_EQ(Get("a") + Get("b") + Get("c"), "11NOT_FOUND");
}

TEST_F(GroupSinkTest, ARejectionEndsWithTheWriteOnWhichItDepends) {
  const std::uint64_t put = Submit({PutOf("key", "1")});
  Write absent = PutOf("key", "2");
  absent.condition = Condition::Absent();
  store_->Submit(std::span(&absent, 1));
  ASSERT_NE(absent.ticket, 0u) << "a reader that misses the key contradicts it";
  EXPECT_EQ(groups_.last(), put);
  EXPECT_THAT(Outcomes(*store_), IsEmpty());
  Acknowledge(put);
  const std::vector<SyncedWrite> outcomes = Outcomes(*store_);
  ASSERT_THAT(outcomes, SizeIs(2));
  EXPECT_EQ(outcomes.back().status.code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(GroupSinkTest, GetsAllChangesInTheirOrder) {
  EXPECT_EQ(groups_.Read(1).entries.front().key, kVersionLimitKey) << "which earlier groups may have raised";
  ASSERT_TRUE(store_->RegisterClient(7, {}).ok());
  Write put = PutOf("key", "1");
  put.request = {7, 3};
  put.ttl = milliseconds(100);
  Submit({put});
  Submit({PutOf("x", "1"), PutOf("y", "2"), DeleteOf("x")});
  Acknowledge(groups_.last());
  ASSERT_TRUE(store_->RegisterClient(8, std::vector<std::uint64_t>{7}).ok());
  clock_.Advance(std::chrono::seconds(5));
  while (store_->RunMaintenance()) {
  }
  std::vector<std::string> seen;
  for (std::uint64_t number = 2; number <= groups_.last(); ++number) {
    for (const LogEntry& entry : groups_.Read(number).entries) {
      if (entry.kind == LogEntryKind::kMeta && !entry.key.starts_with("client")) continue;
      const char* const kind = entry.kind == LogEntryKind::kPut      ? "put "
                               : entry.kind == LogEntryKind::kDelete ? "delete "
                               : entry.value.empty()                 ? "forget "
                                                                     : "meta ";
      const bool is_meta = entry.kind == LogEntryKind::kMeta;
      if (is_meta && entry.key.size() != 14) continue;  // of the client's completion records
      seen.push_back(std::to_string(number) + " " + kind + std::string(is_meta ? "client" : entry.key) +
                     (entry.request.client != 0 ? " of 7" : ""));
    }
  }
  EXPECT_THAT(seen, ElementsAre("2 meta client", "3 put key of 7", "4 put x", "4 put y", "4 delete x",
                                "5 forget client", "5 meta client", "6 delete key"));
}

TEST_F(GroupSinkTest, ARangeIsDeletedOnceTheFollowersHaveTheDeletions) {
  Acknowledge(Submit({PutOf("a", "1"), PutOf("b", "1")}));
  auto deletion = store_->BeginDeleteRange({});
  ASSERT_TRUE(deletion.ok()) << deletion.status();
  EXPECT_TRUE((*deletion)->StepWithoutWaiting().ok());
  EXPECT_EQ(Get("a") + Get("b"), "11");
  EXPECT_TRUE(absl::IsAborted((*deletion)->StepWithoutWaiting().status()));
  Acknowledge(groups_.last());
  EXPECT_EQ(Get("a") + Get("b"), "NOT_FOUNDNOT_FOUND");
  const absl::StatusOr<bool> more = (*deletion)->StepWithoutWaiting();
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_EQ((*deletion)->deleted(), 2u);
}

TEST_F(GroupSinkTest, AScanShowsWhatIsAcknowledgedWhileOtherWritesArePending) {
  Acknowledge(Submit({PutOf("a", "1"), PutOf("b", "1")}));
  EXPECT_THAT(Keys(), ElementsAre("a", "b"));
  const std::uint64_t next = Submit({PutOf("c", "1"), DeleteOf("a")});
  EXPECT_THAT(Keys(), ElementsAre("a", "b"));
  EXPECT_EQ(store_->Count(RangeOptions{}).value(), 2u);
  Submit({PutOf("d", "1", Durability::kSynced)});
  Acknowledge(next);
  EXPECT_THAT(Keys(), ElementsAre("b", "c"));
  Acknowledge(groups_.last());
  EXPECT_THAT(Keys(), ElementsAre("b", "c")) << "not synced";
  EXPECT_TRUE(store_->Sync());
  EXPECT_THAT(Keys(), ElementsAre("b", "c", "d"));
}

TEST_F(GroupSinkTest, AScanThatComesTooLateForASnapshotIsAborted) {
  Acknowledge(Submit({PutOf("a", "1")}));
  // So many bytes that the writer applies them, pending or not.
  const std::string value(200'000, 'x');
  for (int i = 0; i < 30; ++i) Submit({PutOf("key " + std::to_string(i), value)});
  const auto scan = store_->Scan({});
  EXPECT_TRUE(absl::IsAborted(scan.status())) << scan.status();
  EXPECT_TRUE(absl::IsAborted(store_->BeginDeleteRange({}).status()));
  Acknowledge(groups_.last());
  EXPECT_THAT(Keys(), SizeIs(31));
}

TEST_F(GroupSinkTest, AWatchShowsWhatIsAcknowledged) {
  const auto watch = store_->Watch(WatchOptions{});
  ASSERT_TRUE(watch.ok()) << watch.status();
  Write put = PutOf("a", "1");
  put.ttl = milliseconds(100);
  const std::uint64_t first = Submit({put});
  Submit({PutOf("b", "1")});
  EXPECT_THAT(Rest(**watch), IsEmpty());
  Acknowledge(first);
  EXPECT_THAT(Rest(**watch), ElementsAre("a=1"));
  Acknowledge(groups_.last());
  EXPECT_THAT(Rest(**watch), ElementsAre("b=1"));
  clock_.Advance(std::chrono::seconds(5));
  while (store_->RunMaintenance()) {
  }
  EXPECT_EQ(groups_.last(), first + 2) << "that of the expired key";
  EXPECT_THAT(Rest(**watch), IsEmpty());
  Acknowledge(groups_.last());
  EXPECT_THAT(Rest(**watch), ElementsAre("-a"));
}

TEST_F(GroupSinkTest, WithoutTheSinkPendingWritesWaitForTheirOwnLevelAlone) {
  Acknowledge(Submit({PutOf("first", "1")}));
  Submit({PutOf("logged", "1")});
  Submit({PutOf("synced", "1", Durability::kSynced)});
  Submit({PutOf("behind", "1")});
  const std::uint64_t last = groups_.last();
  store_->DropGroupSink();
  EXPECT_EQ(Get("logged") + Get("synced") + Get("behind"), "1NOT_FOUNDNOT_FOUND");
  EXPECT_TRUE(store_->Sync());
  EXPECT_EQ(Get("synced") + Get("behind"), "11");
  ASSERT_TRUE(store_->Put("at once", "1").ok());
  EXPECT_EQ(Get("at once"), "1");
  EXPECT_EQ(groups_.last(), last) << "it gets nothing more";
  EXPECT_EQ(store_->Acknowledge(last).code(), absl::StatusCode::kFailedPrecondition);
  store_->DropGroupSink();  // without effect
}

TEST_F(GroupSinkTest, CommitReturnsOnceTheFollowersHaveTheWrite) {
  for (const Durability level : {Durability::kLogged, Durability::kSynced}) {
    const std::uint64_t before = groups_.last();
    std::thread follower([&] {
      while (store_->last_group() == before) std::this_thread::yield();
      EXPECT_EQ(Get("key"), level == Durability::kLogged ? "NOT_FOUND" : "logged");
      Acknowledge(before + 1);
    });
    EXPECT_TRUE(
        store_->Put("key", level == Durability::kLogged ? "logged" : "synced", {.durability = level}).ok());
    follower.join();
  }
  EXPECT_EQ(Get("key"), "synced");
}

TEST_F(GroupSinkTest, AStoreThatShipsMakesNoBackup) {
  const auto backup = store_->Backup(temp_ / "backup");
  EXPECT_EQ(backup.status().code(), absl::StatusCode::kFailedPrecondition) << backup.status();
  store_->DropGroupSink();
  EXPECT_TRUE(store_->Backup(temp_ / "backup").ok());
}

TEST_F(GroupSinkTest, TheNumberIsKeptUntilTheStoreWritesOutsideOfItsHistory) {
  Acknowledge(Submit({PutOf("a", "1")}));
  const std::uint64_t last = groups_.last();
  EXPECT_EQ(store_->last_group(), last);
  store_.reset();
  store_ = Open(Options("store"));
  EXPECT_EQ(store_->last_group(), last);
  KeptGroups more(last + 1);
  ASSERT_TRUE(store_->SetGroupSink(&more).ok());
  EXPECT_EQ(store_->last_group(), last + 1) << "the numbers go on";
  store_->DropGroupSink();
  EXPECT_EQ(store_->last_group(), last + 1);
  ASSERT_TRUE(store_->Put("b", "2").ok());
  EXPECT_EQ(store_->last_group(), 0u);
  store_.reset();
  store_ = Open(Options("store"));
  EXPECT_EQ(store_->last_group(), 0u);
  KeptGroups anew;
  EXPECT_TRUE(store_->SetGroupSink(&anew).ok());
  store_->DropGroupSink();
}

TEST_F(GroupSinkTest, WritesWaitWhileTheRecordsOfPendingOnesFillTheMemory) {
  const std::string value(250'000, 'x');
  std::vector<std::uint64_t> tickets;
  Write last;
  std::string key;
  for (int i = 0; i < 200; ++i) {
    key = "key " + std::to_string(i);
    last = PutOf(key, value);
    store_->Submit(std::span(&last, 1));
    if (last.ticket == 0) break;
    tickets.push_back(last.ticket);
  }
  ASSERT_TRUE(absl::IsAborted(last.status)) << last.status;
  ASSERT_GT(tickets.size(), 10u);
  EXPECT_EQ(Get("key 0"), "NOT_FOUND");
  Acknowledge(groups_.last());
  EXPECT_THAT(Outcomes(*store_), SizeIs(tickets.size()));
  SubmitPatiently(*store_, last);
  EXPECT_NE(last.ticket, 0u) << last.status;
  Acknowledge(groups_.last());
  EXPECT_EQ(GetPatiently(*store_, clock_, "key 0"), value);
  EXPECT_EQ(GetPatiently(*store_, clock_, key), value);
}

}  // namespace
}  // namespace remora
