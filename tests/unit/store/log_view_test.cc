// Scans of a tier with a commit log: the entries that their cursors show (C7, O1 and O2), and that neither
// they nor the applier wait for a flush (T2). The invariants are those of tier_log.h and scan_overlay.h in
// store/durable.
#include <gmock/gmock.h>
#include <rocksdb/db.h>
#include <rocksdb/listener.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "log_database.h"
#include "store/durable/commit_log/commit_log.h"
#include "store/durable/commit_log/group_codec.h"
#include "store/durable/tier.h"
#include "store/durable/tier_log/tier_log.h"
#include "test_files.h"

namespace remora {
namespace {

using testing::ElementsAre;
using testing::Pair;

using ShownEntries = std::vector<std::pair<std::string, std::string>>;

constexpr std::chrono::seconds kLongWait{60};  // only a test that fails waits for so long

ShownEntries EntriesOf(DurableTier::Cursor& cursor) {
  ShownEntries shown;
  while (cursor.Next()) shown.emplace_back(cursor.entry().key, cursor.entry().value);
  EXPECT_TRUE(cursor.status().ok()) << cursor.status();
  return shown;
}

// A cursor shows its range as it was when the cursor was made, wherever the applier stood then, and whatever
// is written, applied and flushed before the cursor is read.
TEST(LogViewTest, CursorsShowExactlyWhatWasWrittenBefore) {
  struct Opened {
    std::unique_ptr<DurableTier::Cursor> cursor;
    ShownEntries expected;
    int step = 0;
  };
  const TempDir temp;
  const auto tier =
      *DurableTier::Open(temp / "store", {.commit_log_bytes = kMinTierLogBytes, .applies_in_steps = true});
  tier->SetVersionLimit(1'000'000);
  std::mt19937 random(32);
  std::map<std::string, std::string> model;
  std::vector<Opened> open;
  std::uint64_t version = 0;
  const auto key_at = [](std::uint64_t i) { return "key" + std::to_string(1000 + i % 200); };
  for (int step = 0; step < 3000; ++step) {
    for (std::uint64_t n = 1 + random() % 3; n > 0; --n) {
      const std::string key = key_at(random());
      ++version;
      if (random() % 4 == 0) {
        tier->Delete(key, version);
        model.erase(key);
      } else {
        // One of a hundred is larger than a file of the log (T1).
        static const std::string large(kMinTierLogBytes / 8, 'l');
        std::string& value = model[key];
        value = random() % 100 == 0 ? large + std::to_string(step) : std::to_string(step);
        tier->Put(key, {.version = version}, value);
      }
      ASSERT_TRUE(tier->Write().ok());
    }
    if (random() % 50 == 0) {
      ASSERT_TRUE(tier->Holds(version)) << "all is applied";
    }
    if (random() % 500 == 0) {
      ASSERT_TRUE(tier->Backup(temp / "backups", {}).ok()) << "all is flushed";
    }
    if (random() % 5 == 0) {
      ScanRange range{.reverse = random() % 2 == 0};
      if (random() % 2 == 0) range.begin = key_at(random());
      if (random() % 2 == 0) range.end = key_at(random());
      Opened& opened = open.emplace_back(Opened{tier->NewCursor(range), {}, step});
      for (const auto& [key, value] : model) {
        if (range.Contains(key)) opened.expected.emplace_back(key, value);
      }
      if (range.reverse) opened.expected = {opened.expected.rbegin(), opened.expected.rend()};
    }
    if (open.size() > 10 || step == 2999) {
      for (Opened& opened : open) {
        ASSERT_TRUE(EntriesOf(*opened.cursor) == opened.expected) << "opened at step " << opened.step;
      }
      open.clear();
    }
  }
}

// --- Beside a flush -------------------------------------------------------------------------------------

/// Holds all flushes back from when Hold is called until Release is.
class HeldFlushes final : public rocksdb::EventListener {
 public:
  void Hold() {
    held_ = true;
    began_ = {};
    released_ = {};
  }
  void OnFlushBegin(rocksdb::DB* /*db*/, const rocksdb::FlushJobInfo& /*info*/) override {
    if (!held_.exchange(false)) return;
    began_.set_value();
    released_.get_future().wait();
  }
  bool WaitUntilOneBegan() { return began_.get_future().wait_for(kLongWait) == std::future_status::ready; }
  void Release() { released_.set_value(); }

 private:
  std::atomic<bool> held_ = false;
  std::promise<void> began_;
  std::promise<void> released_;
};

class LogViewDatabaseTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(temp_ / "log");
    Open();
  }
  void TearDown() override { Kill(); }
  void Open(std::uint64_t max_bytes = kMinTierLogBytes, LogApplying applying = LogApplying::kOnDemand) {
    db_.Open(temp_ / "db", flushes_);
    log_ = *TierLog::Open({.dir = temp_ / "log",
                           .db = db_.get(),
                           .entries = db_.entries(),
                           .meta = db_.meta(),
                           .is_of_this_boot = true,
                           .max_bytes = max_bytes,
                           .write_buffer_bytes = write_buffer_bytes_,
                           .applying = applying});
    log_->Begin(1);
  }
  void Kill() {
    log_.reset();
    db_.Close();
  }
  void Put(const std::string& key, const std::string& value) {
    log_->group().Put(key, {.version = ++version_}, value);
    ASSERT_TRUE(log_->Write().ok());
  }
  std::vector<std::string> StoredKeys() const {
    std::vector<std::string> keys;
    const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator({}, db_.entries()));
    for (at->SeekToFirst(); at->Valid(); at->Next()) keys.push_back(at->key().ToString());
    return keys;
  }

  TempDir temp_;
  std::uint64_t write_buffer_bytes_ = std::uint64_t{64} << 20;
  const std::shared_ptr<HeldFlushes> flushes_ = std::make_shared<HeldFlushes>();
  LogDatabase db_;
  std::unique_ptr<TierLog> log_;
  std::uint64_t version_ = 0;
};

TEST_F(LogViewDatabaseTest, WhileAFlushRunsScansAndTheApplierGoOn) {  // C7, T2
  Put("a", "1");
  flushes_->Hold();
  std::future<absl::Status> persisted = std::async(std::launch::async, [this] { return log_->PersistAll(); });
  EXPECT_TRUE(flushes_->WaitUntilOneBegan());
  Put("b", "2");
  const Lsn unsynced = log_->appended();
  // In a thread of their own, so that the test ends if they wait for the flush.
  std::future<void> beside = std::async(std::launch::async, [this, unsynced] {
    const absl::StatusOr<TierLog::View> view = log_->OpenView({});
    ASSERT_TRUE(view.ok()) << view.status();
    ASSERT_NE(view->overlay, nullptr);
    ASSERT_NE(view->overlay->front(), nullptr);
    EXPECT_EQ(view->overlay->front()->key, "b");
    EXPECT_LT(log_->durable(), unsynced) << "a scan syncs nothing";
    EXPECT_TRUE(log_->Holds(version_)) << "the applier writes beside the flush";
    EXPECT_GE(log_->durable(), log_->applied_to()) << "a flush that RocksDB repeats may take it (C4)";
  });
  EXPECT_EQ(beside.wait_for(kLongWait), std::future_status::ready);
  EXPECT_EQ(log_->persisted_to(), Lsn{});
  EXPECT_THAT(StoredKeys(), ElementsAre("a", "b"));
  flushes_->Release();
  const absl::Status status = persisted.get();
  EXPECT_TRUE(status.ok()) << status;
  beside.get();
  EXPECT_LT(log_->persisted_to(), unsynced);
  EXPECT_GT(log_->persisted_to(), Lsn{});
  Put("c", "3");
  ASSERT_TRUE(log_->ApplyAll().ok());
  EXPECT_LT(log_->durable(), log_->applied_to()) << "no flush runs now";
  Kill();
  Open();
  EXPECT_THAT(StoredKeys(), ElementsAre("a", "b", "c"));
}

TEST_F(LogViewDatabaseTest, TheApplierWaitsForAFlushOnceItHasTwoWriteBuffersInMemory) {  // T4
  Kill();
  write_buffer_bytes_ = std::uint64_t{2} << 20;
  ASSERT_NO_FATAL_FAILURE(Open(std::uint64_t{16} << 20, LogApplying::kInThread));
  flushes_->Hold();
  const std::string value(std::size_t{256} << 10, 'v');
  for (int i = 0; i < 28; ++i) ASSERT_NO_FATAL_FAILURE(Put("key" + std::to_string(100 + i), value));
  const Lsn end = log_->appended();
  EXPECT_TRUE(flushes_->WaitUntilOneBegan());
  // More steps and rounds of the applier than all of it would take.
  std::atomic<int> told = 0;
  log_->WatchProgress([&told](const LogProgress&) { ++told; });
  const auto give_up = std::chrono::steady_clock::now() + kLongWait;
  while (told < 12 && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
  log_->WatchProgress({});
  EXPECT_LT(log_->applied_to(), end) << "RocksDB has all of it in memory";
  EXPECT_EQ(log_->persisted_to(), Lsn{});
  flushes_->Release();
  while (log_->applied_to() < end && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
  EXPECT_EQ(log_->applied_to(), end);
}

TEST_F(LogViewDatabaseTest, AViewHasTheGroupsThatAreNotApplied) {  // C7, O1
  Put("b", "1");
  ASSERT_TRUE(log_->ApplyAll().ok());
  absl::StatusOr<TierLog::View> view = log_->OpenView({});
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->overlay, nullptr);
  Put("a", "2");
  Put("c", "3");
  log_->group().Delete("c", ++version_);
  ASSERT_TRUE(log_->Write().ok());
  Put("a", "4");
  Put("z", "5");
  view = log_->OpenView({.begin = "a", .end = "d", .reverse = true});
  ASSERT_TRUE(view.ok()) << view.status();
  std::vector<std::pair<std::string, std::string>> shown;
  while (const LogEntry* const entry = view->overlay->front()) {
    shown.emplace_back(entry->key, entry->kind == LogEntryKind::kDelete ? "deleted" : entry->value);
    view->overlay->Pop();
  }
  EXPECT_THAT(shown, ElementsAre(Pair("c", "deleted"), Pair("a", "4")));
  EXPECT_THAT(StoredKeys(), ElementsAre("b")) << "a view applies nothing";
}

// RocksDB compacts tables anew once a snapshot that kept something in them is released.
TEST_F(LogViewDatabaseTest, NoSnapshotIsKeptForNobody) {
  const auto snapshots = [this] {
    std::uint64_t count = 99;
    EXPECT_TRUE(db_->GetIntProperty("rocksdb.num-snapshots", &count));
    return count;
  };
  Put("a", "1");
  ASSERT_TRUE(log_->ApplyAll().ok());
  EXPECT_EQ(snapshots(), 0);
  { const absl::StatusOr<TierLog::View> view = log_->OpenView({}); }
  EXPECT_EQ(snapshots(), 1) << "the next view may come soon";
  Put("b", "2");
  ASSERT_TRUE(log_->ApplyAll().ok());
  EXPECT_EQ(snapshots(), 1);
}

// Without a view lately, there is no moment to begin with.
TEST_F(LogViewDatabaseTest, AViewIsReadyOnceTheApplierHasMadeAMoment) {
  Kill();
  ASSERT_NO_FATAL_FAILURE(Open(std::uint64_t{128} << 20, LogApplying::kInThread));
  Put("a", "1");
  EXPECT_FALSE(log_->IsReadyForView());
  const auto give_up = std::chrono::steady_clock::now() + kLongWait;
  while (!log_->IsReadyForView() && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
  EXPECT_TRUE(log_->IsReadyForView());
}

TEST_F(LogViewDatabaseTest, AViewOfVeryManyBytesAppliesThem) {
  Kill();
  std::filesystem::remove_all(temp_ / "log");
  std::filesystem::create_directory(temp_ / "log");
  std::filesystem::remove_all(temp_ / "db");
  Open(std::uint64_t{128} << 20);
  const std::string value(std::size_t{1} << 20, 'v');
  for (int i = 0; i < 20; ++i) Put("key" + std::to_string(i), value);
  const absl::StatusOr<TierLog::View> view = log_->OpenView({});
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->overlay, nullptr);
  EXPECT_EQ(log_->applied_to(), log_->appended());
  EXPECT_EQ(StoredKeys().size(), 20u);
}

// A caller that needs an old record does not wait for all that was written since.
/// Holds the thread of an applier between two steps.
class HeldApplier {
 public:
  explicit HeldApplier(TierLog& log) : log_(log) {
    log.WatchProgress([this](const LogProgress&) {
      std::unique_lock lock(mutex_);
      is_held_ = !is_open_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return is_open_; });
    });
    std::unique_lock lock(mutex_);
    is_open_ = false;
    EXPECT_TRUE(changed_.wait_for(lock, kLongWait, [this] { return is_held_; }));
  }
  ~HeldApplier() {
    Release();
    log_.WatchProgress({});
  }
  HeldApplier(const HeldApplier&) = delete;
  HeldApplier& operator=(const HeldApplier&) = delete;
  void Release() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }

 private:
  TierLog& log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = true;
  bool is_held_ = false;
};

TEST_F(LogViewDatabaseTest, AViewFarBehindIsReadyWhenTheApplierHasCaughtUp) {  // C7, C10
  Kill();
  ASSERT_NO_FATAL_FAILURE(Open(std::uint64_t{128} << 20, LogApplying::kInThread));
  log_->MakeReadyForView();
  HeldApplier applier(*log_);
  EXPECT_TRUE(log_->IsReadyForView());
  const std::string value(std::size_t{1} << 20, 'v');
  for (int i = 0; i < 20; ++i) ASSERT_NO_FATAL_FAILURE(Put("key" + std::to_string(100 + i), value));
  EXPECT_EQ(log_->slowed().count(), 0);
  EXPECT_FALSE(log_->IsReadyForView());
  ASSERT_NO_FATAL_FAILURE(Put("last", value));
  EXPECT_GT(log_->slowed().count(), 0) << "writers could keep the applier behind for ever";
  EXPECT_FALSE(log_->IsReadyForView());

  applier.Release();
  const auto give_up = std::chrono::steady_clock::now() + kLongWait;
  while (!log_->IsReadyForView() && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
  EXPECT_LE(log_->appended() - log_->applied_to(), std::uint64_t{16} << 20);
  const auto slowed = log_->slowed();
  ASSERT_NO_FATAL_FAILURE(Put("later", value));
  EXPECT_EQ(log_->slowed(), slowed);
  const absl::StatusOr<TierLog::View> view = log_->OpenView({});
  EXPECT_TRUE(view.ok()) << view.status();
}

TEST_F(LogViewDatabaseTest, AnEvictionAppliesNoMoreThanItNeeds) {  // C6
  const std::string value(std::size_t{20} << 10, 'v');
  for (int i = 0; i < 20; ++i) Put("key" + std::to_string(i % 10), value);
  EXPECT_TRUE(log_->Holds(1));
  EXPECT_GT(log_->applied_to(), Lsn{});
  EXPECT_LT(log_->applied_to(), log_->appended());
  for (std::uint64_t version = 2; version <= version_; ++version) {
    ASSERT_TRUE(log_->Holds(version));
    // 64 KiB of groups, a sixteenth of the log, and the group that goes beyond.
    EXPECT_LE(log_->applied_to().value, (version + 5) * (value.size() + 2000));
  }
  EXPECT_EQ(log_->applied_to(), log_->appended());
  EXPECT_EQ(StoredKeys().size(), 10u);
  EXPECT_FALSE(log_->Holds(version_ + 1)) << "there is no such version";
}

TEST_F(LogViewDatabaseTest, AReaderResumesWhereAnotherOneStands) {
  Put("a", "1");
  const std::unique_ptr<CommitLogReader> first = *CommitLogReader::Open(temp_ / "log", Lsn{});
  ASSERT_TRUE(*first->Next(log_->appended()));
  Put("b", "2");
  const auto second = CommitLogReader::Resume(temp_ / "log", first->position());
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_TRUE(*(*second)->Next(log_->appended()));
  LogEntries entries = (*second)->group().entries();
  LogEntry entry;
  ASSERT_TRUE(entries.Next(&entry));
  EXPECT_EQ(entry.key, "b");
  EXPECT_FALSE(*(*second)->Next(log_->appended()));
  LogPosition elsewhere = first->position();
  elsewhere.checksum ^= 1;
  EXPECT_EQ((*CommitLogReader::Resume(temp_ / "log", elsewhere))->Next(log_->appended()).status().code(),
            absl::StatusCode::kOutOfRange)
      << "another log";
  elsewhere.file_first = Lsn{kMinLogFileSize * 100};
  EXPECT_EQ(CommitLogReader::Resume(temp_ / "log", elsewhere).status().code(), absl::StatusCode::kOutOfRange);
}

// --- Files that hold the largest value -------------------------------------------------------------------

TEST(LogFileSizeTest, EachValueFitsIntoAFileOfALogOfOneGibibyte) {  // T1
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  const std::string value(kMaxValueSize, 'v');
  const std::string key(kMaxKeySize, 'k');
  const std::array<LogEntry, 2> entries = {
      LogEntry{.kind = LogEntryKind::kMeta, .key = "version_limit", .value = "12345678"},
      LogEntry{.version = 1, .key = key, .value = value, .request = {.client = 7, .number = 1}}};
  const std::uint64_t size = LogGroupSize(entries);
  EXPECT_GT(size, kMaxValueSize);
  for (const std::uint64_t log : {kGiB, kGiB + 1, 4 * kGiB, 1024 * kGiB}) {
    EXPECT_LE(size + sizeof(LogFileHeader), LogFileSizeFor(log)) << log;
    EXPECT_LE(3 * LogFileSizeFor(log), log) << "the least number of files";
    EXPECT_EQ(LogFileSizeFor(log) % kLogFileUnit, 0u);
  }
  EXPECT_EQ(LogFileSizeFor(kMinTierLogBytes), kMinLogFileSize);
  EXPECT_EQ(LogFileSizeFor(kGiB / 2), kGiB / 32);
}

}  // namespace
}  // namespace remora
