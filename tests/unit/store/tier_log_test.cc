// The durable tier with a commit log (store/durable/tier_log/tier_log.h, which numbers its invariants): its
// parts, without a thread that applies, and whole tiers and stores. C9: commit_log.h, W4: wal_recovery.h.
#include "store/durable/tier_log/tier_log.h"

#include <gmock/gmock.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "file_size_limit.h"
#include "log_database.h"
#include "store/durable/data_check.h"
#include "store/durable/tier.h"
#include "store/server_store.h"
#include "store_parts.h"
#include "test_files.h"

namespace remora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

using TierModel = std::map<std::string, std::string>;

constexpr std::uint64_t kTestLogFile = kMinTierLogBytes / 16;

class TierLogTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(temp_ / "log");
    Open();
  }
  void TearDown() override { Kill(); }

  void Open() {
    db_.Open(temp_ / "db");
    const absl::Status status = TryOpen();
    ASSERT_TRUE(status.ok()) << status;
  }
  absl::Status TryOpen() {
    absl::StatusOr<std::unique_ptr<TierLog>> log = TierLog::Open({.dir = temp_ / "log",
                                                                  .db = db_.get(),
                                                                  .entries = db_.entries(),
                                                                  .meta = db_.meta(),
                                                                  .is_of_this_boot = true,
                                                                  .max_bytes = kMinTierLogBytes,
                                                                  .applying = applying_});
    if (!log.ok()) return log.status();
    log_ = *std::move(log);
    log_->Begin(1);
    return absl::OkStatus();
  }
  /// Loses the contents of memory, as a kill does.
  void Kill() {
    log_.reset();
    db_.Close();
  }
  void Restart() {
    Kill();
    Open();
  }
  void Put(const std::string& key, const std::string& value) {
    log_->group().Put(key, {.version = ++version_}, value);
    const absl::Status status = log_->Write();
    ASSERT_TRUE(status.ok()) << status;
  }
  void Delete(const std::string& key) {
    log_->group().Delete(key, ++version_);
    const absl::Status status = log_->Write();
    ASSERT_TRUE(status.ok()) << status;
  }
  /// Returns the entries in RocksDB, without headers.
  TierModel Stored(std::size_t family = 0) const {
    TierModel all;
    const std::unique_ptr<rocksdb::Iterator> at(
        db_->NewIterator({}, family == 0 ? db_.entries() : db_.meta()));
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      std::string value = at->value().ToString();
      if (family == 0) value.erase(0, sizeof(StoredHeader));
      all[at->key().ToString()] = value;
    }
    return all;
  }

  TempDir temp_;
  LogDatabase db_;
  LogApplying applying_ = LogApplying::kOnDemand;
  std::unique_ptr<TierLog> log_;
  std::uint64_t version_ = 0;
};

TEST_F(TierLogTest, WritesSurviveAKill) {  // C1, C5
  Put("a", "1");
  Put("b", "2");
  Delete("a");
  EXPECT_THAT(Stored(), IsEmpty()) << "nobody has applied it";
  Restart();
  EXPECT_THAT(Stored(), ElementsAre(Pair("b", "2")));
  Put("c", "3");
  Restart();
  EXPECT_THAT(Stored(), ElementsAre(Pair("b", "2"), Pair("c", "3")));
}

TEST_F(TierLogTest, AGroupIsThereWholeOrNot) {  // C1, C5
  Put("a", "1");
  const Lsn end = log_->appended();
  log_->group().Put("b", {.version = 2}, "2");
  log_->group().PutMeta("name", "value");
  log_->group().Put("c", {.version = 3}, "3");
  ASSERT_TRUE(log_->Write().ok());
  const Lsn last = log_->appended();
  Kill();
  const std::string path = temp_ / "log/0000000000000000.log";
  const std::string whole = ReadFile(path);
  for (std::uint64_t cut = end.value; cut < last.value; cut += 8) {
    std::string torn = whole;
    std::fill(torn.begin() + static_cast<std::ptrdiff_t>(cut), torn.end(), '\0');
    WriteFile(path, torn);
    db_.Open(temp_ / "db");
    ASSERT_TRUE(TryOpen().ok()) << cut;
    EXPECT_THAT(Stored(), ElementsAre(Pair("a", "1"))) << cut;
    EXPECT_FALSE(Stored(1).contains("name")) << cut;
    Kill();
  }
  WriteFile(path, whole);
  Open();
  EXPECT_THAT(Stored(), ElementsAre(Pair("a", "1"), Pair("b", "2"), Pair("c", "3")));
}

TEST_F(TierLogTest, DamageBeforeTheEndIsNotTakenForTheEnd) {  // C5, W4
  Put("a", "1");
  const Lsn end = log_->appended();
  Put("b", "2");
  Put("c", "3");
  Kill();
  const std::string path = temp_ / "log/0000000000000000.log";
  std::string bytes = ReadFile(path);
  bytes[end.value + 70] ^= 1;
  WriteFile(path, bytes);
  db_.Open(temp_ / "db");
  EXPECT_EQ(TryOpen().code(), absl::StatusCode::kDataLoss);
}

TEST_F(TierLogTest, GroupsThatAreOnlyAppliedStayInTheLog) {  // C4
  const std::string value(1000, 'v');
  TierModel model;
  for (int i = 0; i < 300; ++i) {
    const std::string key = "key" + std::to_string(i % 50);
    Put(key, value + std::to_string(i));
    model[key] = value + std::to_string(i);
  }
  ASSERT_GT(log_->appended().value, 3 * kTestLogFile);
  ASSERT_TRUE(log_->ApplyAll().ok());
  EXPECT_TRUE(Stored() == model);
  EXPECT_EQ(log_->applied_to(), log_->appended());
  EXPECT_EQ(log_->persisted_to(), Lsn{});
  for (int i = 0; i < 300; ++i) Put("other", value);  // would overwrite recycled files, if there were any
  model["other"] = value;
  Restart();
  EXPECT_TRUE(Stored() == model);
}

TEST_F(TierLogTest, AFullLogIsAppliedByItsWriters) {  // C10, C4
  const std::string value(1000, 'v');
  TierModel model;
  for (int i = 0; i < 4000; ++i) {
    const std::string key = "key" + std::to_string(i % 50);
    ASSERT_NO_FATAL_FAILURE(Put(key, value + std::to_string(i)));
    model[key] = value + std::to_string(i);
    ASSERT_GE(log_->durable(), log_->persisted_to()) << i;
  }
  EXPECT_GT(log_->persisted_to(), Lsn{kMinTierLogBytes});
  log_->WatchProgress([](const LogProgress& told) { EXPECT_GT(told.slowed, 0u) << "before it was full"; });
  Restart();
  EXPECT_TRUE(Stored() == model);
}

TEST_F(TierLogTest, WithoutAThreadItsWriterApplies) {
  Kill();
  applying_ = LogApplying::kByWriter;
  Open();
  const std::string value(1000, 'v');
  for (int i = 0; i < 3000; ++i) {
    ASSERT_NO_FATAL_FAILURE(Put("key" + std::to_string(i % 50), value));
    ASSERT_LE(log_->appended() - log_->applied_to(), kTestLogFile + 2000) << i;
    ASSERT_LE(log_->appended() - log_->persisted_to(), kMinTierLogBytes / 2) << i;
  }
  EXPECT_EQ(Stored().size(), 50u);
}

TEST_F(TierLogTest, AfterAFlushThatFailedItIsSyncedBeforeItIsApplied) {  // T2
  Put("a", "1");
  ASSERT_TRUE(log_->ApplyAll().ok());
  ASSERT_LT(log_->durable(), log_->applied_to()) << "no flush has failed so far";
  // RocksDB makes no table where a folder has its name. (A failed write would abort builds with assertions.)
  for (int i = 1; i < 200; ++i) {
    const std::string digits = std::to_string(1'000'000 + i).substr(1);
    std::filesystem::create_directory(temp_ / "db/" + digits + ".sst");
  }
  EXPECT_FALSE(log_->PersistAll().ok());
  Put("b", "2");
  log_->ApplyAll().IgnoreError();  // RocksDB may take no writes now
  EXPECT_EQ(log_->durable(), log_->appended());
  Kill();
  for (const std::string& table : FilesIn(temp_ / "db", ".sst"))
    if (std::filesystem::is_directory(table)) std::filesystem::remove(table);
  Open();
  EXPECT_EQ(Stored().size(), 2u);
}

TEST_F(TierLogTest, MemoryMayForgetWhatItHolds) {  // C6
  Put("a", "1");
  EXPECT_TRUE(log_->Holds(version_));
  EXPECT_THAT(Stored(), ElementsAre(Pair("a", "1")));
  Put("b", "2");
  EXPECT_TRUE(log_->Holds(version_ - 1)) << "without waiting";
  EXPECT_THAT(Stored(), ElementsAre(Pair("a", "1")));
}

TEST_F(TierLogTest, KnowsWhatIsDeletedAndNotApplied) {  // C6
  Put("a", "1");
  ASSERT_TRUE(log_->ApplyAll().ok());
  Delete("a");
  Delete("b");
  EXPECT_TRUE(log_->IsDeleted("a"));
  EXPECT_FALSE(log_->IsDeleted("c"));
  Put("a", "2");
  EXPECT_FALSE(log_->IsDeleted("a"));
  Delete("a");
  EXPECT_TRUE(log_->IsDeleted("a"));
  EXPECT_TRUE(log_->IsDeleted("b"));
  ASSERT_TRUE(log_->ApplyAll().ok());
  EXPECT_FALSE(log_->IsDeleted("a"));
  EXPECT_FALSE(log_->IsDeleted("b"));
  EXPECT_THAT(Stored(), IsEmpty());
}

TEST_F(TierLogTest, AGroupLargerThanAFileIsOnTheDiskAtOnce) {  // T1
  const std::string large(2 * kTestLogFile, 'l');
  Put("a", "1");
  Put("b", "before");
  log_->group().Put("b", {.version = ++version_}, large);
  log_->group().PutCompletion({.client = 7, .number = 3}, version_, 5);
  ASSERT_TRUE(log_->Write().ok());
  EXPECT_TRUE(log_->Holds(version_));
  Put("a", "2");
  Restart();
  EXPECT_TRUE(Stored() == (TierModel{{"a", "2"}, {"b", large}}));
  EXPECT_TRUE(Stored(1).contains(CompletionKey({7, 3})));
  Put("b", "behind");
  Restart();
  EXPECT_THAT(Stored(), ElementsAre(Pair("a", "2"), Pair("b", "behind")));
}

TEST_F(TierLogTest, CompletionsComeWithTheirWrites) {
  log_->group().PutMeta(ClientKey(7), "12345678");
  ASSERT_TRUE(log_->Write().ok());
  log_->group().Put("a", {.version = 9}, "1");
  log_->group().PutCompletion({.client = 7, .number = 20}, 9, -3);
  ASSERT_TRUE(log_->Write().ok());
  Restart();
  TierModel meta = Stored(1);
  meta.erase(LogApplier::kAppliedToKey);
  const CompletionRecord write{20, 9, -3};
  EXPECT_THAT(meta,
              UnorderedElementsAre(Pair(ClientKey(7), "12345678"),
                                   Pair(CompletionKey({7, 4}),
                                        std::string(reinterpret_cast<const char*>(&write), sizeof(write)))));
  log_->group().DeleteClient(7);
  ASSERT_TRUE(log_->Write().ok());
  Restart();
  EXPECT_THAT(Stored(1), ElementsAre(Pair(LogApplier::kAppliedToKey, testing::_)));
}

TEST_F(TierLogTest, AnEmptyGroupIsNothing) {
  const Lsn before = log_->appended();
  EXPECT_TRUE(log_->Write().ok());
  EXPECT_EQ(log_->appended(), before);
}

// --- Of a tier and a store ------------------------------------------------------------------------------

class LoggedTierTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kLogBytes = std::uint64_t{4} << 20;

  absl::StatusOr<std::unique_ptr<DurableTier>> OpenTier(std::uint64_t log_bytes, bool read_only = false) {
    return DurableTier::Open(path_, {.read_only = read_only, .commit_log_bytes = log_bytes});
  }
  std::unique_ptr<ServerStore> OpenStore(std::uint64_t log_bytes = kLogBytes) {
    StoreOptions options = LoggedIn(path_);
    options.commit_log_bytes = log_bytes;
    absl::StatusOr<std::unique_ptr<ServerStore>> store = ServerStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  TempDir temp_;
  const std::string path_ = temp_ / "store";
};

TEST_F(LoggedTierTest, TakesOverADirectoryOfAnEarlierStore) {  // C11
  {
    const auto store = OpenStore(0);
    ASSERT_TRUE(store->Put("a", "1").ok());
    ASSERT_TRUE(store->Put("b", "2").ok());
  }
  std::uint64_t version = 0;
  {
    const auto store = OpenStore();
    EXPECT_EQ(*store->Get("a"), "1");
    ASSERT_TRUE(store->Delete("a").ok());
    ASSERT_TRUE(store->Put("c", "3", {.version = &version}).ok());
  }
  const absl::Status without = OpenTier(0).status();
  ASSERT_EQ(without.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(without.message(), HasSubstr("has a commit log"));
  const auto store = OpenStore();
  EXPECT_TRUE(absl::IsNotFound(store->Get("a").status()));
  EXPECT_EQ(*store->Get("b"), "2");
  EXPECT_EQ(*store->Get("c"), "3");
  std::uint64_t later = 0;
  ASSERT_TRUE(store->Put("d", "4", {.version = &later}).ok());
  EXPECT_GT(later, version);
}

TEST_F(LoggedTierTest, IsReadWithoutAStore) {
  OpenStore(0)->Put("first", "0").IgnoreError();
  for (int pass = 0; pass < 2; ++pass) {
    {
      const auto store = OpenStore();
      ASSERT_TRUE(store->Put("a", "1").ok());
      ASSERT_TRUE(store->Put("b", "2", {.ttl = std::chrono::hours(1)}).ok());
      ASSERT_TRUE(pass > 0 || store->Backup(temp_ / "backups").ok()) << "so that a part is in tables";
      ASSERT_TRUE(store->Put("a", "3").ok());
      ASSERT_TRUE(store->Put("c", std::string(1000, 'c')).ok());
      ASSERT_TRUE(store->Delete("b").ok());
      ASSERT_TRUE(store->Delete("first").ok() || pass > 0);
    }
    const std::vector<std::string> before = FilesIn(path_ + "/commit-log");
    const absl::StatusOr<DataReport> report = CheckData(path_, 0);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->keys, 2u);
    EXPECT_EQ(report->bytes, 2 + 1 + 1000u) << "of a, 3 and c";
    EXPECT_FALSE(report->log_is_torn);
    const auto tier = OpenTier(0, /*read_only=*/true);
    ASSERT_TRUE(tier.ok()) << tier.status();
    EXPECT_TRUE((*tier)->Get("c", [](const auto&) { return absl::OkStatus(); }).ok());
    EXPECT_TRUE(absl::IsNotFound((*tier)->Get("b", [](const auto&) { return absl::OkStatus(); })));
    EXPECT_EQ(FilesIn(path_ + "/commit-log"), before) << "nothing was changed";
  }
}

TEST_F(LoggedTierTest, ALogThatIsMissingIsNoticed) {
  ASSERT_TRUE(OpenStore()->Put("a", "1").ok());
  {
    // A part of the data is in tables.
    const auto store = OpenStore();
    const std::string value(100'000, 'v');
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(store->Put("b", value).ok());
  }
  std::filesystem::remove_all(path_ + "/commit-log");
  std::filesystem::create_directory(path_ + "/commit-log");
  EXPECT_EQ(OpenTier(kLogBytes).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(LoggedTierTest, ACursorShowsAllThatWasWrittenBefore) {  // C7
  const auto tier = *DurableTier::Open(path_, {.commit_log_bytes = kLogBytes, .applies_in_steps = true});
  tier->SetVersionLimit(1000);
  tier->Put("a", {.version = 1}, "1");
  ASSERT_TRUE(tier->Write().ok());
  const auto cursor = tier->NewCursor({});
  tier->Put("b", {.version = 2}, "2");
  ASSERT_TRUE(tier->Write().ok());
  ASSERT_TRUE(tier->Holds(2)) << "it is applied";
  ASSERT_TRUE(cursor->Next());
  EXPECT_EQ(cursor->entry().key, "a");
  EXPECT_FALSE(cursor->Next());
}

TEST_F(LoggedTierTest, ScansShowAllThatWasWritten) {  // C7
  const auto store = OpenStore();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(store->Put("key" + std::to_string(i), "v").ok());
    const absl::StatusOr<std::uint64_t> count = store->Count(RangeOptions{});
    ASSERT_TRUE(count.ok()) << count.status();
    ASSERT_EQ(*count, static_cast<std::uint64_t>(i) + 1);
  }
  EXPECT_EQ(*store->DeleteAll(), 100u);
  EXPECT_EQ(*store->Count(RangeOptions{}), 0u);
}

TEST_F(LoggedTierTest, EvictedKeysAreFound) {  // C6
  const auto store = OpenStore();
  const std::string value(4000, 'v');
  constexpr int kKeys = 16'000;  // four times the memory
  for (int i = 0; i < kKeys; ++i) {
    ASSERT_TRUE(store->Put("key" + std::to_string(i), value + std::to_string(i)).ok());
    if (i % 7 == 0) store->Delete("key" + std::to_string(i / 2)).IgnoreError();
    // Reads the key about when it is evicted.
    if (i % 16 == 0 && i > 3000) {
      const int other = i - 3000;
      const absl::StatusOr<std::string> got = store->Get("key" + std::to_string(other));
      if (!absl::IsNotFound(got.status())) {
        ASSERT_TRUE(got.ok()) << got.status();
        ASSERT_EQ(*got, value + std::to_string(other));
      }
    }
  }
  EXPECT_GT(store->Read(Metric::kEvictions), 0u);
  EXPECT_GT(store->Read(Metric::kFetches), 0u);
}

TEST_F(LoggedTierTest, AWriteThatCannotBeLoggedIsNotVisible) {  // C1, C9
  const auto store = OpenStore(kMinTierLogBytes);
  const std::string value(1000, 'v');
  ASSERT_TRUE(store->Put("key", value + "0").ok());
  std::string last = value + "0";
  absl::Status status;
  {
    FileSizeLimit limit(4096);  // so the log can make no file
    for (int i = 1; i < 20'000 && status.ok(); ++i) {
      status = store->Put("key", value + std::to_string(i));
      if (status.ok()) last = value + std::to_string(i);
    }
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(*store->Get("key"), last);
  EXPECT_FALSE(store->disk_status().ok());
  // The store recovers by itself.
  for (int i = 0; i < 6000 && !store->Put("other", "1").ok(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(*store->Get("other"), "1");
  EXPECT_TRUE(store->disk_status().ok());
}

TEST_F(LoggedTierTest, APutAloneMeetsAllThatThereMayBe) {
  auto store = OpenStore();
  const std::string value(4000, 'v');
  constexpr int kKeys = 8000;  // twice the memory
  for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(store->Put("key" + std::to_string(i), value).ok());
  for (int i = 0; i < kKeys; i += 100) {  // some of these keys are cold
    ASSERT_TRUE(store->Put("key" + std::to_string(i), "new").ok());
    ASSERT_TRUE(store->Put("key" + std::to_string(i), "synced", {.durability = Durability::kSynced}).ok());
    ASSERT_TRUE(store->Put("key" + std::to_string(i), "last", {.ttl = std::chrono::hours(1)}).ok());
    ASSERT_TRUE(store->Put("mine", "a", {.durability = Durability::kMemory}).ok());
  }
  EXPECT_EQ(store->Read(Metric::kSyncedWrites), 80u);
  const std::uint64_t version = store->Read(Metric::kLastVersion);
  EXPECT_EQ(*store->Count(RangeOptions{}), static_cast<std::uint64_t>(kKeys) + 1);
  EXPECT_EQ(*store->Count(), static_cast<std::uint64_t>(kKeys) + 1) << "by the index";
  store.reset();
  store = OpenStore();
  EXPECT_EQ(*store->Count(RangeOptions{}), static_cast<std::uint64_t>(kKeys) + 1);
  for (int i = 0; i < kKeys; ++i) {
    ASSERT_EQ(*store->Get("key" + std::to_string(i)), i % 100 == 0 ? "last" : value) << i;
  }
  EXPECT_TRUE((*store->Ttl("key100")).has_value());
  EXPECT_GT(store->Read(Metric::kLastVersion), version);
}

TEST_F(LoggedTierTest, AWriteIsAppliedBeforeItsEviction) {  // C6
  const auto tier = *OpenTier(kLogBytes);
  StoreParts parts(16, Evictor::Mode::kMarkCold);
  Evictor evictor(Evictor::Mode::kMarkCold, parts.segments, parts.log, parts.index, nullptr,
                  parts.cold_expirer, parts.frequency, tier.get(), /*changes=*/nullptr, parts.unsynced);
  ASSERT_TRUE(parts.Put("key", "value"));
  tier->SetVersionLimit(1000);
  tier->Put("key", {.version = parts.version}, "value");
  ASSERT_TRUE(tier->Write().ok());
  const std::uint64_t key_hash = HashKey("key");
  ASSERT_TRUE(evictor.Evict(key_hash, *parts.index.Find("key", key_hash), parts.now));
  EXPECT_TRUE(tier->Get("key", [](const auto&) { return absl::OkStatus(); }).ok());
}

TEST_F(LoggedTierTest, OptionsThatDoNotFitAreRejected) {
  StoreOptions options;
  options.commit_log_bytes = kLogBytes;
  EXPECT_EQ(ServerStore::Open(options).status().code(), absl::StatusCode::kInvalidArgument) << "in memory";
  options = LoggedIn(path_);
  options.commit_log_bytes = kMinTierLogBytes - 1;
  EXPECT_EQ(ServerStore::Open(options).status().code(), absl::StatusCode::kInvalidArgument) << "too small";
  EXPECT_TRUE(OpenStore(0)->Put("a", "1").ok()) << "and nothing was changed";
}

}  // namespace
}  // namespace remora
