// Space in the index for writes that become visible at once, beside pending writes of their group.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "patient_writes.h"
#include "store/delete_range.h"
#include "synced_fixture.h"

namespace remora {
namespace {

class SyncedSpaceTest : public SyncedTest {
 protected:
  /// Fills most buckets, so that most new keys need a slot that another key frees.
  void Fill() {
    for (int i = 0; i < 3000; ++i) {
      const std::string key = "key " + std::to_string(i);
      ASSERT_TRUE(store_->Put(key, "", {.durability = Durability::kLogged}).ok());
      keys_.push_back(key);
    }
  }
  std::string Draw() {
    const std::size_t at = random_() % keys_.size();
    std::swap(keys_[at], keys_.back());
    const std::string key = keys_.back();
    keys_.pop_back();
    return key;
  }

  std::mt19937 random_{1};
  std::vector<std::string> keys_;
};

// The slot of a pending delete is not free yet.
TEST_F(SyncedSpaceTest, NothingCountsOnTheSlotsOfDeletesThatArePending) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> names;
    for (int i = 0; i < 200; ++i) names.push_back(Draw());
    for (int i = 0; i < 200; ++i) names.push_back("round " + std::to_string(round) + " " + std::to_string(i));
    std::vector<Write> writes;
    for (std::size_t i = 0; i < 200; ++i) writes.push_back(DeleteOf(names[i], Durability::kSynced));
    for (std::size_t i = 200; i < 400; ++i) writes.push_back(PutOf(names[i], "value", Durability::kLogged));
    const Outcomes outcomes = Submit(writes);
    for (std::size_t i = 0; i < 400; ++i) ASSERT_EQ(outcomes[i], i < 200 ? "pending" : "OK") << i;
    for (std::size_t i = 200; i < 400; ++i) ASSERT_EQ(Get(names[i]), "value");
    Sync();
    for (std::size_t i = 0; i < 200; ++i) ASSERT_EQ(Get(names[i]), "NOT_FOUND");
    keys_.insert(keys_.end(), names.begin() + 200, names.end());
  }
}

// If one write of a batch is pending, all of its writes are.
TEST_F(SyncedSpaceTest, NorOnThoseOfABatchThatOneOfItsWritesHolds) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> names;
    for (int i = 0; i < 100; ++i) names.push_back(Draw());
    const std::string held = Draw();
    for (std::size_t i = 0; i < 100; ++i)
      names.push_back("round " + std::to_string(round) + " " + std::to_string(i));
    std::vector<Write> writes = {PutOf(held, "before", Durability::kSynced)};
    for (std::size_t i = 0; i < 100; ++i) writes.push_back(DeleteOf(names[i], Durability::kLogged));
    writes.push_back(PutOf(held, "behind", Durability::kLogged));
    for (std::size_t i = 1; i + 1 < writes.size(); ++i) writes[i].continues_batch = true;
    for (std::size_t i = 100; i < 200; ++i) writes.push_back(PutOf(names[i], "value", Durability::kLogged));
    const Outcomes outcomes = Submit(writes);
    for (std::size_t i = 0; i < outcomes.size(); ++i) ASSERT_EQ(outcomes[i], i < 102 ? "pending" : "OK") << i;
    Sync();
    ASSERT_EQ(Get(held), "behind");
    for (std::size_t i = 0; i < 200; ++i) ASSERT_EQ(Get(names[i]), i < 100 ? "NOT_FOUND" : "value");
    keys_.insert(keys_.end(), names.begin() + 100, names.end());
    keys_.push_back(held);
  }
}

// S4. The last write of each batch is pending because an earlier one of its key is, and so the batch is. The
// end of a segment falls into some of the batches.
TEST_F(SyncedSpaceTest, NoRecordOfABatchIsCleanedThatOneOfItsWritesHolds) {
  Open(std::size_t{64} << 20);
  const std::string value(50'000, 'v');
  const auto fill = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const std::string key = "filler " + std::to_string(random_() % 300);
      ASSERT_TRUE(CommitPatiently(*store_, clock_, PutOf(key, value, Durability::kLogged)).ok());
      clock_.Advance(std::chrono::milliseconds(1));
    }
  };
  ASSERT_EQ(Submit({PutOf("held", "before", Durability::kSynced)}), Outcomes{"pending"});
  constexpr std::size_t kBatch = 4;
  std::vector<std::string> values;
  for (std::size_t round = 0; round < 12; ++round) {
    // With the batch, so many records that the next batch begins elsewhere in its segment.
    ASSERT_NO_FATAL_FAILURE(fill(57));
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kBatch; ++i) {
      names.push_back("batch " + std::to_string(values.size()));
      values.push_back(names.back() + value);
    }
    std::vector<Write> writes;
    for (std::size_t i = 0; i < kBatch; ++i) {
      writes.push_back(PutOf(names[i], values[round * kBatch + i], Durability::kLogged));
      writes.back().continues_batch = true;
    }
    writes.push_back(PutOf("held", "behind", Durability::kLogged));
    ASSERT_EQ(Submit(writes), Outcomes(kBatch + 1, "pending"));
  }
  ASSERT_NO_FATAL_FAILURE(fill(3000));
  ASSERT_GT(store_->Read(Metric::kSegmentsCleaned), 100u);
  Sync();
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE(GetPatiently(*store_, clock_, "batch " + std::to_string(i)) == values[i]) << i;
  }
}

// The index has no space for the pending keys: other keys came meanwhile, and all memory is used or retired.
TEST_F(SyncedSpaceTest, ADeletionWaitsForTheSpaceOfPendingWrites) {
  constexpr std::size_t kGroup = 100;
  const auto submit = [&](char kind, int first, std::string_view value, Durability level) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kGroup; ++i) {
      names.push_back(kind + std::to_string(static_cast<std::size_t>(first) + i));
    }
    std::vector<Write> writes;
    for (const std::string& name : names) writes.push_back(PutOf(name, value, level));
    return Submit(writes).back();
  };
  for (int i = 0; i < 55'000; i += kGroup) ASSERT_EQ(submit('p', i, "", Durability::kSynced), "pending");
  const std::string value(70, 'v');
  int puts = 0;
  while (submit('k', puts, value, Durability::kLogged) == "OK") puts += kGroup;
  ASSERT_TRUE(absl::IsAborted(store_->BeginDeleteRange({}).status())) << "other numbers fill this memory";

  std::atomic<bool> is_done = false;
  std::thread resting([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    while (!is_done) {
      clock_.Advance(std::chrono::milliseconds(100));
      store_->RunMaintenance();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  const absl::StatusOr<std::uint64_t> deleted = store_->DeleteRange({.prefix = "p1234"});
  is_done = true;
  resting.join();
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(*deleted, 11u) << "p1234, and p12340 to p12349";
  EXPECT_EQ(Get("p12345"), "NOT_FOUND");
  EXPECT_EQ(Get("p12355"), "");
}

}  // namespace
}  // namespace remora
