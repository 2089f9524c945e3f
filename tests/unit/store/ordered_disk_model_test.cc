// Random operations on a store with a disk and an ordered index, against a map, with scans in flight. Each
// scan shows the moment at which it began, or says that it cannot. Records leave memory all the time, the
// applier is late, some writes are pending, and the store restarts.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "patient_writes.h"
#include "scan_fixture.h"
#include "store/delete_range.h"
#include "store/format/types/expiry.h"
#include "store/format/types/scan_range.h"
#include "store/scan.h"
#include "store/server_store.h"
#include "test_files.h"
#include "tests/support/manual_clock.h"
#include "twin_keys.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

/// Odd seeds: with a commit log.
class OrderedDiskModelTest : public testing::TestWithParam<int> {
 protected:
  struct Record {
    std::string value;
    std::uint64_t expiry_ms = 0;
  };
  using Change = std::optional<Record>;  // nothing: the key is deleted
  struct Pending {
    std::uint64_t ticket = 0;
    std::string key;
    Change change;
  };
  struct Expected {
    std::string key;
    Record record;
  };
  struct InFlight {
    std::unique_ptr<StoreScan> scan;
    std::vector<Expected> rest;
    std::uint64_t left = 0;  // of the limit
    bool keys_only = false;
    std::size_t next = 0;
  };

  void Open(Loading loading) {
    StoreOptions options = LoggedIn(temp_ / "store", kMinMemorySize);
    options.ordered_index = true;
    options.commit_log_bytes = GetParam() % 2 == 1 ? kSomeCommitLog : 0;
    options.grace = milliseconds(kMinGraceMs);
    options.syncing = Syncing::kInSteps;
    options.loading = loading;
    options.clock = &clock_;
    auto store = ServerStore::Open(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  std::uint64_t Draw(std::uint64_t below) { return random_() % below; }
  std::string DrawKey() {
    const std::uint64_t i = Draw(302);
    return i == 300 ? kFirstTwin : i == 301 ? kSecondTwin : "k" + std::to_string(1000 + i);
  }
  bool IsOver(const Record& record) const { return HasExpired(record.expiry_ms, clock_.UnixMillis()); }

  // --- Writes

  /// Returns the record that the next write of the key finds.
  Change LastOf(const std::string& key) const {
    const auto last = std::find_if(pending_.rbegin(), pending_.rend(),
                                   [&](const Pending& pending) { return pending.key == key; });
    Change found;
    if (last != pending_.rend()) {
      found = last->change;
    } else if (const auto at = visible_.find(key); at != visible_.end()) {
      found = at->second;
    }
    return found && IsOver(*found) ? std::nullopt : found;
  }
  void Publish(const std::string& key, const Change& change) {
    change ? void(visible_[key] = *change) : void(visible_.erase(key));
  }
  void TakeOutcomes() {
    std::vector<SyncedWrite> outcomes;
    store_->TakeSynced(&outcomes);
    for (const SyncedWrite& outcome : outcomes) {
      ASSERT_TRUE(!pending_.empty() && pending_.front().ticket == outcome.ticket) << "in their order";
      if (outcome.status.ok()) Publish(pending_.front().key, pending_.front().change);
      pending_.pop_front();
    }
  }
  void Sync() {
    store_->Sync();
    ASSERT_NO_FATAL_FAILURE(TakeOutcomes());
    ASSERT_TRUE(pending_.empty());
  }
  /// Returns the change that the write would make now.
  Change ChangeOf(const Write& write) const {
    if (write.kind == Write::Kind::kDelete) return std::nullopt;
    const Change last = LastOf(std::string(write.key));
    const bool appends = write.kind == Write::Kind::kAppend;
    if (appends && last) return Record{last->value + std::string(write.value), last->expiry_ms};
    return Record{std::string(write.value),
                  write.ttl ? ExpiryOf(clock_.UnixMillis(), *write.ttl) : std::uint64_t{0}};
  }
  void Submit(Write write) {
    Change change;
    for (int tries = 0;; ++tries) {
      change = ChangeOf(write);
      store_->Submit(std::span(&write, 1));
      if (write.ticket != 0) pending_.push_back({write.ticket, std::string(write.key), change});
      ASSERT_NO_FATAL_FAILURE(TakeOutcomes());
      if (write.ticket != 0) return;
      if (!absl::IsAborted(write.status)) break;
      if (write.needs_read) {
        ASSERT_NO_FATAL_FAILURE(Read(write));
        continue;
      }
      clock_.Advance(kPatience);
      if (tries > 20) store_->Sync();
    }
    const bool is_missing = absl::IsNotFound(write.status) && write.kind == Write::Kind::kDelete;
    ASSERT_TRUE(write.status.ok() || is_missing) << write.status;
    Publish(std::string(write.key), change);
  }
  /// Reads the record that a write depends on, without the lock. Other work comes between.
  void Read(Write& write) {
    std::vector<std::unique_ptr<ColdRead>> reads;
    store_->BeginReads(std::span(&write, 1), &reads);
    write.needs_read = false;
    if (reads.front() == nullptr) return;
    store_->ReadCold(reads.front().get());
    reads_.push_back(std::move(reads.front()));
    write.read = reads_.back().get();
    if (Draw(4) == 0) Evict(5);
  }
  void WriteKey() {
    const std::string key = DrawKey();
    const std::string value(Draw(200), static_cast<char>('a' + Draw(26)));
    Write write;
    write.key = key;
    write.value = value;
    write.may_read = Draw(2) == 0;
    if (Draw(5) == 0) write.durability = Durability::kSynced;
    const std::uint64_t kind = Draw(10);
    if (kind < 3) {
      write.kind = Write::Kind::kDelete;
      write.value = {};
    } else if (kind == 3) {
      write.kind = Write::Kind::kAppend;
    } else if (kind == 4) {
      write.ttl = milliseconds(1 + Draw(3000));
    }
    Submit(write);
    reads_.clear();
  }
  void ApplyBatch() {
    ASSERT_NO_FATAL_FAILURE(Sync());
    WriteBatch batch;
    std::map<std::string, std::string> puts;
    for (std::uint64_t n = 1 + Draw(4); n > 0; --n) puts[DrawKey()] = std::to_string(random_());
    for (const auto& [key, value] : puts) batch.Put(key, value);
    absl::Status status = store_->Apply(batch);
    for (; absl::IsAborted(status); status = store_->Apply(batch)) clock_.Advance(kPatience);
    ASSERT_TRUE(status.ok()) << status;
    for (const auto& [key, value] : puts) visible_[key] = {value, 0};
  }
  void DeleteRange() {
    ASSERT_NO_FATAL_FAILURE(Sync());
    const std::string begin = DrawKey();
    const std::string end = begin + "~";
    auto deletion = store_->BeginDeleteRange({.begin = begin, .end = end});
    ASSERT_TRUE(deletion.ok()) << deletion.status();
    for (;;) {
      const absl::StatusOr<bool> more = (*deletion)->Step();
      if (absl::IsAborted(more.status())) {
        clock_.Advance(kPatience);
        continue;
      }
      ASSERT_TRUE(more.ok()) << more.status();
      if (!*more) break;
    }
    visible_.erase(visible_.lower_bound(begin), visible_.lower_bound(end));
  }
  /// Writes other keys, so that records leave memory.
  void Evict(int count) {
    const std::string value(16'000, 'o');
    for (; count > 0; --count) {
      Write write;
      const std::string key = "a" + std::to_string(Draw(1500));
      write.key = key;
      write.value = value;
      const absl::Status status = CommitPatiently(*store_, clock_, write);
      ASSERT_TRUE(status.ok()) << status;
    }
    TakeOutcomes();
  }
  void Restart() {
    scans_.clear();
    evictions_ += store_->Read(Metric::kEvictions);
    store_.reset();
    // A process that ends loses nothing: the log has the pending writes.
    for (const Pending& pending : pending_) Publish(pending.key, pending.change);
    pending_.clear();
    ASSERT_NO_FATAL_FAILURE(Open(Draw(2) == 0 ? Loading::kInOpen : Loading::kInSteps));
  }

  // --- Reads

  ScanOptions DrawRange() {
    begin_ = Draw(2) == 0 ? DrawKey() : "k";
    end_ = Draw(3) == 0 ? DrawKey() : "u";
    ScanOptions options{.begin = begin_, .end = end_};
    options.any_order = Draw(4) == 0;
    options.reverse = !options.any_order && Draw(2) == 0;
    options.keys_only = Draw(4) == 0;
    options.limit = Draw(3) == 0 ? 1 + Draw(150) : 0;
    return options;
  }
  std::vector<Expected> InRange(const ScanOptions& options) const {
    ScanRange range;
    EXPECT_EQ(ResolveScan(options, &range), nullptr);
    std::vector<Expected> expected;
    for (const auto& [key, record] : visible_) {
      if (range.Contains(key)) expected.push_back({key, record});
    }
    if (options.reverse) std::reverse(expected.begin(), expected.end());
    return expected;
  }
  void BeginScan() {
    const ScanOptions options = DrawRange();
    auto scan = store_->Scan(options);
    ASSERT_NO_FATAL_FAILURE(TakeOutcomes());  // while it loads, a scan syncs what is pending
    ASSERT_TRUE(scan.ok()) << scan.status();
    const std::uint64_t left = options.limit != 0 ? options.limit : ~std::uint64_t{0};
    scans_.push_back({*std::move(scan), InRange(options), left, options.keys_only});
    begun_ += !store_->loading();
  }
  /// Makes some steps of a scan. Returns false if it is over.
  bool Continue(InFlight& at) {
    for (std::uint64_t steps = Draw(40); steps > 0; --steps) {
      const bool is_entry = at.scan->Next();
      if (absl::IsAborted(at.scan->status())) {
        ++overtaken_;
        return false;
      }
      EXPECT_TRUE(at.scan->status().ok()) << at.scan->status();
      while (at.next < at.rest.size() && IsOver(at.rest[at.next].record)) ++at.next;
      const bool is_over = at.next == at.rest.size() || at.left == 0;
      EXPECT_EQ(is_entry, !is_over) << (is_entry ? std::string(at.scan->key()) : at.rest[at.next].key);
      if (!is_entry || is_over) return false;
      const Expected& expected = at.rest[at.next++];
      --at.left;
      EXPECT_EQ(at.scan->key(), expected.key);
      EXPECT_EQ(at.scan->value(), at.keys_only ? "" : expected.record.value) << expected.key;
      EXPECT_EQ(at.scan->expiry_ms(), expected.record.expiry_ms) << expected.key;
      if (HasFailure()) return false;
    }
    return true;
  }
  void Count() {
    ScanOptions options = DrawRange();
    options.limit = 0;
    const auto scan = store_->Scan(options);
    ASSERT_NO_FATAL_FAILURE(TakeOutcomes());
    ASSERT_TRUE(scan.ok()) << scan.status();
    const std::optional<std::uint64_t> count = (*scan)->CountAtOnce();
    if (!count) return;
    std::vector<Expected> expected = InRange(options);
    std::erase_if(expected, [&](const Expected& entry) { return IsOver(entry.record); });
    ASSERT_EQ(*count, expected.size());
    ++counts_;
  }
  void Round() {
    const std::uint64_t what = Draw(1000);
    if (what < 500) return WriteKey();
    if (what < 650) return Evict(static_cast<int>(1 + Draw(20)));
    if (what < 700) return Sync();
    if (what < 720) return ApplyBatch();
    if (what < 725) return DeleteRange();
    if (what < 727) return Restart();
    if (what < 760) {
      clock_.Advance(milliseconds(Draw(500)));
      store_->RunMaintenance();
      return TakeOutcomes();
    }
    if (what < 800) return Count();
    if (what < 840) {
      const std::string key = DrawKey();
      // A read of a cold key would wait for the pending write.
      if (std::ranges::find(pending_, key, &Pending::key) != pending_.end()) return Sync();
      GetPatiently(*store_, clock_, key.substr(0, Draw(8) == 0 ? 2 : 100));
      return;
    }
    if (what < 900) {
      store_->Load();
      return TakeOutcomes();
    }
    if (scans_.size() < 6) BeginScan();
  }

  TempDir temp_;
  ManualClock clock_;
  std::mt19937_64 random_{static_cast<std::uint64_t>(GetParam())};
  std::unique_ptr<ServerStore> store_;
  std::map<std::string, Record> visible_;
  std::deque<Pending> pending_;
  std::vector<std::unique_ptr<ColdRead>> reads_;
  std::vector<InFlight> scans_;
  std::string begin_;
  std::string end_;
  int begun_ = 0;      // scans over the index
  int overtaken_ = 0;  // scans that ended with Aborted
  int counts_ = 0;
  std::uint64_t evictions_ = 0;  // of earlier processes
};

TEST_P(OrderedDiskModelTest, EachScanShowsTheMomentAtWhichItBegan) {
  ASSERT_NO_FATAL_FAILURE(Open(Loading::kInOpen));
  ASSERT_NO_FATAL_FAILURE(Evict(1500));
  for (int round = 0; round < 4000; ++round) {
    ASSERT_NO_FATAL_FAILURE(Round()) << round;
    std::erase_if(scans_, [&](InFlight& scan) { return Draw(3) == 0 && !Continue(scan); });
    ASSERT_FALSE(HasFailure()) << round;
  }
  ASSERT_NO_FATAL_FAILURE(Sync());
  scans_.clear();
  EXPECT_GT(begun_, 100);
  EXPECT_LT(overtaken_, begun_ / 4);
  EXPECT_GT(counts_, 1);  // 7 to 59, as expired records and RocksDB's threads have it
  EXPECT_GT(evictions_ + store_->Read(Metric::kEvictions), 1000u);
  while (store_->Load()) clock_.Advance(kPatience);
  for (int i = 0; i < 300; ++i) {
    const std::string key = "k" + std::to_string(1000 + i);
    const Change last = LastOf(key);
    EXPECT_EQ(GetPatiently(*store_, clock_, key), last ? last->value : "NOT_FOUND") << key;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, OrderedDiskModelTest, testing::Range(0, 4));
INSTANTIATE_TEST_SUITE_P(MoreSeeds, OrderedDiskModelTest, testing::Range(4, 24));

}  // namespace
}  // namespace remora
