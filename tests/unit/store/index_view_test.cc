// How a reader with an outdated view of the index finds its bucket, in a table that really splits.
#include "store/format/memory/index_view.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace remora {
namespace {

/// A linear hash table as in a textbook: each split moves hashes from one bucket to a new one.
class Table {
 public:
  Table(std::uint32_t level, std::vector<std::uint64_t> hashes)
      : level_(level),
        depths_(std::size_t{1} << level, level),
        bucket_of_(hashes.size()),
        hashes_(std::move(hashes)) {
    for (std::size_t i = 0; i < hashes_.size(); ++i) bucket_of_[i] = hashes_[i] % depths_.size();
  }

  void Split() {
    const std::size_t upper = depths_.size();
    for (std::size_t i = 0; i < hashes_.size(); ++i) {
      if (bucket_of_[i] == split_ && (hashes_[i] >> level_ & 1) != 0) bucket_of_[i] = upper;
    }
    depths_[split_] = level_ + 1;
    depths_.push_back(level_ + 1);
    if (++split_ == std::uint64_t{1} << level_) {
      ++level_;
      split_ = 0;
    }
  }

  std::size_t bucket_count() const { return depths_.size(); }
  std::size_t hash_count() const { return hashes_.size(); }
  std::uint64_t hash(std::size_t i) const { return hashes_[i]; }
  std::uint64_t bucket_of(std::size_t i) const { return bucket_of_[i]; }
  std::uint32_t depth(std::uint64_t bucket) const { return depths_.at(bucket); }
  IndexView view() const { return {level_, split_}; }

 private:
  std::uint32_t level_;
  std::uint64_t split_ = 0;
  std::vector<std::uint32_t> depths_;
  std::vector<std::uint64_t> bucket_of_;
  std::vector<std::uint64_t> hashes_;
};

std::uint64_t BucketsOf(const IndexView& view) { return (std::uint64_t{1} << view.level) + view.split; }

/// A reader on the path to the bucket of a hash. It reads one bucket at a time, as KeySearch does.
struct Walk {
  std::size_t hash;
  IndexView view;
  Home home;
  bool there = false;

  Walk(const Table& table, std::size_t i, const IndexView& from)
      : hash(i), view(from), home(from.HomeOf(table.hash(i))) {}

  void Step(const Table& table) {
    ASSERT_LT(home.bucket, table.bucket_count()) << "a bucket that is not there";
    const std::uint32_t depth = table.depth(home.bucket);
    ASSERT_GE(depth, home.depth) << "deeper than the bucket ever was";
    there = depth == home.depth;
    if (there) return;
    view.Saw(home.bucket, depth);
    ASSERT_LT(view.split, std::uint64_t{1} << view.level);
    ASSERT_LE(BucketsOf(view), table.bucket_count()) << "a view ahead of the truth";
    const Home next = NextHome(table.hash(hash), home, depth);
    ASSERT_GT(next.depth, home.depth) << "no nearer";
    there = next.bucket == home.bucket;
    home = next;
  }
};

std::vector<std::uint64_t> RandomHashes(std::size_t count) {
  std::mt19937_64 random(7);
  std::vector<std::uint64_t> hashes(count);
  for (std::uint64_t& hash : hashes) hash = random();
  return hashes;
}

class LookupTest : public testing::Test {
 protected:
  static constexpr int kSplits = 500;  // from 2 buckets to the ninth level
  Table table_{1, RandomHashes(100)};
  std::mt19937_64 random_{8};
};

TEST_F(LookupTest, TheExactViewNamesTheBucketAtOnce) {
  for (int split = 0; split < kSplits; ++split, table_.Split()) {
    for (std::size_t i = 0; i < table_.hash_count(); ++i) {
      const Home home = table_.view().HomeOf(table_.hash(i));
      ASSERT_EQ(home.bucket, table_.bucket_of(i));
      ASSERT_EQ(home.depth, table_.depth(home.bucket));
      ASSERT_TRUE(Belongs(table_.hash(i), home));
    }
  }
}

TEST_F(LookupTest, AnyOlderViewFindsTheWay) {
  std::vector<IndexView> views;
  for (int split = 0; split < kSplits; ++split, table_.Split()) {
    views.push_back(table_.view());
    for (const IndexView& view : views) {
      for (int n = 0; n < 4; ++n) {
        Walk walk(table_, random_() % table_.hash_count(), view);
        while (!walk.there) ASSERT_NO_FATAL_FAILURE(walk.Step(table_)) << split;
        ASSERT_EQ(walk.home.bucket, table_.bucket_of(walk.hash)) << split;
        ASSERT_EQ(walk.home.depth, table_.depth(walk.home.bucket));
      }
    }
  }
}

TEST_F(LookupTest, EvenAReaderThatKnowsNothingFindsTheWay) {
  for (int split = 0; split < kSplits; ++split) table_.Split();
  for (std::size_t i = 0; i < table_.hash_count(); ++i) {
    Walk walk(table_, i, IndexView{});
    while (!walk.there) ASSERT_NO_FATAL_FAILURE(walk.Step(table_));
    ASSERT_EQ(walk.home.bucket, table_.bucket_of(i));
  }
}

// Readers stop anywhere while buckets split under them.
TEST_F(LookupTest, ReadersArriveWhileTheTableGrows) {
  std::vector<Walk> walks;
  for (int split = 0; split < kSplits; ++split, table_.Split()) {
    walks.emplace_back(table_, random_() % table_.hash_count(), table_.view());
    for (Walk& walk : walks) {
      if (random_() % 20 != 0) continue;
      ASSERT_NO_FATAL_FAILURE(walk.Step(table_));
      // The result holds now if the bucket still has the depth with which the reader looked for it.
      if (walk.there && walk.home.depth == table_.depth(walk.home.bucket)) {
        ASSERT_EQ(walk.home.bucket, table_.bucket_of(walk.hash));
      }
    }
  }
}

// A reader keeps one view for all of its keys, and learns from each search.
TEST_F(LookupTest, AViewCatchesUpAndIsNeverAhead) {
  IndexView view = table_.view();
  for (int split = 0; split < kSplits; ++split, table_.Split()) {
    const std::uint64_t before = BucketsOf(view);
    Walk walk(table_, random_() % table_.hash_count(), view);
    while (!walk.there) ASSERT_NO_FATAL_FAILURE(walk.Step(table_));
    view = walk.view;
    ASSERT_GE(BucketsOf(view), before) << "it forgot";
  }
  EXPECT_GT(BucketsOf(view), table_.bucket_count() / 2) << "it learned nothing";
}

TEST_F(LookupTest, SawTellsAllThatABucketShows) {
  for (int split = 0; split < kSplits; ++split, table_.Split()) {
    IndexView view{0, 0};
    for (std::uint64_t bucket = 0; bucket < table_.bucket_count(); ++bucket)
      view.Saw(bucket, table_.depth(bucket));
    ASSERT_EQ(view.level, table_.view().level);
    ASSERT_EQ(view.split, table_.view().split);
  }
}

TEST_F(LookupTest, SawLearnsNothingFromWhatItKnows) {
  IndexView view{5, 7};
  for (std::uint64_t bucket = 0; bucket < 39; ++bucket) {
    view.Saw(bucket, bucket < 7 || bucket >= 32 ? 6 : 5);
    ASSERT_TRUE(view.level == 5 && view.split == 7) << bucket;
  }
  view.Saw(0, 0);  // an overflow bucket has no depth
  EXPECT_TRUE(view.level == 5 && view.split == 7);
}

TEST_F(LookupTest, TheOtherHalfOfTheFirstSplitComesBeforeThatOfALaterOne) {
  // The reader looked for bucket 1 at depth 1, and found
  // depth 4. The hash leaves that bucket at its second bit.
  const Home next = NextHome(0b1111, {1, 1}, 4);
  EXPECT_EQ(next.bucket, 0b11u);
  EXPECT_EQ(next.depth, 2u);
}

}  // namespace
}  // namespace remora
