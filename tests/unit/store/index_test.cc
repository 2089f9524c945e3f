// The index before it grows: entries, chains, and slots in
// their grace period. index_growth_test.cc tests growth.
#include "store/index/index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "index_walk.h"
#include "store_parts.h"

namespace remora {
namespace {

using Step = KeySearch::Step;

class IndexTest : public testing::Test {
 protected:
  StoreParts parts_{16};
  Index& index_ = parts_.index;
  Model model_;

  void Put(const std::string& key) {
    ASSERT_TRUE(parts_.Put(key, "value")) << key;
    model_[key] = "value";
  }
  void Erase(const std::string& key) {
    ASSERT_TRUE(parts_.Erase(key)) << key;
    model_.erase(key);
  }
  Index::Entry EntryOf(const std::string& key) const { return index_.Find(key, HashKey(key)).value(); }
  Step Search(const std::string& key) const { return remora::Search(parts_, key, kFirstView); }
  void CheckAll(bool settled) const { IndexWalk(parts_, model_, settled).Check(); }
  /// Returns the places of the overflow buckets of a main bucket.
  std::vector<std::uint64_t> ChainOf(std::uint64_t main) const {
    std::vector<std::uint64_t> chain;
    for (std::uint64_t link = ControlLink(parts_.Main(main).control); link != 0;
         link = ControlLink(parts_.BucketAt(link).control)) {
      chain.push_back(link);
    }
    return chain;
  }
  static bool IsOverflow(const Index::Entry& entry, const std::vector<std::uint64_t>& chain) {
    return std::find(chain.begin(), chain.end(), entry.bucket) != chain.end();
  }
};

TEST_F(IndexTest, ANewIndexIsEmptyAndSaysHowFarItHasGrown) {
  EXPECT_EQ(index_.bucket_count(), std::uint64_t{1} << Index::kFirstLevel);
  EXPECT_EQ(index_.view().level, Index::kFirstLevel);
  EXPECT_EQ(index_.view().split, 0u);
  EXPECT_EQ(Search("key"), Step::kMissing);
  ASSERT_NO_FATAL_FAILURE(CheckAll(true));
}

// Readers look into this line first (layout.h).
TEST_F(IndexTest, EntriesAreInTheirLinesAsLongAsThereIsSpace) {
  int in_line = 0;
  int all = 0;
  const auto count = [&](int keys) {
    in_line = 0;
    all = keys;
    for (int i = 0; i < keys; ++i) {
      const std::string key = "key " + std::to_string(i);
      const Index::Entry entry = EntryOf(key);
      in_line += (entry.slot + 1) / kWordsPerLine == PreferredLine(HashKey(key)) ? 1 : 0;
    }
  };
  for (int i = 0; i < 300; ++i) ASSERT_NO_FATAL_FAILURE(Put("key " + std::to_string(i)));
  count(300);  // fewer than five in a bucket
  EXPECT_GE(in_line, all - 3);
  for (int i = 300; i < 20'000; ++i) {
    ASSERT_NO_FATAL_FAILURE(Put("key " + std::to_string(i)));
    index_.Grow(1, parts_.now);
    parts_.Pass(kTestRest / 100);
  }
  count(20'000);
  EXPECT_GT(in_line, all * 8 / 10);
}

TEST_F(IndexTest, InsertReplaceErase) {
  EXPECT_FALSE(index_.Find("key", HashKey("key")).has_value());
  ASSERT_NO_FATAL_FAILURE(Put("key"));
  const Index::Entry entry = EntryOf("key");
  EXPECT_EQ(Search("key"), Step::kFound);

  ASSERT_TRUE(parts_.Put("key", "next"));
  EXPECT_EQ(Search("key"), Step::kFound);
  EXPECT_EQ(parts_.ValueOf("key"), "next");
  EXPECT_EQ(EntryOf("key").bucket, entry.bucket);
  EXPECT_EQ(EntryOf("key").slot, entry.slot) << "I1: an update keeps the slot";
  EXPECT_EQ(index_.entry_count(), 1u);

  ASSERT_TRUE(parts_.Erase("key"));
  EXPECT_FALSE(index_.Find("key", HashKey("key")).has_value());
  EXPECT_EQ(Search("key"), Step::kMissing);
  EXPECT_EQ(index_.entry_count(), 0u);
}

TEST_F(IndexTest, BetweenTheOldRecordsEndAndTheNewSlotAKeyIsNotMissing) {
  ASSERT_NO_FATAL_FAILURE(Put("key"));
  parts_.log.Kill(EntryOf("key").place);
  EXPECT_EQ(Search("key"), Step::kUnsure) << "between I5's two steps";
}

TEST_F(IndexTest, KeysOfOneFingerprintAreToldApart) {
  const std::string key = "a key";
  std::vector<std::string> alike;
  for (int i = 0; alike.size() < 3; ++i) {
    std::string other = "other" + std::to_string(i);
    const bool same_bucket =
        BucketAtDepth(HashKey(other), Index::kFirstLevel) == BucketAtDepth(HashKey(key), Index::kFirstLevel);
    if (same_bucket && Fingerprint(HashKey(other)) == Fingerprint(HashKey(key))) alike.push_back(other);
  }
  ASSERT_NO_FATAL_FAILURE(Put(alike[0]));
  ASSERT_NO_FATAL_FAILURE(Put(alike[1]));
  EXPECT_EQ(Search(key), Step::kMissing);
  EXPECT_EQ(Search(alike[2]), Step::kMissing);
  ASSERT_NO_FATAL_FAILURE(Put(key));
  EXPECT_EQ(Search(key), Step::kFound);
  ASSERT_NO_FATAL_FAILURE(Erase(alike[0]));
  EXPECT_EQ(Search(key), Step::kFound);
  EXPECT_EQ(Search(alike[1]), Step::kFound);
  ASSERT_NO_FATAL_FAILURE(CheckAll(true));
}

TEST_F(IndexTest, ChainsGrowAsFarAsTheyMust) {
  const std::vector<std::string> keys = KeysOf(3, 5 * kSlotsPerBucket);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(index_.overflow_count(), i == 0 ? 0 : (i - 1) / kSlotsPerBucket);
    ASSERT_NO_FATAL_FAILURE(Put(keys[i]));
    for (std::size_t j = 0; j <= i; ++j) ASSERT_EQ(Search(keys[j]), Step::kFound) << j << " of " << i;
  }
  ASSERT_NO_FATAL_FAILURE(CheckAll(true));
  EXPECT_EQ(Search(KeysOf(3, keys.size() + 1).back()), Step::kMissing);
}

TEST_F(IndexTest, ReserveMakesSpaceForAsManyAsAsked) {
  EXPECT_TRUE(index_.Reserve(0, kSlotsPerBucket));
  EXPECT_EQ(index_.overflow_count(), 0u);
  EXPECT_TRUE(index_.Reserve(0, 0));
  EXPECT_TRUE(index_.Reserve(0, kSlotsPerBucket + 1));
  EXPECT_EQ(index_.overflow_count(), 1u);
  EXPECT_TRUE(index_.Reserve(0, kSlotsPerBucket + 1)) << "asking twice takes no more";
  EXPECT_EQ(index_.overflow_count(), 1u);
  EXPECT_TRUE(index_.Reserve(0, 4 * kSlotsPerBucket));
  EXPECT_EQ(index_.overflow_count(), 3u);
}

TEST_F(IndexTest, NoSpaceForAnOverflowBucketIsNoSpace) {
  const std::vector<std::string> keys = KeysOf(3, kSlotsPerBucket + 1);
  for (int i = 0; i < kSlotsPerBucket; ++i) ASSERT_NO_FATAL_FAILURE(Put(keys[static_cast<std::size_t>(i)]));
  std::vector<SegmentNumber> taken;
  while (const auto segment = parts_.segments.Take(Segments::Use::kLogHead, Segments::kReserve)) {
    taken.push_back(*segment);
  }
  EXPECT_FALSE(index_.Reserve(HashKey(keys.back()), 1)) << "the last one is the cleaner's";
  EXPECT_EQ(parts_.segments.free_count(), Segments::kReserve);
  parts_.segments.Seal(taken[0], parts_.segments[taken[0]].begin, parts_.now);
  parts_.segments.Retire(taken[0], parts_.now);
  parts_.Pass(kTestRest);
  EXPECT_TRUE(parts_.Put(keys.back(), "value"));
}

// --- Chains that shrink ---------------------------------------------------------------------------------

TEST_F(IndexTest, AnErasedSlotIsUsedAgain) {
  const std::vector<std::string> keys = KeysOf(3, 41);
  for (std::size_t i = 0; i < 40; ++i) ASSERT_NO_FATAL_FAILURE(Put(keys[i]));
  const Index::Entry freed = EntryOf(keys[7]);
  ASSERT_NO_FATAL_FAILURE(Erase(keys[7]));
  ASSERT_NO_FATAL_FAILURE(Put(keys[40]));
  EXPECT_EQ(EntryOf(keys[40]).bucket, freed.bucket);
  EXPECT_EQ(EntryOf(keys[40]).slot, freed.slot);
}

/// A main bucket with a free slot, and one overflow bucket with a single entry.
class ShrinkingChainTest : public IndexTest {
 protected:
  const std::vector<std::string> keys_ = KeysOf(3, 2 * kSlotsPerBucket + 2);
  const std::string& last_ = keys_[kSlotsPerBucket];
  std::vector<std::uint64_t> chain_;
  Index::Entry last_entry_;

  void SetUp() override {
    for (std::size_t i = 0; i <= kSlotsPerBucket; ++i) ASSERT_NO_FATAL_FAILURE(Put(keys_[i]));
    chain_ = ChainOf(3);
    ASSERT_EQ(chain_.size(), 1u);
    last_entry_ = EntryOf(last_);
    ASSERT_TRUE(IsOverflow(last_entry_, chain_));
    ASSERT_NO_FATAL_FAILURE(Erase(keys_[5]));
  }
  std::uint64_t OldSlot() const { return parts_.BucketAt(last_entry_.bucket).slots[last_entry_.slot]; }
};

TEST_F(ShrinkingChainTest, AnEntryMovesUpAndItsOldSlotRests) {
  parts_.Pass({});
  EXPECT_FALSE(IsOverflow(EntryOf(last_), chain_));
  EXPECT_NE(OldSlot(), 0u);
  parts_.Pass(kTestRest - kInstant);
  EXPECT_NE(OldSlot(), 0u) << "a reader may still be on its way to it";
  ASSERT_NO_FATAL_FAILURE(CheckAll(false));
  parts_.Pass(kInstant);
  EXPECT_EQ(OldSlot(), 0u);
  EXPECT_EQ(Search(last_), Step::kFound);
}

TEST_F(ShrinkingChainTest, AReaderThatPassedTheNewSlotFindsTheOldOne) {
  Reader reader(parts_, last_, kFirstView);
  ASSERT_TRUE(reader.Read());  // the main bucket, where the entry is not yet
  ASSERT_EQ(reader.search().bucket(), (BucketRef{true, chain_[0]}));
  parts_.Pass({});
  parts_.Pass(kTestRest - kInstant);
  EXPECT_EQ(reader.Run(), Step::kFound);
}

TEST_F(ShrinkingChainTest, AnUpdateWhileTheOldSlotRestsLeavesOneThatIsLive) {
  Reader reader(parts_, last_, kFirstView);
  ASSERT_TRUE(reader.Read());
  parts_.Pass({});
  ASSERT_TRUE(parts_.Put(last_, "newer"));
  model_[last_] = "newer";
  EXPECT_EQ(reader.Run(), Step::kUnsure) << "it met the old record, dead";
  EXPECT_EQ(parts_.ValueOf(last_), "newer");
  parts_.Settle();
  ASSERT_NO_FATAL_FAILURE(CheckAll(true));
}

TEST_F(ShrinkingChainTest, AKeyErasedWhileItsOldSlotRestsIsGone) {
  parts_.Pass({});
  ASSERT_NO_FATAL_FAILURE(Erase(last_));
  EXPECT_EQ(Search(last_), Step::kMissing);
  EXPECT_EQ(OldSlot(), 0u);
  parts_.Settle();
  ASSERT_NO_FATAL_FAILURE(CheckAll(true));
}

TEST_F(ShrinkingChainTest, AnErasedKeyIsNotFoundInAnOldSlotOfAnOlderRecord) {
  parts_.Pass({});
  ASSERT_TRUE(parts_.Put(last_, "newer"));
  ASSERT_NO_FATAL_FAILURE(Erase(last_));
  EXPECT_NE(OldSlot(), 0u) << "the test means one that names the record before";
  EXPECT_FALSE(parts_.ValueOf(last_).has_value());
  EXPECT_NE(Search(last_), Step::kFound);
  ASSERT_NO_FATAL_FAILURE(Put(last_));
  parts_.Settle();
  ASSERT_NO_FATAL_FAILURE(CheckAll(true));
}

TEST_F(ShrinkingChainTest, AnOldSlotThatWasErasedAndUsedAgainIsNotCleared) {
  parts_.Pass({});
  ASSERT_NO_FATAL_FAILURE(Erase(last_));
  const std::string& newer = keys_[kSlotsPerBucket + 2];
  ASSERT_NO_FATAL_FAILURE(Put(keys_[kSlotsPerBucket + 1]));
  ASSERT_NO_FATAL_FAILURE(Put(newer));
  ASSERT_EQ(EntryOf(newer).bucket, last_entry_.bucket);
  ASSERT_EQ(EntryOf(newer).slot, last_entry_.slot);
  parts_.Pass(kTestRest);
  EXPECT_EQ(Search(newer), Step::kFound);
  ASSERT_NO_FATAL_FAILURE(CheckAll(true));
}

TEST_F(ShrinkingChainTest, AnEmptyOverflowBucketIsUnlinkedAndUsedAgainWhenItHasRested) {
  parts_.Pass({});
  parts_.Pass(kTestRest);
  EXPECT_TRUE(ChainOf(3).empty());
  EXPECT_EQ(index_.overflow_count(), 1u) << "it rests";
  ASSERT_TRUE(index_.Reserve(4, kSlotsPerBucket + 1));  // hash 4 belongs into bucket 4
  EXPECT_NE(ChainOf(4), chain_) << "a reader may still be on its way to it";
  parts_.Pass(kTestRest - kInstant);
  ASSERT_TRUE(index_.Reserve(5, kSlotsPerBucket + 1));
  EXPECT_NE(ChainOf(5), chain_);
  parts_.Pass(kInstant);
  ASSERT_TRUE(index_.Reserve(6, kSlotsPerBucket + 1));
  EXPECT_EQ(ChainOf(6), chain_);
  EXPECT_EQ(index_.overflow_count(), 3u);
}

// A link changes only between none and one bucket (I3). So no other
// bucket may be linked there before the grace period is over.
TEST_F(ShrinkingChainTest, AnUnlinkedBucketComesBackWhenItIsNeededBeforeItRested) {
  parts_.Pass({});
  parts_.Pass(kTestRest);
  ASSERT_TRUE(ChainOf(3).empty());
  parts_.Pass(kTestRest - kInstant);
  for (std::size_t i = kSlotsPerBucket + 1; i <= kSlotsPerBucket + 2; ++i)
    ASSERT_NO_FATAL_FAILURE(Put(keys_[i]));
  EXPECT_EQ(ChainOf(3), chain_);
  parts_.Pass(kInstant);
  ASSERT_TRUE(index_.Reserve(6, kSlotsPerBucket + 1));
  EXPECT_NE(ChainOf(6), chain_) << "in use twice";
  EXPECT_EQ(Search(keys_[kSlotsPerBucket + 2]), Step::kFound);
}

TEST_F(ShrinkingChainTest, OneThatCameBackAndWasUnlinkedAgainRestsAnew) {
  parts_.Pass({});
  parts_.Pass(kTestRest);  // unlinked
  parts_.Pass(kTestRest / 2);
  const std::string& back = keys_[kSlotsPerBucket + 1];
  ASSERT_NO_FATAL_FAILURE(Put(back));
  ASSERT_EQ(ChainOf(3), chain_);
  ASSERT_NO_FATAL_FAILURE(Erase(back));
  parts_.Pass({});
  ASSERT_TRUE(ChainOf(3).empty()) << "unlinked again";
  parts_.Pass(kTestRest - kInstant);  // the first grace period is over, the second one is not
  ASSERT_TRUE(index_.Reserve(6, kSlotsPerBucket + 1));
  EXPECT_NE(ChainOf(6), chain_);
  parts_.Pass(kInstant);
  ASSERT_TRUE(index_.Reserve(7, kSlotsPerBucket + 1));
  EXPECT_EQ(ChainOf(7), chain_);
}

TEST_F(IndexTest, ALongChainThatEmptiesIsUnlinkedToItsStart) {
  const std::vector<std::string> keys = KeysOf(3, 5 * kSlotsPerBucket);
  for (const std::string& key : keys) ASSERT_NO_FATAL_FAILURE(Put(key));
  for (std::size_t i = 0; i < keys.size() - 3; ++i) ASSERT_NO_FATAL_FAILURE(Erase(keys[i]));
  parts_.Settle();
  EXPECT_TRUE(ChainOf(3).empty());
  EXPECT_EQ(index_.overflow_count(), 0u);
  ASSERT_NO_FATAL_FAILURE(CheckAll(true));
}

TEST_F(IndexTest, NextTickIsWhenTheFirstHasRested) {
  EXPECT_FALSE(index_.next_tick().has_value());
  const std::vector<std::string> keys = KeysOf(3, kSlotsPerBucket + 1);
  for (const std::string& key : keys) ASSERT_NO_FATAL_FAILURE(Put(key));
  ASSERT_NO_FATAL_FAILURE(Erase(keys[0]));
  parts_.Pass({});
  EXPECT_EQ(index_.next_tick(), parts_.now + kTestRest);
  parts_.Settle();
  EXPECT_FALSE(index_.next_tick().has_value());
}

}  // namespace
}  // namespace remora
