// Scans over the ordered index of a store with a disk, most of whose records are there alone. V5 to V8 are
// those of store/ordered/ordered_index.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cold_fixture.h"
#include "scan_fixture.h"
#include "store/delete_range.h"
#include "store/scan.h"
#include "store/server_store.h"
#include "twin_keys.h"

namespace remora {
namespace {

using std::chrono::hours;
using testing::HasSubstr;
using testing::IsEmpty;
/// The largest value of a record beside others. Scans of a store of kMinMemorySize may keep 256 KiB.
constexpr std::size_t kTooLarge = kMaxSmallValueSize - 100;
using DiskShown = std::vector<std::pair<std::string, std::string>>;

/// With RocksDB's log, where RocksDB has each write before readers see it; or with a commit log, where it has
/// them late.
class OrderedDiskTest : public ColdFixture, public testing::WithParamInterface<std::uint64_t> {
 protected:
  OrderedDiskTest() {
    options_.ordered_index = true;
    options_.commit_log_bytes = GetParam();
    Open();
  }

  std::unique_ptr<StoreScan> Begin(const ScanOptions& options = {.prefix = "key "}) {
    auto scan = store_->Scan(options);
    EXPECT_TRUE(scan.ok()) << scan.status();
    return *std::move(scan);
  }
  static DiskShown Rest(StoreScan& scan) {
    DiskShown shown;
    while (scan.Next()) shown.emplace_back(scan.key(), scan.value());
    EXPECT_TRUE(scan.status().ok()) << scan.status();
    return shown;
  }
  DiskShown All() { return Rest(*Begin()); }
  /// Returns the number of keys, if the ordered index knows it.
  std::optional<std::uint64_t> CountAtOnce() { return Begin()->CountAtOnce(); }

  static std::string KeyOf(int i) { return "key " + std::to_string(1000 + i); }
  static DiskShown Olds(int count) {
    DiskShown olds;
    for (int i = 0; i < count; ++i) olds.emplace_back(KeyOf(i), "old " + std::to_string(i));
    return olds;
  }
  /// Makes keys that are cold.
  void FillCold(int count) {
    for (const auto& [key, value] : Olds(count)) ASSERT_NO_FATAL_FAILURE(Put(key, value));
    ASSERT_NO_FATAL_FAILURE(EvictAll());
    for (int i = 0; i < count; ++i) ASSERT_TRUE(IsCold(KeyOf(i))) << i;
  }
  bool IsCold(const std::string& key) {
    ColdRead read;
    const auto location = store_->BeginLocate(key, &read);
    return location.ok() && !location->has_value();
  }
  void Append(const std::string& key, const std::string& value) {
    ASSERT_TRUE(CommitPatiently(*store_, clock_, WriteOf(Write::Kind::kAppend, key, value)).ok());
  }
  /// Leaves a synced write pending.
  void Leave(Write::Kind kind, const std::string& key, const std::string& value = {}) {
    Write write = WriteOf(kind, key, value);
    write.durability = Durability::kSynced;
    store_->Submit(std::span(&write, 1));
    for (; write.ticket == 0 && absl::IsAborted(write.status); store_->Submit(std::span(&write, 1))) {
      clock_.Advance(kPatience);
    }
    ASSERT_NE(write.ticket, 0u) << write.status;
  }
  void RunMaintenance() {
    while (store_->RunMaintenance()) {
    }
  }
};
INSTANTIATE_TEST_SUITE_P(All, OrderedDiskTest, testing::Values(0, kSomeCommitLog),
                         [](const auto& test) { return test.param == 0 ? "RocksdbLog" : "CommitLog"; });

// --- Cold keys ------------------------------------------------------------------------------------------

TEST_P(OrderedDiskTest, ColdKeysAreShownBesideOthers) {
  ASSERT_NO_FATAL_FAILURE(FillCold(200));
  DiskShown expected = Olds(200);
  for (int i = 0; i < 200; i += 3) {
    ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), "hot"));
    expected[static_cast<std::size_t>(i)].second = "hot";
  }
  const std::uint64_t fetches = store_->Read(Metric::kFetches);
  EXPECT_EQ(CountAtOnce(), 200u);
  EXPECT_EQ(All(), expected);
  std::reverse(expected.begin(), expected.end());
  EXPECT_EQ(Rest(*Begin({.prefix = "key ", .reverse = true})), expected);
  const auto keys = Begin({.prefix = "key ", .keys_only = true});
  ASSERT_TRUE(keys->Next());
  ASSERT_TRUE(keys->Next());
  EXPECT_EQ(keys->key(), KeyOf(1));
  EXPECT_EQ(keys->value(), "");
  EXPECT_EQ(keys->version(), store_->Locate(KeyOf(1)).value().version);
  EXPECT_EQ(store_->Read(Metric::kFetches), fetches + 1) << "a scan promotes nothing";
}

// A step ends behind 64 KiB of values.
TEST_P(OrderedDiskTest, LargeColdValuesAreShownInSteps) {
  DiskShown expected;
  for (int i = 0; i < 60; ++i) {
    expected.emplace_back(
        KeyOf(i), std::string(static_cast<std::size_t>(i % 7) * 20'000, static_cast<char>('a' + i % 26)));
    ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), expected.back().second));
  }
  ASSERT_NO_FATAL_FAILURE(EvictAll());
  for (int i = 0; i < 60; i += 4) {
    ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i), "hot"));
    expected[static_cast<std::size_t>(i)].second = "hot";
  }
  EXPECT_EQ(All(), expected);
  std::reverse(expected.begin(), expected.end());
  EXPECT_EQ(Rest(*Begin({.prefix = "key ", .reverse = true})), expected);
}

// V5: scans that began before a change of a cold key show its record.
TEST_P(OrderedDiskTest, AScanShowsColdKeysAsTheyWere) {
  ASSERT_NO_FATAL_FAILURE(FillCold(8));
  const auto forth = Begin();
  const auto back = Begin({.prefix = "key ", .reverse = true});
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(0), "new"));
  ASSERT_NO_FATAL_FAILURE(Delete(KeyOf(1)));
  ASSERT_NO_FATAL_FAILURE(Append(KeyOf(2), "er"));
  ASSERT_NO_FATAL_FAILURE(Delete(KeyOf(3)));
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(3), "again"));
  ASSERT_EQ(Get(KeyOf(4)), "old 4") << "promoted";
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(4), "new"));
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(5) + "x", "between"));
  ASSERT_NO_FATAL_FAILURE(EvictAll());
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(0), "newer"));
  DiskShown old = Olds(8);
  EXPECT_EQ(Rest(*forth), old);
  std::reverse(old.begin(), old.end());
  EXPECT_EQ(Rest(*back), old);
  const DiskShown expected = {{KeyOf(0), "newer"}, {KeyOf(2), "old 2er"}, {KeyOf(3), "again"},
                              {KeyOf(4), "new"},   {KeyOf(5), "old 5"},   {KeyOf(5) + "x", "between"},
                              {KeyOf(6), "old 6"}, {KeyOf(7), "old 7"}};
  EXPECT_EQ(All(), expected);
  EXPECT_EQ(CountAtOnce(), 8u);
}

// V5, for a caller that reads before it writes.
TEST_P(OrderedDiskTest, AReadForAWriteBringsTheRecordThatItReplaces) {
  ASSERT_NO_FATAL_FAILURE(FillCold(2));
  const std::string first = KeyOf(0);
  const std::string second = KeyOf(1);
  std::vector<Write> writes = {WriteOf(Write::Kind::kPut, first, "new"),
                               WriteOf(Write::Kind::kDelete, second)};
  for (Write& write : writes) write.may_read = false;
  store_->Submit(writes);
  std::vector<std::unique_ptr<ColdRead>> reads;
  store_->BeginReads(writes, &reads);
  for (std::size_t i = 0; i < writes.size(); ++i) {
    ASSERT_TRUE(writes[i].needs_read);
    store_->ReadCold(reads[i].get());
    writes[i].read = reads[i].get();
  }
  const auto scan = Begin();
  store_->Submit(writes);
  ASSERT_TRUE(writes[0].status.ok() && writes[1].status.ok()) << writes[0].status << writes[1].status;
  EXPECT_EQ(Rest(*scan), Olds(2));
  EXPECT_EQ(All(), (DiskShown{{KeyOf(0), "new"}}));
}

TEST_P(OrderedDiskTest, AColdValueThatNoScanMayKeepGivesThemUp) {
  const std::string large(kTooLarge, 'l');
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(0), large));
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(1), "small"));
  ASSERT_NO_FATAL_FAILURE(EvictAll());
  ASSERT_TRUE(IsCold(KeyOf(0)));
  EXPECT_EQ(All(), (DiskShown{{KeyOf(0), large}, {KeyOf(1), "small"}}));
  const auto with_it = Begin();
  const auto behind_it = Begin({.begin = KeyOf(1), .end = KeyOf(2)});
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(0), "new"));
  EXPECT_FALSE(with_it->Next());
  EXPECT_TRUE(absl::IsAborted(with_it->status())) << with_it->status();
  EXPECT_THAT(std::string(with_it->status().message()), HasSubstr("resume_token"));
  EXPECT_EQ(Rest(*behind_it), (DiskShown{{KeyOf(1), "small"}}));
}

// --- Pending writes -------------------------------------------------------------------------------------

// V6: RocksDB may have a pending write already.
TEST_P(OrderedDiskTest, PendingWritesOfColdKeysAreNotShown) {
  ASSERT_NO_FATAL_FAILURE(FillCold(5));
  const auto before = Begin();
  ASSERT_NO_FATAL_FAILURE(Leave(Write::Kind::kPut, KeyOf(0), "new"));
  ASSERT_NO_FATAL_FAILURE(Leave(Write::Kind::kPut, KeyOf(0), "newer"));
  ASSERT_NO_FATAL_FAILURE(Leave(Write::Kind::kDelete, KeyOf(1)));
  ASSERT_NO_FATAL_FAILURE(Leave(Write::Kind::kDelete, KeyOf(2)));
  ASSERT_NO_FATAL_FAILURE(Leave(Write::Kind::kPut, KeyOf(2), "again"));
  ASSERT_NO_FATAL_FAILURE(Leave(Write::Kind::kPut, KeyOf(3) + "x", "between"));
  EXPECT_EQ(All(), Olds(5));
  const auto meanwhile = Begin();
  const auto reverse = Begin({.prefix = "key ", .reverse = true});
  ASSERT_TRUE(store_->Sync());
  DiskShown old = Olds(5);
  EXPECT_EQ(Rest(*before), old);
  EXPECT_EQ(Rest(*meanwhile), old);
  std::reverse(old.begin(), old.end());
  EXPECT_EQ(Rest(*reverse), old);
  const DiskShown expected = {{KeyOf(0), "newer"},
                              {KeyOf(2), "again"},
                              {KeyOf(3), "old 3"},
                              {KeyOf(3) + "x", "between"},
                              {KeyOf(4), "old 4"}};
  EXPECT_EQ(All(), expected);
  EXPECT_EQ(CountAtOnce(), 5u);
}

// A scan shows the writes up to one version.
TEST_P(OrderedDiskTest, AScanShowsNoWriteWithoutThoseBeforeIt) {
  ASSERT_NO_FATAL_FAILURE(FillCold(2));
  const auto before = Begin();
  ASSERT_NO_FATAL_FAILURE(Leave(Write::Kind::kPut, KeyOf(0), "pending"));
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(1), "later"));
  EXPECT_EQ(All(), (DiskShown{{KeyOf(0), "pending"}, {KeyOf(1), "later"}}));
  EXPECT_FALSE(store_->Sync()) << "the scan has done so";
  EXPECT_EQ(Rest(*before), Olds(2));
}

TEST_P(OrderedDiskTest, NothingIsHeldOnceNoWriteIsPending) {
  ASSERT_NO_FATAL_FAILURE(FillCold(2));
  ASSERT_NO_FATAL_FAILURE(Leave(Write::Kind::kPut, KeyOf(0), "new"));
  ASSERT_NO_FATAL_FAILURE(Leave(Write::Kind::kDelete, KeyOf(1)));
  RunMaintenance();
  EXPECT_GT(store_->Read(Metric::kScanSavedBytes), 0u);
  ASSERT_TRUE(store_->Sync());
  RunMaintenance();
  EXPECT_EQ(store_->Read(Metric::kScanSavedBytes), 0u);
}

// V6: a record that is not held is not shown, since RocksDB may have the next one.
TEST_P(OrderedDiskTest, AScanEndsAtAPendingWriteWhoseOldRecordIsTooLarge) {
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(1), std::string(kTooLarge, 'l')));
  ASSERT_NO_FATAL_FAILURE(FillCold(1));
  ASSERT_TRUE(IsCold(KeyOf(1)));
  ASSERT_NO_FATAL_FAILURE(Leave(Write::Kind::kPut, KeyOf(1), "new"));
  const auto scan = Begin();
  ASSERT_TRUE(scan->Next());
  EXPECT_EQ(scan->key(), KeyOf(0));
  EXPECT_FALSE(scan->Next());
  EXPECT_TRUE(absl::IsAborted(scan->status())) << scan->status();
  ASSERT_TRUE(store_->Sync());
  EXPECT_EQ(Rest(*Begin({.resume_token = scan->resume_token()})).front(),
            std::pair(KeyOf(1), std::string("new")));
}

// V7: the record that readers see is in memory until the pending write is visible.
TEST_P(OrderedDiskTest, TheRecordBeforeAPendingWriteStaysInMemory) {
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(0), "old"));
  // The segment of a pending record stays as it is (S4 of sync_queue.h), so the old record is in another one.
  for (int i = 0; i < 200; ++i) {
    ASSERT_NO_FATAL_FAILURE(Put("between " + std::to_string(i), std::string(16'000, 'b')));
  }
  ASSERT_NO_FATAL_FAILURE(Leave(Write::Kind::kPut, KeyOf(0), "new"));
  const auto before = Begin();
  ASSERT_NO_FATAL_FAILURE(EvictAll());
  ASSERT_TRUE(store_->Sync());
  EXPECT_EQ(Rest(*before), (DiskShown{{KeyOf(0), "old"}}));
  EXPECT_EQ(All(), (DiskShown{{KeyOf(0), "new"}}));
}

// --- Twins ----------------------------------------------------------------------------------------------

TEST_P(OrderedDiskTest, KeysOfOneHashAreToldApart) {
  ASSERT_NO_FATAL_FAILURE(PutCold(kFirstTwin, "first"));
  const auto all = [&] { return Rest(*Begin({.prefix = "twin "})); };
  ASSERT_NO_FATAL_FAILURE(Put(kSecondTwin, "second"));
  const auto both = Begin({.prefix = "twin "});
  const DiskShown shown = {{kFirstTwin, "first"}, {kSecondTwin, "second"}};
  EXPECT_EQ(all(), shown);
  ASSERT_NO_FATAL_FAILURE(EvictAll());
  EXPECT_EQ(all(), shown);
  ASSERT_NO_FATAL_FAILURE(Delete(kFirstTwin));
  EXPECT_EQ(all(), (DiskShown{{kSecondTwin, "second"}}));
  EXPECT_EQ(Rest(*both), shown);
  EXPECT_EQ(Get(kFirstTwin), "NOT_FOUND");
  EXPECT_EQ(Get(kSecondTwin), "second");
}

// --- Expiry ---------------------------------------------------------------------------------------------

TEST_P(OrderedDiskTest, ColdKeysThatExpireAreNotShownAndLeaveTheIndex) {
  for (const auto& [key, value] : Olds(3)) {
    Write write = WriteOf(Write::Kind::kPut, key, value);
    if (key == KeyOf(1)) write.ttl = hours(1);
    ASSERT_TRUE(CommitPatiently(*store_, clock_, write).ok());
  }
  ASSERT_NO_FATAL_FAILURE(EvictAll());
  ASSERT_TRUE(IsCold(KeyOf(1)));
  EXPECT_EQ(CountAtOnce(), 3u);
  EXPECT_EQ(All(), Olds(3));
  const auto before = Begin();
  clock_.Advance(hours(2));
  const DiskShown rest = {{KeyOf(0), "old 0"}, {KeyOf(2), "old 2"}};
  EXPECT_EQ(CountAtOnce(), std::nullopt) << "it is not removed yet";
  EXPECT_EQ(All(), rest);
  EXPECT_EQ(store_->Count({.prefix = "key "}).value(), 2u);
  RunMaintenance();
  EXPECT_EQ(CountAtOnce(), 2u);
  EXPECT_EQ(Rest(*before), rest);
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(1), "old 1"));
  EXPECT_EQ(All(), Olds(3));
}

// --- Deletions of ranges --------------------------------------------------------------------------------

TEST_P(OrderedDiskTest, ADeletionTakesColdKeysAndLeavesLaterWritesAlone) {
  ASSERT_NO_FATAL_FAILURE(FillCold(600));
  const auto scan = Begin();
  const auto deletion = store_->BeginDeleteRange({.begin = KeyOf(10), .end = KeyOf(590)});
  ASSERT_TRUE(deletion.ok()) << deletion.status();
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(20), "later, cold"));
  ASSERT_NO_FATAL_FAILURE(EvictAll());
  ASSERT_TRUE(IsCold(KeyOf(20)));
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(300), "later"));
  for (;;) {
    const absl::StatusOr<bool> more = (*deletion)->Step();
    if (absl::IsAborted(more.status())) {
      clock_.Advance(kPatience);
      continue;
    }
    ASSERT_TRUE(more.ok()) << more.status();
    if (!*more) break;
  }
  EXPECT_EQ((*deletion)->deleted(), 578u);
  DiskShown expected = Olds(600);
  std::erase_if(expected, [](const auto& entry) {
    return entry.first >= KeyOf(10) && entry.first < KeyOf(590) && entry.first != KeyOf(20) &&
           entry.first != KeyOf(300);
  });
  expected[10].second = "later, cold";
  expected[11].second = "later";
  EXPECT_EQ(All(), expected);
  EXPECT_EQ(CountAtOnce(), 22u);
  EXPECT_EQ(Rest(*scan), Olds(600));
}

// --- Restarts -------------------------------------------------------------------------------------------

TEST_P(OrderedDiskTest, AllKeysAreInOrderAfterARestart) {
  ASSERT_NO_FATAL_FAILURE(FillCold(300));
  ASSERT_NO_FATAL_FAILURE(Delete(KeyOf(7)));
  DiskShown expected = Olds(300);
  expected.erase(expected.begin() + 7);
  for (const Loading loading : {Loading::kInOpen, Loading::kInSteps}) {
    ASSERT_NO_FATAL_FAILURE(Open(loading));
    while (store_->Load()) clock_.Advance(kPatience);
    ASSERT_FALSE(store_->loading()) << store_->load_status();
    EXPECT_EQ(CountAtOnce(), 299u);
    EXPECT_EQ(All(), expected);
    EXPECT_EQ(store_->Count({.prefix = "other "}).value(), 2000u);
  }
}

TEST_P(OrderedDiskTest, ScansDuringALoadMissNothingAndTheIndexKnowsItsWrites) {
  ASSERT_NO_FATAL_FAILURE(FillCold(300));
  ASSERT_NO_FATAL_FAILURE(Open(Loading::kInSteps));
  ASSERT_TRUE(store_->Load());
  ASSERT_TRUE(store_->loading());
  EXPECT_EQ(All(), Olds(300));
  EXPECT_EQ(CountAtOnce(), std::nullopt);
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(1), "new"));
  ASSERT_NO_FATAL_FAILURE(Delete(KeyOf(2)));
  ASSERT_NO_FATAL_FAILURE(Delete(KeyOf(3)));
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(3), "again"));
  ASSERT_EQ(Get(KeyOf(4)), "old 4");
  ASSERT_NO_FATAL_FAILURE(Append(KeyOf(299), "er"));
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(299) + "x", "behind"));
  const auto begun_meanwhile = Begin();
  DiskShown expected = Olds(300);
  expected[1].second = "new";
  expected[3].second = "again";
  expected[299].second = "old 299er";
  expected.emplace_back(KeyOf(299) + "x", "behind");
  expected.erase(expected.begin() + 2);
  EXPECT_EQ(All(), expected);
  while (store_->Load()) clock_.Advance(kPatience);
  ASSERT_FALSE(store_->loading()) << store_->load_status();
  EXPECT_EQ(CountAtOnce(), 300u);
  EXPECT_EQ(All(), expected);
  ASSERT_NO_FATAL_FAILURE(Delete(KeyOf(5)));
  EXPECT_EQ(Rest(*begun_meanwhile), expected) << "from RocksDB";
}

TEST_P(OrderedDiskTest, ABackupOpensWithAllKeysInOrder) {
  ASSERT_NO_FATAL_FAILURE(FillCold(20));
  ASSERT_TRUE(store_->Backup(temp_ / "backups").ok());
  ASSERT_NO_FATAL_FAILURE(Delete(KeyOf(3)));
  ASSERT_TRUE(RestoreBackup(temp_ / "backups", 0, temp_ / "restored", 1).ok());
  options_.data_dir = temp_ / "restored";
  ASSERT_NO_FATAL_FAILURE(Open());
  EXPECT_EQ(CountAtOnce(), 20u);
  EXPECT_EQ(All(), Olds(20));
}

}  // namespace
}  // namespace remora
