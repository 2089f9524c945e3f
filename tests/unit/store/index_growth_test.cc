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
  /// Keys number model_.size() and on, until there are `count`.
  void FillTo(std::uint64_t count) {
    while (model_.size() < count) ASSERT_NO_FATAL_FAILURE(Put(KeyOf(model_.size())));
  }
  /// Keys of bucket 0, which moves all of them when it is split.
  static std::vector<std::string> UpperKeys(std::size_t count) {
    std::vector<std::string> keys;
    for (int i = 0; keys.size() < count; ++i) {
      std::string key = "upper" + std::to_string(i);
      if (BucketAtDepth(HashKey(key), Index::kFirstLevel + 1) == kFirstBuckets)
        keys.push_back(std::move(key));
    }
    return keys;
  }
  /// Doubles the index at once.
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

// Of those that were put where there was room, as their line was full: a split makes room, and they come
// home.
TEST_F(IndexGrowthTest, WhatStaysBehindComesToItsLine) {
  // Keys whose slot is not in their line: readers look there in vain first.
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

// While a key is in two slots, all that may become of it.
TEST_F(IndexGrowthTest, WhatComesHomeMayChangeMeanwhile) {
  ASSERT_NO_FATAL_FAILURE(FillTo(4 * kFirstPeak));
  std::mt19937_64 random(1);
  for (int round = 0; round < 60; ++round) {
    ASSERT_NO_FATAL_FAILURE(FillTo(model_.size() + 200));
    index_.Grow(random() % 200, parts_.now);
    parts_.Pass(kTestRest / (1 + random() % 4));
    for (int n = 0; n < 200; ++n) {
      const std::string key = KeyOf(random() % model_.size());
      const auto found = model_.find(key);
      if (found == model_.end()) continue;
      ASSERT_TRUE(parts_.Erase(key)) << key;
      ASSERT_NE(Search(parts_, key, index_.view()), Step::kFound) << key;
      // Into the slot that came free, maybe.
      ASSERT_TRUE(parts_.Put(key, "value")) << key;
    }
    ASSERT_NO_FATAL_FAILURE(CheckAll(false));
  }
  parts_.Settle();
  ASSERT_NO_FATAL_FAILURE(CheckAll(true));
}

// The slot that was left is cleared once, although its bucket is split before it has rested: who came to it
// meanwhile stays.
TEST_F(IndexGrowthTest, WhatComesToASlotThatWasLeftStays) {
  // Keys of bucket 0 in its line 3 that a split moves; one that stays, until the next; and one for line 0.
  constexpr std::uint32_t kLevel = Index::kFirstLevel;
  const auto key_of = [](const char* name, std::uint64_t low_bits, std::size_t line, int skip) {
    for (int i = 0;; ++i) {
      std::string key = name + std::to_string(i);
      const std::uint64_t key_hash = HashKey(key);
      if (BucketAtDepth(key_hash, kLevel + 2) == low_bits && LineOf(key_hash) == line && skip-- == 0)
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

// An index that was made large is there without a word written, and grows as any other.
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

// --- What rests -----------------------------------------------------------------------------------------

/// Readers of every key, of which each has read its main bucket before all buckets are split.
class PassedReadersTest : public IndexGrowthTest {
 protected:
  std::list<Reader> readers_;
  std::vector<std::uint64_t> controls_;  // of the main buckets before

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
  /// How many keys readers miss that saw the control word before the split, and see the slots only now.
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

// Two levels within one rest: what the first left behind is no key of the second's.
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

// A chain in which an entry moved up, and was written since: its old slot names a dead record.
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

// --- No room --------------------------------------------------------------------------------------------

class IndexWithoutRoomTest : public IndexGrowthTest {
 protected:
  std::vector<SegmentNumber> taken_;

  void TakeAllSegments() {
    while (const auto segment = parts_.segments.Take(Segments::Use::kLogHead, Segments::kReserve)) {
      taken_.push_back(*segment);
    }
  }
  void GiveBackASegment() {
    parts_.segments.Seal(taken_.back(), parts_.segments[taken_.back()].begin, parts_.now);
    parts_.segments.Retire(taken_.back(), parts_.now);
    taken_.pop_back();
    parts_.Pass(kTestRest);
  }
  /// Grows until there are as many buckets as fit into the segments that it has.
  void GrowToTheEndOfASegment() {
    ASSERT_NO_FATAL_FAILURE(FillTo(Index::kPeakLoad * kBucketsPerSegment + 1));
    while (index_.bucket_count() < kBucketsPerSegment) ASSERT_TRUE(index_.Grow(64, parts_.now));
    parts_.Settle();
  }
};

TEST_F(IndexWithoutRoomTest, GrowthStopsWhenNoSegmentIsFreeAndGoesOnWhenOneIs) {
  ASSERT_NO_FATAL_FAILURE(GrowToTheEndOfASegment());
  TakeAllSegments();
  EXPECT_FALSE(index_.Grow(10, parts_.now));
  EXPECT_EQ(index_.bucket_count(), kBucketsPerSegment);
  EXPECT_EQ(parts_.segments.free_count(), Segments::kReserve) << "the last one is the cleaner's";
  ASSERT_NO_FATAL_FAILURE(CheckAll(true));
  GiveBackASegment();
  EXPECT_TRUE(index_.Grow(10, parts_.now));
  EXPECT_EQ(index_.bucket_count(), kBucketsPerSegment + 10);
  parts_.Settle();
  ASSERT_NO_FATAL_FAILURE(CheckAll(true));
}

// A split needs an overflow bucket for its upper half, and there is none.
TEST_F(IndexWithoutRoomTest, ASplitThatFindsNoOverflowBucketChangesNothing) {
  const std::vector<std::string> upper = UpperKeys(10 * kSlotsPerBucket);
  for (const std::string& key : upper) Put(key);
  FillTo(kFirstPeak + 1);
  // All overflow buckets of their segment but a few are in other chains, and there is no other segment.
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
  GiveBackASegment();
  EXPECT_TRUE(index_.Grow(1, parts_.now));
  parts_.Settle();
  for (const std::string& key : upper) ASSERT_EQ(Search(parts_, key, kFirstView), Step::kFound);
}

}  // namespace
}  // namespace remora
