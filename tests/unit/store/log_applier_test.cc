// Applies groups of the commit log to RocksDB, with both ways of doing
// it. C3a and C3b are invariants of store/durable/tier_log/log_applier.h.
#include "store/durable/tier_log/log_applier.h"

#include <gmock/gmock.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "log_database.h"
#include "store/durable/format.h"
#include "test_files.h"

namespace remora {
namespace {

using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

using AppliedModel = std::map<std::string, std::string>;

/// A group as the log holds it. Its LSN is 4096 times its number, and numbers begin with 1.
class MadeGroup {
 public:
  MadeGroup(std::uint64_t number, const std::vector<LogEntry>& entries)
      : lsn_{number * 4096}, words_(LogGroupSize(entries) / 8) {
    EncodeLogGroup(entries, words_.size() * 8,
                   {.lsn = lsn_, .incarnation = 1, .previous = 0, .synced_to = {}},
                   reinterpret_cast<char*>(words_.data()));
  }
  LogGroup group() const {
    const auto group =
        VerifyLogGroup({reinterpret_cast<const char*>(words_.data()), words_.size() * 8}, lsn_);
    EXPECT_TRUE(group);
    return *group;
  }

 private:
  Lsn lsn_;
  std::vector<std::uint64_t> words_;
};

class LogApplierTest : public testing::TestWithParam<ApplyWay> {
 protected:
  void SetUp() override { OpenDatabase(); }
  void TearDown() override { CloseDatabase(); }

  void OpenDatabase() {
    db_.Open(temp_ / "db");
    entries_ = db_.entries();
    meta_ = db_.meta();
    const absl::StatusOr<Lsn> applied_to = LogApplier::ReadAppliedTo(db_.get(), meta_);
    ASSERT_TRUE(applied_to.ok()) << applied_to.status();
    applier_ = std::make_unique<LogApplier>(LogApplierOptions{.db = db_.get(),
                                                              .entries = entries_,
                                                              .meta = meta_,
                                                              .way = GetParam(),
                                                              .dir = temp_.path() + tables_},
                                            *applied_to);
  }
  void CloseDatabase() {
    applier_.reset();
    db_.Close();
  }
  void Add(std::uint64_t number, const std::vector<LogEntry>& entries) {
    applier_->Add(MadeGroup(number, entries).group());
  }
  void Persist() { ASSERT_TRUE(db_->Flush({}, {entries_, meta_}).ok()); }
  /// Returns the entries of a column family, with values that have no header.
  AppliedModel Stored(rocksdb::ColumnFamilyHandle* family) const {
    AppliedModel all;
    const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator({}, family));
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      std::string value = at->value().ToString();
      if (family == entries_) value = value.substr(sizeof(StoredHeader));
      all[at->key().ToString()] = value;
    }
    EXPECT_TRUE(at->status().ok());
    return all;
  }

  TempDir temp_;
  std::string tables_;
  LogDatabase db_;
  rocksdb::ColumnFamilyHandle* entries_ = nullptr;
  rocksdb::ColumnFamilyHandle* meta_ = nullptr;
  std::unique_ptr<LogApplier> applier_;
};
INSTANTIATE_TEST_SUITE_P(Both, LogApplierTest, testing::Values(ApplyWay::kInsert, ApplyWay::kIngest),
                         [](const auto& one) {
                           return one.param == ApplyWay::kInsert ? "Insert" : "Ingest";
                         });

// C3a: of all entries of a key, the last one that was added is written.
TEST_P(LogApplierTest, TheLastOfAKeyIsWritten) {
  Add(1, {{.version = 1, .key = "a", .value = "one"},
          {.version = 2, .expiry_ms = 77, .key = "b", .value = "two"}});
  Add(2, {{.version = 3, .key = "a", .value = "three"}, {.version = 4, .key = "c", .value = "four"}});
  Add(3, {{.kind = LogEntryKind::kDelete, .version = 5, .key = "c"},
          {.kind = LogEntryKind::kMeta, .version = 5, .key = "m", .value = "meta"}});
  EXPECT_EQ(applier_->keys(), 3u);
  EXPECT_THAT(Stored(entries_), IsEmpty());
  ASSERT_TRUE(applier_->Apply().ok());
  EXPECT_THAT(Stored(entries_), UnorderedElementsAre(Pair("a", "three"), Pair("b", "two")));
  EXPECT_EQ(Stored(meta_)["m"], "meta");
  std::string stored;
  ASSERT_TRUE(db_->Get({}, entries_, "b", &stored).ok());
  StoredEntry entry;
  ASSERT_TRUE(ReadEntry("b", stored, 100, &entry));
  EXPECT_EQ(entry.header.version, 2u);
  EXPECT_EQ(entry.header.expiry_ms, 77u);
  EXPECT_EQ(applier_->bytes(), 0u);

  // After a delete, no older value of the key returns. A deleted key may be written again.
  Add(4, {{.kind = LogEntryKind::kDelete, .version = 6, .key = "a"},
          {.version = 7, .key = "c", .value = "seven"}});
  ASSERT_TRUE(applier_->Apply().ok());
  EXPECT_THAT(Stored(entries_), UnorderedElementsAre(Pair("b", "two"), Pair("c", "seven")));
  EXPECT_TRUE(applier_->Apply().ok()) << "of nothing";
}

TEST_P(LogApplierTest, GroupsThatWereAppliedAreSkipped) {
  const std::vector<LogEntry> put = {{.version = 1, .key = "a", .value = "one"}};
  Add(1, put);
  ASSERT_TRUE(applier_->Apply().ok());
  Persist();
  const Lsn applied_to = applier_->applied_to();
  EXPECT_GT(applied_to, Lsn{4096});
  CloseDatabase();
  OpenDatabase();
  EXPECT_EQ(applier_->applied_to(), applied_to);
  Add(1, put);
  EXPECT_EQ(applier_->keys(), 0u);
  Add(2, put);
  EXPECT_EQ(applier_->keys(), 1u);
}

TEST_P(LogApplierTest, ATableThatCannotBeMadeChangesNothing) {
  if (GetParam() == ApplyWay::kInsert) GTEST_SKIP() << "makes none";
  CloseDatabase();
  tables_ = "/missing";
  OpenDatabase();
  Add(1, {{.version = 1, .key = "a", .value = "one"}});
  EXPECT_FALSE(applier_->Apply().ok());
  EXPECT_THAT(Stored(entries_), IsEmpty());
  EXPECT_EQ(applier_->applied_to(), Lsn{});
  EXPECT_EQ(applier_->keys(), 1u);
  std::filesystem::create_directory(temp_ / "missing");
  ASSERT_TRUE(applier_->Apply().ok());
  EXPECT_THAT(Stored(entries_), UnorderedElementsAre(Pair("a", "one")));
  EXPECT_THAT(FilesIn(temp_ / "missing"), IsEmpty());
}

TEST_P(LogApplierTest, AnLsnOfAnotherSizeIsDamage) {
  ASSERT_TRUE(db_->Put({}, meta_, LogApplier::kAppliedToKey, "short").ok());
  EXPECT_EQ(LogApplier::ReadAppliedTo(db_.get(), meta_).status().code(), absl::StatusCode::kDataLoss);
}

// C3b: whenever the process ends, the database has exactly the log up to its own applied_to.
TEST_P(LogApplierTest, HoldsTheLogUpToItsOwnLsn) {
  constexpr std::uint64_t kAppliedGroups = 400;
  std::mt19937_64 random(7);
  std::map<std::uint64_t, AppliedModel> states;  // by the LSN behind the last group
  std::vector<MadeGroup> log;
  AppliedModel model;
  states[0] = model;
  for (std::uint64_t number = 1; number <= kAppliedGroups; ++number) {
    std::vector<std::string> texts;
    for (int i = 0; i < 4; ++i) texts.push_back("key" + std::to_string(random() % 40));
    std::vector<LogEntry> entries;
    for (const std::string& key : texts) {
      const bool is_delete = random() % 4 == 0;
      entries.push_back({.kind = is_delete ? LogEntryKind::kDelete : LogEntryKind::kPut,
                         .version = number,
                         .key = key,
                         .value = is_delete ? std::string_view() : std::string_view(texts[0])});
      is_delete ? static_cast<void>(model.erase(key)) : static_cast<void>(model[key] = texts[0]);
    }
    log.emplace_back(number, entries);
    states[log.back().group().end().value] = model;
  }
  std::size_t next = 0;
  for (int round = 0; round < 60; ++round) {
    for (std::uint64_t groups = random() % 12; groups > 0 && next < log.size(); --groups) {
      applier_->Add(log[next++].group());
    }
    if (random() % 2 == 0) {
      ASSERT_TRUE(applier_->Apply().ok());
    }
    if (random() % 3 == 0) {
      Persist();
    }
    if (random() % 3 != 0) continue;
    CloseDatabase();
    OpenDatabase();
    ASSERT_TRUE(states.contains(applier_->applied_to().value));
    ASSERT_EQ(Stored(entries_), states[applier_->applied_to().value]);
    next = 0;  // adds all groups again; the applier skips those that it has
  }
  while (next < log.size()) applier_->Add(log[next++].group());
  ASSERT_TRUE(applier_->Apply().ok());
  Persist();
  CloseDatabase();
  OpenDatabase();
  EXPECT_EQ(Stored(entries_), model);
}

}  // namespace
}  // namespace remora
