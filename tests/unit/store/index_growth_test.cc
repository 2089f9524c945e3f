// The index while it grows under its readers.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "index_walk.h"
#include "store/index/index.h"
#include "store_parts.h"
#include "tests/support/sanitizers.h"

namespace remora {
namespace {

using Step = KeySearch::Step;

constexpr std::uint64_t kFirstBuckets = std::uint64_t{1} << Index::kFirstLevel;
constexpr std::uint64_t kFirstPeak = Index::kPeakLoad * kFirstBuckets;

std::string KeyOf(std::uint64_t i) { return "key" + std::to_string(i); }

class IndexGrowthTest : public testing::Test {
 protected:
  StoreParts parts_{32};
  Index& index_ = parts_.index;
  Model model_;

  void Put(const std::string& key) {
    ASSERT_TRUE(parts_.Put(key, "value")) << key;
    model_[key] = "value";
  }
  /// Puts keys number model_.size() and up, until there are `count` keys.
  void FillTo(std::uint64_t count) {
    while (model_.size() < count) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(model_.size())));
  }
  /// Returns keys of bucket 0 that its next split moves.
  static std::vector<std::string> UpperKeys(std::size_t count) {
    std::vector<std::string> keys;
    for (int i = 0; keys.size() < count; ++i) {
      std::string key = "upper" + std::to_string(i);
      if (BucketAtDepth(HashKey(key), Index::kFirstLevel + 1) == kFirstBuckets)
        keys.push_back(std::move(key));
    }
    return keys;
  }
  /// Doubles the index in one step.
  void GrowALevel() {
    const std::uint64_t splits = std::uint64_t{1} << index_.view().level;
    ASSERT_TRUE(index_.Grow(splits, parts_.now));
    ASSERT_EQ(index_.view().split, 0u);
    ASSERT_EQ(index_.bucket_count(), 2 * splits);
  }
  void CheckAll(bool settled) const { IndexWalk(parts_, model_, settled).Check(); }
  void CheckFound(std::uint64_t i, const IndexView& view) const {
    Reader reader(parts_, KeyOf(i), view);
    ASSERT_EQ(reader.Run(), Step::kFound) << i << " of " << model_.size();
    ASSERT_EQ(reader.value(), "value");
  }
};

TEST_F(IndexGrowthTest, ItDoesNotGrowBeforeItIsTime) {
  ASSERT_NO_FATAL_FAILURE(FillTo(kFirstPeak));
  EXPECT_FALSE(index_.Grow(100, parts_.now));
  EXPECT_EQ(index_.bucket_count(), kFirstBuckets);
  ASSERT_NO_FATAL_FAILURE(FillTo(kFirstPeak + 1));
  EXPECT_TRUE(index_.Grow(10, parts_.now));
  EXPECT_EQ(index_.bucket_count(), kFirstBuckets + 10) << "no more at a time than asked for";
}

TEST_F(IndexGrowthTest, ALevelIsSplitToItsEndAndNotBeyond) {
  ASSERT_NO_FATAL_FAILURE(FillTo(kFirstPeak + 1));
  EXPECT_TRUE(index_.Grow(1000, parts_.now));
  EXPECT_EQ(index_.bucket_count(), 2 * kFirstBuckets);
  EXPECT_EQ(index_.view().level, Index::kFirstLevel + 1);
  EXPECT_FALSE(index_.Grow(1000, parts_.now));
}

TEST_F(IndexGrowthTest, AllKeysStayFoundUpToManyBuckets) {
  constexpr std::uint64_t kKeys = 120'000;
  std::mt19937_64 random(1);
  while (model_.size() < kKeys) {
    ASSERT_NO_FATAL_FAILURE(FillTo(model_.size() + 1 + random() % 50));
    index_.Grow(random() % 100, parts_.now);
    for (int n = 0; n < 20; ++n) {
      const std::uint64_t i = random() % model_.size();
      ASSERT_EQ(parts_.ValueOf(KeyOf(i)), "value");
      ASSERT_NO_FATAL_FAILURE(CheckFound(i, index_.view()));
      ASSERT_NO_FATAL_FAILURE(CheckFound(i, kFirstView));
    }
    if (random() % 4 == 0) parts_.Pass(std::chrono::milliseconds(random() % 300));
  }
  EXPECT_GT(index_.bucket_count(), kKeys / Index::kPeakLoad);
  for (std::uint64_t i = 0; i < model_.size(); ++i) ASSERT_NO_FATAL_FAILURE(CheckFound(i, kFirstView));
  ASSERT_NO_FATAL_FAILURE(CheckAll(false));
  parts_.Settle();
  ASSERT_NO_FATAL_FAILURE(CheckAll(true));
}

TEST_F(IndexGrowthTest, AKeyThatIsNotThereIsMissingAfterEverythingRested) {
  ASSERT_NO_FATAL_FAILURE(FillTo(20'000));
  while (index_.Grow(1000, parts_.now)) {
  }
  parts_.Settle();
  for (std::uint64_t i = 20'000; i < 40'000; ++i) {
    ASSERT_EQ(Search(parts_, KeyOf(i), kFirstView), Step::kMissing) << i;
  }
}

// Some entries are outside of their preferred line, because it
// was full. Splits make space, and the entries move to that line.
TEST_F(IndexGrowthTest, AnEntryLeftBehindMovesToItsLine) {
  // Counts keys whose slot is outside of their preferred line, where readers look first in vain.
  const auto away = [&] {
    std::uint64_t count = 0;
    for (const auto& [key, value] : model_) {
      const std::uint64_t key_hash = HashKey(key);
      const Bucket& bucket = parts_.Main(index_.MainBucketOf(key_hash));
      count += FindSlotsInLine(bucket, key_hash).empty() ? 1u : 0u;
    }
    return count;
  };
  while (model_.size() < 40 * kFirstPeak) {
    ASSERT_NO_FATAL_FAILURE(FillTo(model_.size() + 1));
    index_.Grow(1, parts_.now);
  }
  const std::uint64_t before = away();
  EXPECT_GT(before, model_.size() / 50);
  ASSERT_NO_FATAL_FAILURE(CheckAll(false));
  parts_.Pass(kTestRest);
  ASSERT_NO_FATAL_FAILURE(CheckAll(false));
  for (std::uint64_t i = 0; i < model_.size(); ++i) ASSERT_NO_FATAL_FAILURE(CheckFound(i, kFirstView));
  parts_.Settle();
  ASSERT_NO_FATAL_FAILURE(CheckAll(true));
  EXPECT_LT(away(), before / 10);
}

// A key changes while it is in two slots, because its entry moves to the preferred line.
TEST_F(IndexGrowthTest, AnEntryMayChangeWhileItMoves) {
  ASSERT_NO_FATAL_FAILURE(FillTo(4 * kFirstPeak));
  std::mt19937_64 random(1);
  for (int round = 0; round < Rounds(60); ++round) {
    ASSERT_NO_FATAL_FAILURE(FillTo(model_.size() + 200));
    index_.Grow(random() % 200, parts_.now);
    parts_.Pass(kTestRest / (1 + random() % 4));
    for (int n = 0; n < 200; ++n) {
      const std::string key = KeyOf(random() % model_.size());
      const auto found = model_.find(key);
      if (found == model_.end()) continue;
      ASSERT_TRUE(parts_.Erase(key)) << key;
      ASSERT_NE(Search(parts_, key, index_.view()), Step::kFound) << key;
      // This put may take the slot that has become free.
      ASSERT_TRUE(parts_.Put(key, "value")) << key;
    }
    ASSERT_NO_FATAL_FAILURE(CheckAll(false));
  }
  parts_.Settle();
  ASSERT_NO_FATAL_FAILURE(CheckAll(true));
}

// An entry has moved, and its bucket splits before the grace period of the old slot is over. The slot is
// cleared once, so a key that takes it afterwards stays.
TEST_F(IndexGrowthTest, AnEntryInAReusedSlotStays) {
  // Keys of bucket 0 in its line 3 that a split moves; one
  // that stays until the next split; and one of line 0.
  constexpr std::uint32_t kLevel = Index::kFirstLevel;
  const auto key_of = [](const char* name, std::uint64_t low_bits, std::size_t line, int skip) {
    for (int i = 0;; ++i) {
      std::string key = name + std::to_string(i);
      const std::uint64_t key_hash = HashKey(key);
      if (BucketAtDepth(key_hash, kLevel + 2) == low_bits && PreferredLine(key_hash) == line && skip-- == 0)
        return key;
    }
  };
  for (int i = 0; i < static_cast<int>(kWordsPerLine); ++i) {
    ASSERT_NO_FATAL_FAILURE(Put(key_of("moves", kFirstBuckets, 3, i)));
  }
  const std::string stays = key_of("stays", 2 * kFirstBuckets, 3, 0);
  ASSERT_NO_FATAL_FAILURE(Put(stays));
  ASSERT_NE(parts_.Main(0).slots[0], 0u) << "its line was full, so it is in the first one";
  for (std::uint64_t i = 0; model_.size() < 4 * kFirstPeak; ++i) {
    if (BucketAtDepth(HashKey(KeyOf(i)), kLevel) == 0) continue;
    ASSERT_NO_FATAL_FAILURE(Put(KeyOf(i)));
  }
  ASSERT_NO_FATAL_FAILURE(GrowALevel());
  parts_.Pass(kTestRest);
  ASSERT_EQ(FindSlotsInLine(parts_.Main(0), HashKey(stays)).size(), 1u) << "it came home";
  parts_.now += kTestRest / 2;
  ASSERT_NO_FATAL_FAILURE(GrowALevel());
  parts_.Pass(kTestRest / 2);
  ASSERT_EQ(parts_.Main(0).slots[0], 0u) << "what it left has rested";
  const std::string comes = key_of("comes", 0, 0, 0);
  ASSERT_NO_FATAL_FAILURE(Put(comes));
  ASSERT_NE(parts_.Main(0).slots[0], 0u);
  parts_.Settle();
  ASSERT_EQ(Search(parts_, comes, index_.view()), Step::kFound);
  ASSERT_EQ(Search(parts_, stays, index_.view()), Step::kFound);
  ASSERT_NO_FATAL_FAILURE(CheckAll(true));
}

// A presized index serves before any word of it is written, and grows as any other.
TEST_F(IndexGrowthTest, APresizedIndexIsZeroAndServes) {
  constexpr std::uint64_t kKeys = 20'000;
  index_.Presize(kKeys);
  parts_.shape = parts_.Shape();
  const IndexView first_view = index_.view();
  ASSERT_EQ(first_view.level, Index::LevelFor(kKeys));
  for (std::uint64_t number = 0; number < index_.bucket_count(); ++number) {
    ASSERT_EQ(parts_.Main(number).control, 0u);
  }
  for (std::uint64_t i = 0; i < 100; ++i) {
    ASSERT_EQ(Search(parts_, KeyOf(i), first_view), Step::kMissing);
    ASSERT_EQ(Search(parts_, KeyOf(i), kFirstView), Step::kMissing) << "what a client knew of another server";
  }
  ASSERT_NO_FATAL_FAILURE(FillTo(kKeys));
  ASSERT_NO_FATAL_FAILURE(CheckAll(false));
  ASSERT_NO_FATAL_FAILURE(FillTo((Index::kPeakLoad << first_view.level) + 1));
  ASSERT_TRUE(index_.Grow(100, parts_.now));
  ASSERT_NO_FATAL_FAILURE(CheckAll(false));
  for (std::uint64_t i = 0; i < model_.size(); ++i) ASSERT_NO_FATAL_FAILURE(CheckFound(i, first_view));
  parts_.Settle();
  ASSERT_NO_FATAL_FAILURE(CheckAll(true));
  EXPECT_EQ(Search(parts_, KeyOf(model_.size()), first_view), Step::kMissing);
}

TEST_F(IndexGrowthTest, AnOldViewLearnsFromOneKeyAboutMany) {
  ASSERT_NO_FATAL_FAILURE(FillTo(20'000));
  while (index_.Grow(1000, parts_.now)) {
  }
  Reader reader(parts_, KeyOf(0), kFirstView);
  ASSERT_EQ(reader.Run(), Step::kFound);
  EXPECT_EQ(reader.view().level + 1, index_.view().level) << "all but where the last level is split";
}

// --- Grace periods --------------------------------------------------------------------------------------

/// A reader of each key, which has read its main bucket before all buckets are split.
class PassedReadersTest : public IndexGrowthTest {
 protected:
  std::list<Reader> readers_;
  std::vector<std::uint64_t> controls_;  // control words of the main buckets before the splits

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(FillTo(kFirstPeak + 1));
    for (std::uint64_t number = 0; number < kFirstBuckets; ++number) {
      controls_.push_back(parts_.Main(number).control);
    }
    for (const auto& [key, value] : model_) {
      readers_.emplace_back(parts_, key, kFirstView);
      ASSERT_TRUE(readers_.back().Read());
    }
    ASSERT_NO_FATAL_FAILURE(GrowALevel());
    ASSERT_GT(index_.overflow_count(), 0u) << "the test means some chains";
  }
  /// Returns how many keys a reader misses if it saw the
  /// control word before the split, and sees the slots now.
  int MissedByTornReads() const {
    int missed = 0;
    for (const auto& [key, value] : model_) {
      Reader reader(parts_, key, kFirstView);
      reader.ReadTorn(controls_[reader.search().bucket().number]);
      missed += reader.Run() == Step::kMissing;
    }
    return missed;
  }
};

TEST_F(PassedReadersTest, FindTheirKeyRightBeforeTheOldSlotsAreCleared) {
  parts_.Pass(kTestRest - kInstant);
  for (Reader& reader : readers_) ASSERT_EQ(reader.Run(), Step::kFound) << reader.key();
}

TEST_F(PassedReadersTest, ThatReadTornBucketsFindTheirKeyRightBeforeTheOldSlotsAreCleared) {
  parts_.Pass(kTestRest - kInstant);
  EXPECT_EQ(MissedByTornReads(), 0);
  parts_.Pass(kInstant);
  EXPECT_GT(MissedByTornReads(), 0) << "nothing was cleared, so the test shows nothing";
}

TEST_F(PassedReadersTest, DoNotMissAKeyThatIsWrittenMeanwhile) {
  for (const auto& [key, value] : model_) ASSERT_TRUE(parts_.Put(key, "newer"));
  parts_.Pass(kTestRest - kInstant);
  for (Reader& reader : readers_) {
    ASSERT_NE(reader.Run(), Step::kMissing) << reader.key();
    ASSERT_TRUE(reader.search().step() == Step::kUnsure || reader.value() == "newer") << reader.key();
  }
}

TEST_F(PassedReadersTest, DoNotTakeAnErasedKeyForLive) {
  for (const auto& [key, value] : model_) ASSERT_TRUE(parts_.Erase(key));
  parts_.Pass(kTestRest - kInstant);
  for (Reader& reader : readers_) ASSERT_NE(reader.Run(), Step::kFound) << reader.key();
}

TEST_F(PassedReadersTest, LeaveNothingBehindWhenTheyAreDone) {
  parts_.Settle();
  ASSERT_NO_FATAL_FAILURE(CheckAll(true));
}

// Two splits within one grace period: the second one does
// not take the slots that the first one left for entries.
TEST_F(IndexGrowthTest, ABucketSplitTwiceBeforeItRestedLosesNothing) {
  ASSERT_NO_FATAL_FAILURE(FillTo(4 * kFirstPeak));
  ASSERT_NO_FATAL_FAILURE(GrowALevel());
  parts_.Pass(kTestRest / 2);
  ASSERT_NO_FATAL_FAILURE(GrowALevel());
  ASSERT_NO_FATAL_FAILURE(CheckAll(false));
  parts_.Pass(kTestRest / 2);
  ASSERT_NO_FATAL_FAILURE(CheckAll(false));
  for (std::uint64_t i = 0; i < model_.size(); ++i) ASSERT_NO_FATAL_FAILURE(CheckFound(i, kFirstView));
  parts_.Settle();
  ASSERT_NO_FATAL_FAILURE(CheckAll(true));
}

// An entry has moved up in its chain, and its key was written since. So its old slot leads to a dead record.
TEST_F(IndexGrowthTest, ASplitTakesNoDeadEntryAlong) {
  const std::vector<std::string> upper = UpperKeys(kSlotsPerBucket + 2);
  for (const std::string& key : upper) Put(key);
  ASSERT_NO_FATAL_FAILURE(FillTo(kFirstPeak + 10));
  for (const std::size_t i : {std::size_t{4}, std::size_t{9}}) {
    ASSERT_TRUE(parts_.Erase(upper[i]));
    model_.erase(upper[i]);
  }
  parts_.Pass({});
  ASSERT_NO_FATAL_FAILURE(Put(upper[kSlotsPerBucket]));
  ASSERT_TRUE(index_.Grow(1, parts_.now));
  parts_.Settle();
  ASSERT_NO_FATAL_FAILURE(CheckAll(true));
}

TEST_F(IndexGrowthTest, OneTickDoesABoundedBitAndSaysThatMoreIsDue) {
  ASSERT_NO_FATAL_FAILURE(FillTo(64 * kFirstPeak));
  while (index_.Grow(4096, parts_.now)) {
  }
  parts_.Pass(kTestRest);
  ASSERT_TRUE(index_.next_tick().has_value());
  EXPECT_LE(*index_.next_tick(), parts_.now);
  parts_.Settle();
  ASSERT_NO_FATAL_FAILURE(CheckAll(true));
}

TEST_F(IndexGrowthTest, NothingRestsWhileNobodyReads) {
  index_.set_reuse_delay({});
  ASSERT_NO_FATAL_FAILURE(FillTo(kFirstPeak + 1));
  ASSERT_NO_FATAL_FAILURE(GrowALevel());
  index_.Tick(parts_.now);
  ASSERT_NO_FATAL_FAILURE(CheckAll(true));
}

// --- No space -------------------------------------------------------------------------------------------

class IndexWithoutSpaceTest : public IndexGrowthTest {
 protected:
  std::vector<SegmentNumber> taken_;

  void TakeAllSegments() {
    while (const auto segment = parts_.segments.Take(Segments::Use::kLogHead, Segments::kReserve)) {
      taken_.push_back(*segment);
    }
  }
  void ReleaseASegment() {
    parts_.segments.Seal(taken_.back(), parts_.segments[taken_.back()].begin, parts_.now);
    parts_.segments.Retire(taken_.back(), parts_.now);
    taken_.pop_back();
    parts_.Pass(kTestRest);
  }
  /// Grows the index until its buckets fill its segments.
  void GrowToTheEndOfASegment() {
    ASSERT_NO_FATAL_FAILURE(FillTo(Index::kPeakLoad * kBucketsPerSegment + 1));
    while (index_.bucket_count() < kBucketsPerSegment) ASSERT_TRUE(index_.Grow(64, parts_.now));
    parts_.Settle();
  }
};

TEST_F(IndexWithoutSpaceTest, GrowthStopsWhenNoSegmentIsFreeAndGoesOnWhenOneIs) {
  ASSERT_NO_FATAL_FAILURE(GrowToTheEndOfASegment());
  TakeAllSegments();
  EXPECT_FALSE(index_.Grow(10, parts_.now));
  EXPECT_EQ(index_.bucket_count(), kBucketsPerSegment);
  EXPECT_EQ(parts_.segments.free_count(), Segments::kReserve) << "the last one is the cleaner's";
  ASSERT_NO_FATAL_FAILURE(CheckAll(true));
  ReleaseASegment();
  EXPECT_TRUE(index_.Grow(10, parts_.now));
  EXPECT_EQ(index_.bucket_count(), kBucketsPerSegment + 10);
  parts_.Settle();
  ASSERT_NO_FATAL_FAILURE(CheckAll(true));
}

// A split needs an overflow bucket for its upper half, and none is free.
TEST_F(IndexWithoutSpaceTest, ASplitThatFindsNoOverflowBucketChangesNothing) {
  const std::vector<std::string> upper = UpperKeys(10 * kSlotsPerBucket);
  for (const std::string& key : upper) Put(key);
  FillTo(kFirstPeak + 1);
  // Other chains have almost all overflow buckets of the segment, and no other segment is free.
  TakeAllSegments();
  constexpr std::uint64_t kAlmostAll = kBucketsPerSegment - 4;
  for (std::uint64_t hash = 1; index_.overflow_count() < kAlmostAll; ++hash) {
    const std::uint64_t more = std::min<std::uint64_t>(kAlmostAll - index_.overflow_count(), 80);
    ASSERT_TRUE(index_.Reserve(hash, more * kSlotsPerBucket));
  }
  const std::uint64_t overflow = index_.overflow_count();
  ASSERT_LT(overflow, kBucketsPerSegment);
  EXPECT_FALSE(index_.Grow(1, parts_.now));
  EXPECT_EQ(index_.bucket_count(), kFirstBuckets);
  EXPECT_EQ(index_.overflow_count(), overflow);
  ASSERT_NO_FATAL_FAILURE(CheckAll(false));
  ReleaseASegment();
  EXPECT_TRUE(index_.Grow(1, parts_.now));
  parts_.Settle();
  for (const std::string& key : upper) ASSERT_EQ(Search(parts_, key, kFirstView), Step::kFound);
}

}  // namespace
}  // namespace remora
