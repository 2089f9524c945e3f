// A store that applies the groups of a primary (store/durable/group_sink.h, G6 to G8).
#include "store/write/group_follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "replicated_fixture.h"
#include "store/base/mutex.h"
#include "store/durable/commit_log/group_codec.h"
#include "store/durable/tier_log/group_numbers.h"
#include "store/watch.h"

namespace remora {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::SizeIs;

class GroupFollowerTest : public ReplicatedTest {
 protected:
  GroupFollowerTest() { EXPECT_TRUE(primary_->SetGroupSink(&groups_).ok()); }

  /// Writes at the primary, has the follower apply all groups, and acknowledges them.
  void Write1(Write write) {
    SubmitPatiently(*primary_, write);
    ASSERT_NE(write.ticket, 0u) << write.status;
    Deliver();
  }
  void Deliver() {
    ReplicatedTest::Deliver(*follower_, groups_, groups_.last());
    ASSERT_TRUE(primary_->Acknowledge(groups_.last()).ok());
  }
  void Restart() {
    follower_.reset();
    follower_ = Open(FollowerOptions("follower"));
  }
  std::string Get(std::string_view key) { return ReplicatedTest::Get(*follower_, key); }

  KeptGroups groups_;
  std::unique_ptr<ServerStore> primary_ = Open(Options("primary", std::size_t{32} << 20));
  std::unique_ptr<ServerStore> follower_ = Open(FollowerOptions("follower"));
};

TEST_F(GroupFollowerTest, ShowsWhatThePrimaryShows) {
  Write1(PutOf("a", "1"));
  Write1(PutOf("a", "2"));
  Write expiring = PutOf("b", "1");
  expiring.ttl = seconds(100);
  Write1(expiring);
  Write1(PutOf("large", std::string(1'000'000, 'x')));
  Write1(DeleteOf("a"));
  std::vector<Write> group = {PutOf("c", "1"), PutOf("d", "1"), DeleteOf("c"), PutOf("d", "2"),
                              PutOf("e", "")};
  primary_->Submit(group);
  Deliver();
  const std::vector<SeenEntry> contents = Contents(*primary_);
  EXPECT_THAT(contents, SizeIs(4));
  EXPECT_EQ(Contents(*follower_), contents);
  EXPECT_EQ(Get("d"), "2");
  EXPECT_EQ(Get("large").size(), 1'000'000u);
  EXPECT_EQ(follower_->Ttl("b").value(), primary_->Ttl("b").value());
  Restart();
  EXPECT_EQ(Contents(*follower_), contents);
  EXPECT_EQ(Get("d"), "2");
}

TEST_F(GroupFollowerTest, AGroupThatIsNotTheNextChangesNothing) {
  Write1(PutOf("a", "1"));
  Write put = PutOf("b", "1");
  primary_->Submit(std::span(&put, 1));
  primary_->Submit(std::span(&put, 1));
  const std::uint64_t next = follower_->last_group() + 1;
  for (const std::uint64_t other : {next - 1, next + 1}) {
    const absl::Status applied = follower_->ApplyGroup(other, groups_.group(other));
    EXPECT_EQ(applied.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(applied.message()),
                HasSubstr(std::to_string(next) + ", not " + std::to_string(other)));
  }
  EXPECT_TRUE(absl::IsDataLoss(follower_->ApplyGroup(next, groups_.group(next + 1)))) << "another's bytes";
  EXPECT_EQ(Get("b"), "NOT_FOUND");
  EXPECT_EQ(follower_->last_group(), next - 1);
  EXPECT_TRUE(follower_->ApplyGroup(next, groups_.group(next)).ok());
  EXPECT_EQ(Get("b"), "1");
}

TEST_F(GroupFollowerTest, ADamagedGroupChangesNothing) {
  Write1(PutOf("a", "1"));
  std::vector<Write> group = {PutOf("a", "2"), PutOf("b", "1")};
  primary_->Submit(group);
  const std::uint64_t next = groups_.last();
  const std::string good = groups_.group(next);
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1 << i % 8);
    ASSERT_TRUE(absl::IsDataLoss(follower_->ApplyGroup(next, bad))) << i;
    ASSERT_TRUE(absl::IsDataLoss(follower_->ApplyGroup(next, std::string_view(good).substr(0, i)))) << i;
  }
  EXPECT_TRUE(absl::IsDataLoss(follower_->ApplyGroup(next, good + std::string(8, '\0'))));
  EXPECT_EQ(Get("a") + Get("b"), "1NOT_FOUND");
  Deliver();
  EXPECT_EQ(Get("a") + Get("b"), "21");
}

TEST_F(GroupFollowerTest, AGroupThatNoStoreWritesChangesNothing) {
  Write1(PutOf("a", "1"));
  const std::uint64_t next = follower_->last_group() + 1;
  const std::string number(reinterpret_cast<const char*>(&next), sizeof(next));
  const std::string limit = number;  // far below the one that there is
  const LogEntry says_number = {.kind = LogEntryKind::kMeta, .key = kGroupNumberKey, .value = number};
  const LogEntry put = {.kind = LogEntryKind::kPut, .version = 1000, .key = "a", .value = "2"};
  const auto with = [&](const LogEntry& entry) { return std::vector<LogEntry>{entry, says_number}; };
  LogEntry old = put;
  old.version = 1;
  LogEntry none = put;
  none.version = 0;
  LogEntry beyond = put;
  beyond.version = std::uint64_t{1} << 40;
  const std::vector<std::vector<LogEntry>> groups = {
      {put},  // without its number
      {put, says_number, says_number},
      with(old),
      with(none),
      with(beyond),
      {put, put, says_number},  // a version twice
      with({.kind = LogEntryKind::kMeta, .key = "applied_to", .value = number}),
      with({.kind = LogEntryKind::kMeta, .key = "client", .value = "x"}),
      with({.kind = LogEntryKind::kMeta, .key = kVersionLimitKey, .value = limit}),
      with({.kind = LogEntryKind::kMeta, .key = kVersionLimitKey, .value = "x"}),
  };
  for (const std::vector<LogEntry>& entries : groups) {
    std::vector<std::uint64_t> bytes(LogGroupSize(entries) / 8);
    const LogGroupPlace place = {.lsn = Lsn{next}, .incarnation = 1, .previous = 0, .synced_to = {}};
    EncodeLogGroup(entries, bytes.size() * 8, place, reinterpret_cast<char*>(bytes.data()));
    const absl::Status applied =
        follower_->ApplyGroup(next, {reinterpret_cast<const char*>(bytes.data()), bytes.size() * 8});
    EXPECT_TRUE(absl::IsDataLoss(applied)) << &entries - groups.data() << " " << applied;
  }
  EXPECT_EQ(Get("a"), "1");
  Write1(PutOf("a", "3"));
  EXPECT_EQ(Get("a"), "3");
}

TEST_F(GroupFollowerTest, TakesNoWritesOfItsOwn) {
  Write1(PutOf("a", "1"));
  constexpr auto kRejected = absl::StatusCode::kFailedPrecondition;
  EXPECT_EQ(follower_->Put("a", "2").code(), kRejected);
  EXPECT_EQ(follower_->Delete("a").code(), kRejected);
  EXPECT_EQ(follower_->Increment("n", 1).status().code(), kRejected);
  EXPECT_EQ(follower_->DeleteAll().status().code(), kRejected);
  EXPECT_EQ(follower_->RegisterClient(7, {}).code(), kRejected);
  EXPECT_EQ(follower_->SetGroupSink(&groups_).code(), kRejected);
  const auto reserved = follower_->Reserve(1, 300'000);
  ASSERT_TRUE(reserved.ok());
  std::memset(reserved->bytes.data(), 'x', reserved->bytes.size());
  Write large;
  large.reserved = &*reserved;
  follower_->Commit(std::span(&large, 1));
  EXPECT_EQ(large.status.code(), kRejected);
  EXPECT_EQ(Get("a"), "1");
  EXPECT_EQ(follower_->last_group(), groups_.last());
  EXPECT_EQ(primary_->ApplyGroup(1, groups_.group(1)).code(), kRejected) << "it follows nobody";
  StoreOptions without = FollowerOptions("without");
  without.commit_log_bytes = 0;
  EXPECT_EQ(ServerStore::Open(without).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(GroupFollowerTest, KeepsExpiredKeysUntilThePrimaryDeletesThem) {
  Write put = PutOf("a", "1");
  put.ttl = milliseconds(100);
  Write1(put);
  Write1(PutOf("b", "1"));
  const std::vector<SeenEntry> before = Contents(*follower_);
  const auto work = [](ServerStore& store) {
    while (store.RunMaintenance()) {
    }
  };
  clock_.Advance(seconds(5));
  work(*follower_);
  EXPECT_EQ(Get("a"), "NOT_FOUND");
  Restart();
  work(*follower_);
  EXPECT_EQ(Get("a"), "NOT_FOUND");
  EXPECT_EQ(follower_->Read(Metric::kKeys), 2u);
  clock_.StepUnix(-seconds(5));
  EXPECT_EQ(Contents(*follower_), before) << "on the disk, too";
  EXPECT_EQ(Get("a"), "1");
  clock_.StepUnix(seconds(5));
  work(*primary_);
  Deliver();
  EXPECT_EQ(follower_->Read(Metric::kKeys), 1u);
  clock_.StepUnix(-seconds(5));
  EXPECT_EQ(Get("a"), "NOT_FOUND");
  EXPECT_EQ(Contents(*follower_), Contents(*primary_));
}

TEST_F(GroupFollowerTest, AWatchShowsTheGroups) {
  Write1(PutOf("a", "1"));
  const auto watch = follower_->Watch(WatchOptions{});
  ASSERT_TRUE(watch.ok()) << watch.status();
  Write1(PutOf("b", "2"));
  Write1(DeleteOf("a"));
  std::vector<std::string> keys;
  while ((*watch)->Next(milliseconds(0)).value()) keys.emplace_back((*watch)->key());
  EXPECT_THAT(keys, testing::ElementsAre("b", "a"));
}

TEST_F(GroupFollowerTest, GoesOnWhereItWasAfterARestart) {
  for (int i = 0; i < 20; ++i) {
    Write1(PutOf("key " + std::to_string(i % 7), std::to_string(i)));
    if (i % 3 == 0) Restart();
    ASSERT_EQ(follower_->last_group(), groups_.last());
  }
  EXPECT_EQ(Contents(*follower_), Contents(*primary_));
}

TEST_F(GroupFollowerTest, MakesSpaceByEviction) {
  for (int i = 0; i < 120; ++i) {
    const std::size_t size = i % 10 == 0 ? 700'000 : 200'000;
    Write1(PutOf("key " + std::to_string(i), std::string(size, static_cast<char>('a' + i % 26))));
  }
  EXPECT_GT(follower_->Read(Metric::kEvictions), 20u);
  for (int i = 0; i < 120; i += 3) Write1(DeleteOf("key " + std::to_string(i)));
  for (int i = 1; i < 120; i += 3) Write1(PutOf("key " + std::to_string(i), "new"));
  for (int i = 0; i < 120; ++i) {
    const std::string key = "key " + std::to_string(i);
    ASSERT_EQ(GetPatiently(*follower_, clock_, key), GetPatiently(*primary_, clock_, key)) << key;
  }
  Restart();
  EXPECT_EQ(Contents(*follower_), Contents(*primary_));
}

TEST_F(GroupFollowerTest, AppliesAGroupThatIsLargerThanAFileOfItsLog) {
  follower_.reset();
  StoreOptions options = FollowerOptions("small");
  options.commit_log_bytes = std::uint64_t{1} << 20;
  follower_ = Open(options);
  Write1(PutOf("a", std::string(100'000, 'x')));
  Write1(PutOf("a", std::string(200'000, 'y')));
  Write1(PutOf("b", "1"));
  EXPECT_EQ(Contents(*follower_), Contents(*primary_));
  follower_.reset();
  follower_ = Open(options);
  EXPECT_EQ(follower_->last_group(), groups_.last());
  EXPECT_EQ(Contents(*follower_), Contents(*primary_));
}

TEST_F(GroupFollowerTest, OnceItIsPromotedItIsAnOrdinaryStore) {
  ASSERT_TRUE(primary_->RegisterClient(7, {}).ok());
  Write request = PutOf("a", "1");
  request.request = {7, 3};
  Write1(request);
  Write expiring = PutOf("b", "1");
  expiring.ttl = milliseconds(100);
  Write1(expiring);
  const std::vector<SeenEntry> contents = Contents(*primary_);
  primary_.reset();
  ASSERT_TRUE(follower_->Promote().ok());
  const std::vector<ClientCompletions> clients = follower_->TakeCompletions();
  ASSERT_THAT(clients, SizeIs(1));
  ASSERT_THAT(clients.front().completions, SizeIs(1));
  EXPECT_EQ(clients.front().completions.front().number, 3u);
  EXPECT_EQ(clients.front().completions.front().version, contents.front().version);
  EXPECT_EQ(follower_->last_group(), groups_.last());
  std::uint64_t version = 0;
  ASSERT_TRUE(follower_->Put("a", "2", {.version = &version}).ok());
  EXPECT_GT(version, contents.back().version);
  EXPECT_EQ(Get("a"), "2");
  EXPECT_EQ(follower_->last_group(), 0u) << "no group has this write";
  clock_.Advance(seconds(5));
  while (follower_->RunMaintenance()) {
  }
  EXPECT_EQ(follower_->Read(Metric::kKeys), 1u);
  EXPECT_EQ(follower_->Promote().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(follower_->ApplyGroup(groups_.last() + 1, "").code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(GroupFollowerTest, OnceItIsPromotedItHasFollowers) {
  Write1(PutOf("a", "1"));
  const auto second = Open(FollowerOptions("second"));
  ReplicatedTest::Deliver(*second, groups_, groups_.last());
  const std::vector<SeenEntry> contents = Contents(*primary_);
  primary_.reset();
  KeptGroups more(groups_.last() + 1);
  ASSERT_TRUE(follower_->Promote(&more).ok());
  Write put = PutOf("a", "2");
  follower_->Submit(std::span(&put, 1));
  EXPECT_NE(put.ticket, 0u);
  EXPECT_EQ(Get("a"), "1");
  ReplicatedTest::Deliver(*second, more, more.last());
  ASSERT_TRUE(follower_->Acknowledge(more.last()).ok());
  EXPECT_EQ(Get("a"), "2");
  EXPECT_EQ(Contents(*second), Contents(*follower_));
  EXPECT_GT(Contents(*second).front().version, contents.front().version);
  EXPECT_EQ(second->SyncGroups().value(), more.last());
  follower_->DropGroupSink();
}

TEST_F(GroupFollowerTest, APromotedStoreUsesNoVersionOfAWriteThatItsPrimaryDidNotShip) {
  Write1(PutOf("a", "1"));
  Write lost = PutOf("a", "2");
  primary_->Submit(std::span(&lost, 1));
  ASSERT_TRUE(primary_->Acknowledge(groups_.last()).ok());  // as if the follower had left before
  const std::uint64_t version = Contents(*primary_).front().version;
  ASSERT_TRUE(follower_->Promote().ok());
  std::uint64_t next = 0;
  ASSERT_TRUE(follower_->Put("a", "3", {.version = &next}).ok());
  EXPECT_GT(next, version);
}

/// Hands the groups to another thread.
class QueuedGroups final : public GroupSink {
 public:
  void Take(std::uint64_t number, std::string_view bytes) override {
    const MutexLock lock(mutex_);
    last_ = number;
    groups_.emplace_back(bytes);
  }
  /// Returns the groups since the last call, and the number of the last one.
  std::pair<std::vector<std::string>, std::uint64_t> TakeAll() {
    const MutexLock lock(mutex_);
    return {std::exchange(groups_, {}), last_};
  }

 private:
  Mutex mutex_;
  std::vector<std::string> groups_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST_F(ReplicatedTest, ManyThreadsWriteWhileAnotherDelivers) {
  StoreOptions options = Options("threads");
  options.syncing = Syncing::kInThread;
  options.clock = nullptr;
  QueuedGroups groups;
  const auto primary = Open(options);
  ASSERT_TRUE(primary->SetGroupSink(&groups).ok());
  const auto follower = Open(FollowerOptions("follower"));
  std::atomic<bool> stop = false;
  std::thread delivers([&] {
    while (!stop.load()) {
      const auto [some, last] = groups.TakeAll();
      for (const std::string& group : some) {
        ASSERT_TRUE(follower->ApplyGroup(follower->last_group() + 1, group).ok());
      }
      if (!some.empty()) {
        ASSERT_TRUE(primary->Acknowledge(last).ok());
      }
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> writers;
  for (int number = 0; number < 4; ++number) {
    writers.emplace_back([&, key = "key " + std::to_string(number)] {
      for (int i = 0; i < 100; ++i) {
        const Durability level = i % 10 == 0 ? Durability::kSynced : Durability::kLogged;
        ASSERT_TRUE(primary->Put(key, std::to_string(i), {.durability = level}).ok());
        ASSERT_EQ(primary->Get(key).value(), std::to_string(i));
        ASSERT_EQ(follower->Get(key).value(), std::to_string(i)) << "acknowledged, so the follower has it";
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  stop.store(true);
  delivers.join();
  primary->DropGroupSink();
  EXPECT_EQ(Contents(*follower), Contents(*primary));
}

}  // namespace
}  // namespace remora
