// Cold keys in the index, and which keys become cold.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "index_walk.h"
#include "store_parts.h"

namespace remora {
namespace {

using Step = KeySearch::Step;
using Head = ValueLog::Head;

class ColdTest : public testing::Test {
 protected:
  StoreParts parts_{16, Evictor::Mode::kMarkCold};
  const std::vector<std::string> keys_ = KeysOf(/*bucket=*/7, 20);

  void PutAll() {
    for (const std::string& key : keys_) ASSERT_TRUE(parts_.Put(key, "value of " + key));
  }
  Bucket Copy() const {
    Bucket copy;
    parts_.index.Copy({false, 7}, &copy);
    return copy;
  }
  /// Returns the result of a search that reads this bucket, and the current records.
  Step SearchIn(const std::string& key, const Bucket& bucket) {
    IndexView view = kFirstView;
    KeySearch search(key, HashKey(key), parts_.shape, &view);
    search.TakeBucket(bucket);
    while (search.step() == Step::kReadRecord) {
      const Place place = Place::Of(search.slot());
      search.TakeRecord(parts_.log.Header(place), parts_.log.Body(place));
    }
    return search.step();
  }
};

TEST_F(ColdTest, ASearchSaysSoAndReadsNoRecord) {
  ASSERT_NO_FATAL_FAILURE(PutAll());
  ASSERT_TRUE(parts_.MarkCold(keys_[0]));
  parts_.Settle();
  Reader reader(parts_, keys_[0], kFirstView);
  ASSERT_TRUE(reader.Read());
  EXPECT_EQ(reader.search().step(), Step::kCold);
  EXPECT_EQ(parts_.index.cold_count(), 1u);
  EXPECT_EQ(parts_.index.entry_count(), keys_.size());
  for (std::size_t i = 1; i < keys_.size(); ++i)
    EXPECT_EQ(Search(parts_, keys_[i], kFirstView), Step::kFound);
}

TEST_F(ColdTest, AnotherKeysColdSlotHidesNothingAndCostsNothing) {
  for (const std::string& key : keys_) {
    ASSERT_TRUE(parts_.Put(key, "value"));
    ASSERT_TRUE(parts_.MarkCold(key));
  }
  parts_.Settle();
  // A slot that has the fingerprint of a missing key, but the hash of another key.
  const std::string missing = KeysOf(7, 21).back();
  Bucket bucket = Copy();
  bucket.slots[25] = EncodeColdSlot(HashKey(missing)) ^ 0x100;
  EXPECT_EQ(SearchIn(missing, bucket), Step::kMissing);
  bucket.slots[25] = EncodeColdSlot(HashKey(missing));
  EXPECT_EQ(SearchIn(missing, bucket), Step::kCold);
}

TEST_F(ColdTest, AKeyMayEnterCold) {
  EXPECT_EQ(parts_.index.InsertCold(HashKey(keys_[0])), Index::Entered::kDone);
  EXPECT_EQ(parts_.index.InsertCold(HashKey(keys_[0])), Index::Entered::kTaken);
  EXPECT_EQ(Search(parts_, keys_[0], kFirstView), Step::kCold);
  EXPECT_EQ(parts_.index.entry_count(), 1u);
  EXPECT_EQ(parts_.index.cold_count(), 1u);
  // The key's old cold slot still has the same hash, but belongs to no key during its grace period.
  parts_.tier[keys_[0]] = "value";
  ASSERT_TRUE(parts_.Fetch(keys_[0]));
  EXPECT_EQ(parts_.index.InsertCold(HashKey(keys_[0])), Index::Entered::kDone) << "a key of the same hash";
}

TEST_F(ColdTest, AKeyEntersColdWhileThereIsSpace) {
  while (parts_.segments.Take(Segments::Use::kLogHead, Segments::kReserve)) {
  }
  const std::vector<std::string> keys = KeysOf(/*bucket=*/7, kSlotsPerBucket + 1);
  for (std::size_t i = 0; i < kSlotsPerBucket; ++i) {
    ASSERT_EQ(parts_.index.InsertCold(HashKey(keys[i])), Index::Entered::kDone);
  }
  EXPECT_EQ(parts_.index.InsertCold(HashKey(keys.back())), Index::Entered::kNoSpace);
  EXPECT_EQ(parts_.index.entry_count(), std::uint64_t{kSlotsPerBucket});
  EXPECT_EQ(Search(parts_, keys.back(), kFirstView), Step::kMissing);
}

// A READ may show each byte as it was before a write or after it.
TEST_F(ColdTest, NoMixtureOfBeforeAndAfterHidesAKey) {
  std::mt19937_64 random(1);
  const auto try_mixtures = [&](const std::string& key, const Bucket& before, const Bucket& after) {
    for (int i = 0; i < 2000; ++i) {
      Bucket mixture = before;
      auto* bytes = reinterpret_cast<std::byte*>(&mixture);
      const bool whole_words = i % 2 == 0;
      std::uint64_t coins = 0;
      for (std::size_t byte = 0; byte < sizeof(Bucket); ++byte) {
        if (!whole_words || byte % 8 == 0) coins = random();
        if (coins % 2 == 0) std::memcpy(bytes + byte, reinterpret_cast<const std::byte*>(&after) + byte, 1);
      }
      ASSERT_NE(SearchIn(key, mixture), Step::kMissing) << key;
    }
  };
  ASSERT_NO_FATAL_FAILURE(PutAll());
  for (const std::string& key : keys_) {
    const Bucket hot = Copy();
    ASSERT_TRUE(parts_.MarkCold(key));
    const Bucket chilled = Copy();
    ASSERT_NO_FATAL_FAILURE(try_mixtures(key, hot, chilled));
    // The key is promoted either at once, while its old slot is in its grace period, or later.
    if (random() % 2 == 0) parts_.Pass(kTestRest);
    const Bucket cold = Copy();
    ASSERT_TRUE(parts_.Fetch(key));
    ASSERT_NO_FATAL_FAILURE(try_mixtures(key, cold, Copy()));
    parts_.Pass(kTestRest);
  }
  parts_.Settle();
  ASSERT_NO_FATAL_FAILURE(IndexWalk(parts_, Model(parts_.tier), true).Check());
}

TEST_F(ColdTest, SplitsMoveColdKeysWithoutKnowingThem) {
  for (int i = 0; i < 3000; ++i) {
    const std::string key = "key" + std::to_string(i);
    ASSERT_TRUE(parts_.Put(key, "value"));
    if (i % 3 != 0) {
      ASSERT_TRUE(parts_.MarkCold(key));
    }
    parts_.index.Grow(2, parts_.now);
    if (i % 100 == 0) parts_.Pass(kTestRest / 3);
  }
  EXPECT_GE(parts_.index.bucket_count(), std::uint64_t{2} << Index::kFirstLevel);
  for (int i = 0; i < 3000; ++i) {
    ASSERT_EQ(Search(parts_, "key" + std::to_string(i), kFirstView), i % 3 == 0 ? Step::kFound : Step::kCold);
  }
  parts_.Settle();
  ASSERT_NO_FATAL_FAILURE(IndexWalk(parts_, Model(parts_.tier), true).Check());
}

TEST_F(ColdTest, AKeyMayLeaveAndComeBackWhileItsOldSlotsRest) {
  ASSERT_NO_FATAL_FAILURE(PutAll());
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(parts_.MarkCold(keys_[0]));
    ASSERT_EQ(Search(parts_, keys_[0], kFirstView), Step::kCold);
    parts_.Pass(kTestRest / 7);
    ASSERT_TRUE(parts_.Fetch(keys_[0]));
    ASSERT_EQ(Search(parts_, keys_[0], kFirstView), Step::kFound);
  }
  ASSERT_TRUE(parts_.MarkCold(keys_[0]));
  ASSERT_TRUE(parts_.Erase(keys_[0]));
  ASSERT_TRUE(parts_.Put(keys_[0], "new"));
  ASSERT_TRUE(parts_.MarkCold(keys_[0]));
  parts_.Settle();
  EXPECT_EQ(Search(parts_, keys_[0], kFirstView), Step::kCold);
  ASSERT_NO_FATAL_FAILURE(IndexWalk(parts_, Model(parts_.tier), true).Check());
}

// --- The evictor, through the cleaner ----------------------------------------------------------------------

class EvictorTest : public ColdTest {
 protected:
  static constexpr std::size_t kValueSize = 16'000;

  /// Fills segments with records that have no use but their write.
  std::vector<std::string> Fill(int segments) {
    std::vector<std::string> keys;
    const std::size_t sealed =
        parts_.segments.CountOf(Segments::Queue::kWritten) + static_cast<std::size_t>(segments);
    while (parts_.segments.CountOf(Segments::Queue::kWritten) < sealed) {
      keys.push_back("record " + std::to_string(next_++));
      EXPECT_TRUE(parts_.Put(keys.back(), std::string(kValueSize, 'v')));
      parts_.frequency.Note(HashKey(keys.back()));
    }
    return keys;
  }
  void Work() { parts_.cleaner.Work(kSegmentSize - kValueSize, parts_.now += kInstant, 0); }

  int next_ = 0;
};

TEST_F(EvictorTest, TheOldestGoAndThoseThatWereUsedAgainStay) {
  const std::vector<std::string> keys = Fill(3);
  parts_.frequency.Note(HashKey(keys[0]));
  parts_.frequency.Note(HashKey(keys[5]));
  Work();
  EXPECT_FALSE(parts_.IsCold(keys[0]));
  EXPECT_TRUE(parts_.IsCold(keys[1]));
  EXPECT_FALSE(parts_.IsCold(keys[5]));
  EXPECT_TRUE(parts_.IsCold(keys[6]));
  EXPECT_FALSE(parts_.IsCold(keys.back()));
  EXPECT_GT(parts_.evictor.evictions(), 40u);
  for (const std::string& key : keys) {
    EXPECT_EQ(Search(parts_, key, kFirstView), parts_.IsCold(key) ? Step::kCold : Step::kFound);
  }
}

TEST_F(EvictorTest, HoweverMuchAllIsUsedSegmentsComeFree) {
  for (int round = 0; round < 100; ++round) {
    for (const std::string& key : Fill(1)) {
      for (int uses = 0; uses < 20; ++uses) parts_.frequency.Note(HashKey(key));
    }
    while (parts_.segments.free_count() + parts_.segments.retired_count() < 4) Work();
    parts_.Pass(kTestRest);
    ASSERT_GE(parts_.segments.free_count(), 3u) << round;
  }
  parts_.Settle();
  ASSERT_NO_FATAL_FAILURE(IndexWalk(parts_, Model(parts_.tier), true).Check());
}

TEST_F(EvictorTest, WhereMuchIsDeadNothingHasToGo) {
  const std::vector<std::string> keys = Fill(3);
  for (std::size_t i = 0; i < keys.size(); i += 2) parts_.Erase(keys[i]);
  Work();
  EXPECT_EQ(parts_.evictor.evictions(), 0u);
  EXPECT_GT(parts_.log.bytes_appended(Head::kMoves), 0u);
}

}  // namespace
}  // namespace remora
