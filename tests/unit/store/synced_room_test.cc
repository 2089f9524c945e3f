// Space in the index for writes that become visible at once, beside pending writes of their group.
#include <chrono>
#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "patient_writes.h"
#include "synced_fixture.h"

namespace remora {
namespace {

class SyncedRoomTest : public SyncedTest {
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
TEST_F(SyncedRoomTest, NothingCountsOnTheSlotsOfDeletesThatArePending) {
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
TEST_F(SyncedRoomTest, NorOnThoseOfABatchThatOneOfItsWritesHolds) {
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
    for (std::size_t i = 1; i + 1 < writes.size(); ++i) writes[i].with_next = true;
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
TEST_F(SyncedRoomTest, NoRecordOfABatchIsCleanedThatOneOfItsWritesHolds) {
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
      writes.back().with_next = true;
    }
    writes.push_back(PutOf("held", "behind", Durability::kLogged));
    ASSERT_EQ(Submit(writes), Outcomes(kBatch + 1, "pending"));
  }
  ASSERT_NO_FATAL_FAILURE(fill(3000));
  ASSERT_GT(store_->Read(Counter::kSegmentsCleaned), 100u);
  Sync();
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE(GetPatiently(*store_, clock_, "batch " + std::to_string(i)) == values[i]) << i;
  }
}

}  // namespace
}  // namespace remora
