// Records that expire, with a clock that the test moves:
// the expirer, its pace, and the state after a restart.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "patient_writes.h"
#include "store/format/memory/record.h"
#include "store/server_store.h"
#include "test_files.h"
#include "tests/support/manual_clock.h"

namespace remora {
namespace {

using std::chrono::hours, std::chrono::milliseconds, std::chrono::seconds;

class ExpiryTest : public testing::TestWithParam<Durability> {
 protected:
  TempDir temp_;
  ManualClock clock_;
  std::unique_ptr<ServerStore> store_ = Open();

  std::unique_ptr<ServerStore> Open(milliseconds default_ttl = kNeverExpires) {
    StoreOptions options;
    options.memory_size = kMinMemorySize;
    options.durability = GetParam();
    options.eviction = Eviction::kNone;
    options.grace = std::chrono::milliseconds(kMinGraceMs);
    options.clock = &clock_;
    options.default_ttl = default_ttl;
    if (GetParam() == Durability::kLogged) options.data_dir = temp_ / "store";
    absl::StatusOr<std::unique_ptr<ServerStore>> store = ServerStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  void Restart() {
    store_.reset();
    store_ = Open();
  }

  /// Commits one write, and repeats it after the grace period while it is Aborted.
  absl::Status Do(Write write) { return CommitPatiently(*store_, clock_, write); }
  static Write PutOf(std::string_view key, std::string_view value, milliseconds ttl = kNeverExpires) {
    Write write;
    write.key = key;
    write.value = value;
    write.ttl = ttl;
    return write;
  }
  static Write DeleteOf(std::string_view key) {
    Write write;
    write.kind = Write::Kind::kDelete;
    write.key = key;
    return write;
  }
  static Write TouchOf(std::string_view key, milliseconds ttl) {
    Write write = DeleteOf(key);
    write.kind = Write::Kind::kTouch;
    write.ttl = ttl;
    return write;
  }
  absl::Status Put(std::string_view key, std::string_view value, milliseconds ttl = kNeverExpires) {
    return Do(PutOf(key, value, ttl));
  }
  std::string Get(std::string_view key) const {
    std::string value;
    const absl::Status status = store_->Get(key, &value);
    return status.ok() ? value : absl::StatusCodeToString(status.code());
  }
  /// Fills the memory. Returns the number of records.
  int Fill(const std::string& value, milliseconds ttl) {
    int puts = 0;
    while (Put("key" + std::to_string(puts), value, ttl).ok()) ++puts;
    return puts;
  }
  void WorkUntilIdle() {
    while (store_->RunMaintenance()) {
    }
  }
  std::uint64_t keys() const { return store_->Read(Metric::kKeys); }
  std::uint64_t expired() const { return store_->Read(Metric::kExpired); }
};

INSTANTIATE_TEST_SUITE_P(All, ExpiryTest, testing::Values(Durability::kMemory, Durability::kLogged),
                         [](const auto& suite) {
                           return suite.param == Durability::kMemory ? "Memory" : "Logged";
                         });

TEST_P(ExpiryTest, ComesToTheMillisecond) {
  ASSERT_TRUE(Put("key", "value", milliseconds(1000)).ok());
  clock_.Advance(milliseconds(999));
  EXPECT_EQ(Get("key"), "value");
  EXPECT_EQ(**store_->Ttl("key"), milliseconds(1));
  EXPECT_TRUE(store_->Locate("key").ok());
  clock_.Advance(milliseconds(1));
  EXPECT_EQ(Get("key"), "NOT_FOUND");
  EXPECT_EQ(store_->Ttl("key").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->Locate("key").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(keys(), 1u) << "until it is swept";
}

// The store gets all memory of expired records back, without a read or a write.
TEST_P(ExpiryTest, SweepingGivesAllMemoryBack) {
  for (const std::size_t size : {std::size_t{100'000}, std::size_t{300}}) {
    const std::string value(size, 'v');
    const int puts = Fill(value, hours(1));
    ASSERT_GT(puts, 100);
    ASSERT_EQ(keys(), static_cast<std::uint64_t>(puts));
    const std::uint64_t before = expired();
    const std::uint64_t moved = store_->Read(Metric::kBytesMoved);
    clock_.Advance(hours(1) + seconds(1));
    WorkUntilIdle();
    EXPECT_EQ(keys(), 0u);
    EXPECT_EQ(expired() - before, static_cast<std::uint64_t>(puts));
    EXPECT_EQ(store_->Read(Metric::kLogBytesUsed), store_->Read(Metric::kLogBytesDead));
    EXPECT_LE(store_->Read(Metric::kLogBytesUsed), 2 * kSegmentSize) << "only the heads are left";
    EXPECT_EQ(store_->Read(Metric::kBytesMoved), moved) << "nothing that has expired is moved";
    clock_.Advance(hours(1));  // the grace period is over
    const int again = Fill(value, hours(1));
    EXPECT_GE(again, puts - puts / 8);
    clock_.Advance(hours(1) + seconds(1));
    WorkUntilIdle();
  }
}

// A write that finds no space removes expired records, even if the expirer has not run.
TEST_P(ExpiryTest, AFullStoreTakesAgainWhenWhatItHoldsHasExpired) {
  const std::string value(100'000, 'v');
  const int puts = Fill(value, hours(1));
  ASSERT_TRUE(Put("key0", value).code() == absl::StatusCode::kResourceExhausted);
  clock_.Advance(hours(1));
  for (int i = 0; i < puts / 2; ++i) ASSERT_TRUE(Put("new" + std::to_string(i), value).ok()) << i;
  EXPECT_GT(expired(), 0u);
  for (int i = 0; i < puts / 2; ++i) ASSERT_EQ(Get("new" + std::to_string(i)), value);
}

// Records with different expiries lie side by side, while other writes and the cleaner go on.
TEST_P(ExpiryTest, EachRecordGoesInItsTime) {
  constexpr int kRecords = 3000;
  const std::string value(1000, 'v');
  const auto ttl_of = [](int i) {
    return i % 10 == 0 ? kNeverExpires : milliseconds(60'000 + i * 7919 % 3000 * 100);
  };
  for (int i = 0; i < kRecords; ++i) ASSERT_TRUE(Put("key" + std::to_string(i), value, ttl_of(i)).ok());
  std::int64_t passed = 0;
  for (int step = 0; step < 100; ++step) {
    clock_.Advance(milliseconds(4000));
    passed += 4000;
    for (int i = 0; i < 30; ++i) ASSERT_TRUE(Put("other" + std::to_string(i), std::string(10'000, 'o')).ok());
    WorkUntilIdle();
    std::uint64_t alive = 30;
    for (int i = 0; i < kRecords; ++i) {
      const bool lives = ttl_of(i) == kNeverExpires || passed < ttl_of(i).count();
      if (i % 7 == step % 7) {
        ASSERT_EQ(Get("key" + std::to_string(i)), lives ? value : "NOT_FOUND") << i;
      }
      alive += lives ? 1 : 0;
    }
    ASSERT_EQ(keys(), alive) << "swept each time: a step is longer than the pause";
  }
  EXPECT_GT(store_->Read(Metric::kSegmentsCleaned), 0u) << "the other half of the test";
  EXPECT_EQ(expired(), std::uint64_t{kRecords} * 9 / 10);
  EXPECT_FALSE(store_->next_maintenance().has_value() && *store_->next_maintenance() < clock_.Now())
      << "nothing is left to do";
}

TEST_P(ExpiryTest, TheNextSweepIsToldAndKeepsItsPace) {
  EXPECT_FALSE(store_->next_maintenance().has_value());
  ASSERT_TRUE(Put("a", "1", milliseconds(5000)).ok());
  ASSERT_TRUE(Put("b", "2", milliseconds(5010)).ok());
  EXPECT_EQ(store_->next_maintenance(), clock_.Now() + milliseconds(5000));
  EXPECT_FALSE(store_->RunMaintenance());
  clock_.Advance(milliseconds(5000));
  WorkUntilIdle();
  EXPECT_EQ(keys(), 1u);
  clock_.Advance(milliseconds(10));
  EXPECT_FALSE(store_->RunMaintenance()) << "this segment was swept just now";
  EXPECT_EQ(Get("b"), "NOT_FOUND");
  const auto next = store_->next_maintenance();
  ASSERT_TRUE(next.has_value());
  EXPECT_GE(*next, clock_.Now() + milliseconds(990));
  EXPECT_LE(*next, clock_.Now() + milliseconds(1500));
  clock_.Advance(std::chrono::ceil<milliseconds>(*next - clock_.Now()));
  EXPECT_TRUE(store_->RunMaintenance());
  WorkUntilIdle();
  EXPECT_EQ(keys(), 0u);
  EXPECT_FALSE(store_->next_maintenance().has_value());
}

TEST_P(ExpiryTest, AGroupDecidesAsOfItsWrites) {
  ASSERT_TRUE(Put("old", "value", milliseconds(10)).ok());
  clock_.Advance(milliseconds(10));
  std::vector<Write> writes = {
      DeleteOf("old"),                // the record has expired
      TouchOf("old", hours(1)),       // the record has expired
      PutOf("old", "new", hours(1)),  // replaces the expired record
      TouchOf("old", hours(2)),       // touches the record of the put
      PutOf("k", "1", hours(1)),
      TouchOf("k", kNeverExpires),
      DeleteOf("k"),
      TouchOf("k", hours(1)),
      PutOf("l", "2"),
      TouchOf("l", hours(1)),
      TouchOf("l", hours(3)),
  };
  store_->Commit(writes);
  constexpr auto kOk = absl::StatusCode::kOk;
  constexpr auto kNotFound = absl::StatusCode::kNotFound;
  const std::vector<absl::StatusCode> expected = {kNotFound, kNotFound, kOk, kOk, kOk, kOk,
                                                  kOk,       kNotFound, kOk, kOk, kOk};
  for (std::size_t i = 0; i < writes.size(); ++i) EXPECT_EQ(writes[i].status.code(), expected[i]) << i;
  EXPECT_NE(writes[3].slot, 0u);
  for (int restart = 0; restart < (GetParam() == Durability::kLogged ? 2 : 1); ++restart) {
    if (restart > 0) Restart();
    EXPECT_EQ(Get("old"), "new");
    EXPECT_EQ(**store_->Ttl("old"), hours(2));
    EXPECT_EQ(Get("k"), "NOT_FOUND");
    EXPECT_EQ(Get("l"), "2");
    EXPECT_EQ(**store_->Ttl("l"), hours(3));
    EXPECT_EQ(keys(), 2u);
  }
}

TEST_P(ExpiryTest, ATouchWritesTheRecordAnew) {
  ASSERT_TRUE(Put("key", "value", hours(1)).ok());
  const Location before = *store_->Locate("key");
  ASSERT_TRUE(store_->Touch("key", hours(2)).ok());
  const Location after = *store_->Locate("key");
  EXPECT_NE(before.slot, after.slot) << "published records never change";
  EXPECT_GT(after.version, before.version);
  EXPECT_EQ(Get("key"), "value");
  EXPECT_EQ(store_->Read(Metric::kTouches), 1u);
  EXPECT_EQ(store_->Read(Metric::kPuts), 1u);
  EXPECT_EQ(keys(), 1u);
}

TEST_P(ExpiryTest, ATouchThatFindsNoSpaceSaysSo) {
  const std::string value(100'000, 'v');
  ASSERT_GT(Fill(value, kNeverExpires), 100);
  EXPECT_EQ(Do(TouchOf("key0", hours(1))).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Get("key0"), value);
  EXPECT_EQ(*store_->Ttl("key0"), std::nullopt);
}

TEST_P(ExpiryTest, ADefaultIsForWritesThatDoNotSay) {
  store_.reset();
  store_ = Open(hours(3));
  ASSERT_TRUE(store_->Put("default", "1").ok());
  ASSERT_TRUE(store_->Put("never", "2", {.ttl = kNeverExpires}).ok());
  EXPECT_EQ(**store_->Ttl("default"), hours(3));
  EXPECT_EQ(*store_->Ttl("never"), std::nullopt);
}

TEST(ExpiryOptionsTest, ADefaultThatIsNoTimeIsRejected) {
  for (const milliseconds ttl : {milliseconds(0), milliseconds(-1), kMaxTtl + milliseconds(1)}) {
    StoreOptions options;
    options.default_ttl = ttl;
    EXPECT_EQ(ServerStore::Open(options).status().code(), absl::StatusCode::kInvalidArgument) << ttl.count();
  }
}

// --- Restarts -------------------------------------------------------------------------------------------

class ExpiryOnDiskTest : public ExpiryTest {};
INSTANTIATE_TEST_SUITE_P(All, ExpiryOnDiskTest, testing::Values(Durability::kLogged),
                         [](const auto&) { return "Logged"; });

TEST_P(ExpiryOnDiskTest, ARestartSkipsAndRemovesWhatHasExpired) {
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(Put("soon" + std::to_string(i), "value", hours(1)).ok());
  ASSERT_TRUE(Put("late", "value", hours(5)).ok());
  ASSERT_TRUE(Put("never", "value").ok());
  store_.reset();
  clock_.Advance(hours(1));
  store_ = Open();
  EXPECT_EQ(keys(), 2u);
  EXPECT_EQ(expired(), 3000u);
  EXPECT_EQ(store_->Read(Metric::kLogBytesUsed), 2u * 48) << "expired records were not even loaded";
  EXPECT_EQ(**store_->Ttl("late"), hours(4));
  // If the clock goes back, no expired key returns, because the load has removed it from the disk.
  clock_.StepUnix(-hours(1));
  Restart();
  EXPECT_EQ(keys(), 2u);
  EXPECT_EQ(expired(), 0u);
}

TEST_P(ExpiryOnDiskTest, ASweptKeyIsDeletedFromTheDisk) {
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(Put("key" + std::to_string(i), "value", hours(1)).ok());
  ASSERT_TRUE(Put("stays", "value", hours(5)).ok());
  clock_.Advance(hours(1));
  WorkUntilIdle();
  ASSERT_EQ(keys(), 1u);
  clock_.StepUnix(-hours(1));
  Restart();
  EXPECT_EQ(keys(), 1u);
  EXPECT_EQ(Get("stays"), "value");
}

// The deletion of an expired record on disk does not overtake a later write of its key.
TEST_P(ExpiryOnDiskTest, AKeyThatIsWrittenAgainStays) {
  const std::string value(5000, 'v');
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 300; ++i) {
      ASSERT_TRUE(Put("key" + std::to_string(i), value + std::to_string(round), seconds(5)).ok());
      if (i % 50 == 0) store_->RunMaintenance();
    }
    clock_.Advance(milliseconds(5000));
    for (int i = 0; i < 300; i += 3) {
      ASSERT_TRUE(Put("key" + std::to_string(i), "again" + std::to_string(round)).ok());
    }
    WorkUntilIdle();
    Restart();
    for (int i = 0; i < 300; ++i) {
      ASSERT_EQ(Get("key" + std::to_string(i)), i % 3 == 0 ? "again" + std::to_string(round) : "NOT_FOUND");
    }
  }
}

}  // namespace
}  // namespace remora
