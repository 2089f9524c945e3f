#include "store/reclaim/cleaner.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "index_walk.h"
#include "store_parts.h"

namespace remora {
namespace {

using Head = ValueLog::Head;
using Use = Segments::Use;

class CleanerTest : public testing::Test {
 protected:
  static constexpr std::size_t kSegments = 16;
  static constexpr std::size_t kRecordSize = kSegmentSize / 64;
  static constexpr std::uint64_t kAll = ~std::uint64_t{0};

  StoreParts parts_{kSegments};
  Model model_;
  int next_key_ = 0;

  /// Returns keys of equal size, so that a known number of records fills a segment.
  static std::string KeyOf(int i) { return "key" + std::to_string(1000 + i); }
  void Put(const std::string& key) {
    const std::string value(kRecordSize - sizeof(RecordHeader) - key.size(),
                            static_cast<char>('a' + parts_.version % 26));
    ASSERT_TRUE(parts_.Put(key, value)) << key;
    model_[key] = value;
  }
  void Erase(const std::string& key) {
    ASSERT_TRUE(parts_.Erase(key)) << key;
    model_.erase(key);
  }
  /// Fills a segment and begins the next one, which seals it. Returns the keys of the full segment.
  std::vector<std::string> FillASegment() {
    std::vector<std::string> keys;
    while (keys.size() < 64) keys.push_back(KeyOf(next_key_++));
    for (const std::string& key : keys) Put(key);
    Put("next key");
    Erase("next key");
    return keys;
  }
  SegmentNumber SegmentOf(const std::string& key) const {
    return static_cast<SegmentNumber>(parts_.PlaceOf(key).offset_bytes() / kSegmentSize);
  }
  /// Erases all keys except every n-th.
  void Thin(const std::vector<std::string>& keys, std::size_t n) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (i % n != 0) Erase(keys[i]);
    }
  }
  bool Work(std::uint64_t bytes = kAll) { return parts_.cleaner.Work(bytes, parts_.now += kInstant, 0); }
  void CheckAll() const {
    ASSERT_NO_FATAL_FAILURE(IndexWalk(parts_, model_, false).Check());
    for (const auto& [key, value] : model_) {
      Reader reader(parts_, key, kFirstView);
      ASSERT_EQ(reader.Run(), KeySearch::Step::kFound) << key;
      ASSERT_EQ(reader.value(), value) << key;
    }
  }
};

TEST_F(CleanerTest, NothingDeadIsNoWork) {
  EXPECT_FALSE(Work());
  FillASegment();
  EXPECT_FALSE(Work());
  EXPECT_EQ(parts_.log.bytes_appended(Head::kMoves), 0u);
}

TEST_F(CleanerTest, LiveRecordsMoveWithAllTheySay) {
  const std::vector<std::string> keys = FillASegment();
  const SegmentNumber victim = SegmentOf(keys[0]);
  Thin(keys, 4);
  const Place old = parts_.PlaceOf(keys[4]);
  const RecordHeader before = parts_.log.Header(old);
  EXPECT_FALSE(Work()) << "when it is done there is nothing more";
  const Place moved = parts_.PlaceOf(keys[4]);
  EXPECT_NE(moved, old);
  EXPECT_NE(SegmentOf(keys[4]), victim);
  const RecordHeader& after = parts_.log.Header(moved);
  EXPECT_EQ(after.version_live, before.version_live);
  EXPECT_EQ(after.value_size, before.value_size);
  EXPECT_EQ(after.expiry_ms, before.expiry_ms);
  ASSERT_NO_FATAL_FAILURE(CheckAll());
}

TEST_F(CleanerTest, AnExpiryIsKept) {
  const std::vector<std::string> keys = FillASegment();
  Thin(keys, 64);
  const Place place = parts_.PlaceOf(keys[0]);
  const std::string value = model_[keys[0]];
  parts_.log.Kill(place);
  parts_.log.Seal(place, 99, /*expiry_ms=*/12345, HashKey(keys[0]), HashValue(value.data(), value.size()));
  parts_.log.MakeLive(place);
  parts_.segments.AddLive(place.offset_bytes(), place.extent_bytes());
  Work();
  EXPECT_EQ(parts_.log.Header(parts_.PlaceOf(keys[0])).expiry_ms, 12345u);
  EXPECT_EQ(parts_.log.Header(parts_.PlaceOf(keys[0])).version_live >> 1, 99u);
}

TEST_F(CleanerTest, OldCopiesAreDeadSoThatAReaderThatRemembersThemLooksAgain) {
  const std::vector<std::string> keys = FillASegment();
  Thin(keys, 4);
  const Place old = parts_.PlaceOf(keys[4]);
  Reader reader(parts_, keys[4], kFirstView);
  ASSERT_TRUE(reader.Read());  // it has read the old place
  Work();
  EXPECT_FALSE(parts_.log.IsLive(old));
  EXPECT_EQ(parts_.log.Value(old), model_[keys[4]]) << "the bytes rest";
  EXPECT_EQ(reader.Run(), KeySearch::Step::kUnsure);
}

TEST_F(CleanerTest, TheEmptiedSegmentRestsAndIsFreeAgain) {
  const std::vector<std::string> keys = FillASegment();
  const SegmentNumber victim = SegmentOf(keys[0]);
  Thin(keys, 4);
  const std::uint64_t live = parts_.segments.live_bytes();
  Work();
  EXPECT_EQ(parts_.segments[victim].use, Use::kRetired);
  EXPECT_EQ(parts_.segments[victim].live, 0u);
  EXPECT_EQ(parts_.segments.live_bytes(), live) << "moving is not dying";
  EXPECT_EQ(parts_.cleaner.segments_cleaned(), 1u);
  parts_.Pass(kTestRest - kInstant);
  EXPECT_EQ(parts_.segments[victim].use, Use::kRetired);
  parts_.Pass(kInstant);
  EXPECT_EQ(parts_.segments[victim].use, Use::kFree);
}

TEST_F(CleanerTest, OnlyWhatIsLiveIsMoved) {
  const std::vector<std::string> keys = FillASegment();
  Thin(keys, 4);
  const std::uint64_t written = parts_.log.bytes_appended(Head::kWrites);
  Work();
  EXPECT_EQ(parts_.log.bytes_appended(Head::kMoves), 16 * kRecordSize);
  EXPECT_EQ(parts_.log.bytes_appended(Head::kWrites), written) << "moves go to a head of their own";
}

TEST_F(CleanerTest, ASegmentWithNothingLiveIsNotEvenRead) {
  const std::vector<std::string> keys = FillASegment();
  const SegmentNumber victim = SegmentOf(keys[0]);
  Thin(keys, 1000);
  Erase(keys[0]);
  Work();
  EXPECT_EQ(parts_.segments[victim].use, Use::kRetired);
  EXPECT_EQ(parts_.log.bytes_appended(Head::kMoves), 0u);
}

TEST_F(CleanerTest, RecordsThatWereTakenBackAreSkipped) {
  const Place taken_back = *parts_.log.Append(Head::kWrites, "never", "published", parts_.now);
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(500)));
  parts_.log.Rollback(taken_back);
  const std::vector<std::string> keys = FillASegment();
  Thin(keys, 4);
  Work();
  EXPECT_NE(parts_.PlaceOf(KeyOf(500)).offset_bytes() / kSegmentSize,
            taken_back.offset_bytes() / kSegmentSize);
  EXPECT_FALSE(parts_.ValueOf("never").has_value());
  ASSERT_NO_FATAL_FAILURE(CheckAll());
}

// --- A bit at a time ------------------------------------------------------------------------------------

TEST_F(CleanerTest, ItLooksAtNoMoreThanAskedAndGoesOnLater) {
  const std::vector<std::string> keys = FillASegment();
  const SegmentNumber victim = SegmentOf(keys[0]);
  Thin(keys, 2);
  for (std::uint64_t moved = 1; moved < 32; ++moved) {
    ASSERT_TRUE(Work(2 * kRecordSize));
    EXPECT_EQ(parts_.log.bytes_appended(Head::kMoves), moved * kRecordSize);
    ASSERT_EQ(parts_.segments[victim].use, Use::kLog);
    ASSERT_NO_FATAL_FAILURE(CheckAll());
  }
  EXPECT_FALSE(Work()) << "it empties the segment, and there is no other";
  EXPECT_EQ(parts_.segments[victim].use, Use::kRetired);
}

TEST_F(CleanerTest, WritesBetweenTwoBitsOfWorkAreNotLost) {
  const std::vector<std::string> keys = FillASegment();
  Thin(keys, 2);
  ASSERT_TRUE(Work(20 * kRecordSize));
  Put(keys[0]);     // its record is moved already
  Erase(keys[2]);   // its record is moved already
  Put(keys[60]);    // its record is not moved yet
  Erase(keys[62]);  // its record is not moved yet
  ASSERT_NO_FATAL_FAILURE(CheckAll());
  Work();
  ASSERT_NO_FATAL_FAILURE(CheckAll());
  EXPECT_EQ(parts_.cleaner.segments_cleaned(), 1u);
}

TEST_F(CleanerTest, TheVictimMayDieWhileItIsCleaned) {
  const std::vector<std::string> keys = FillASegment();
  const SegmentNumber victim = SegmentOf(keys[0]);
  Thin(keys, 2);
  ASSERT_TRUE(Work(20 * kRecordSize));
  for (std::size_t i = 0; i < keys.size(); i += 2) Erase(keys[i]);
  const std::uint64_t moved = parts_.log.bytes_appended(Head::kMoves);
  Work(1);
  EXPECT_EQ(parts_.segments[victim].use, Use::kRetired);
  while (Work()) {
  }
  EXPECT_EQ(parts_.log.bytes_appended(Head::kMoves), moved);
  ASSERT_NO_FATAL_FAILURE(CheckAll());
}

TEST_F(CleanerTest, AGrowingIndexIsFollowed) {
  const std::vector<std::string> keys = FillASegment();
  Thin(keys, 2);
  for (int i = 0; model_.size() < 2'000; ++i) {
    ASSERT_TRUE(parts_.Put("small" + std::to_string(i), "v"));
    model_["small" + std::to_string(i)] = "v";
  }
  ASSERT_TRUE(Work(20 * kRecordSize));
  ASSERT_TRUE(parts_.index.Grow(1000, parts_.now));
  Work();
  ASSERT_NO_FATAL_FAILURE(CheckAll());
  parts_.Settle();
  ASSERT_NO_FATAL_FAILURE(IndexWalk(parts_, model_, true).Check());
}

// --- No space -------------------------------------------------------------------------------------------

/// The whole memory is full, and a little of each segment is dead.
class CleanerWithoutSpaceTest : public CleanerTest {
 protected:
  std::vector<std::string> keys_;

  void SetUp() override {
    while (parts_.segments.free_count() > Segments::kReserve) keys_.push_back(FillUntilSealed());
    ASSERT_EQ(parts_.segments.free_count(), Segments::kReserve);
  }
  std::string FillUntilSealed() {
    const std::string key = KeyOf(next_key_++);
    Put(key);
    return key;
  }
  void EraseEach(std::size_t n) {
    for (std::size_t i = 0; i < keys_.size(); i += n) Erase(keys_[i]);
  }
};

TEST_F(CleanerWithoutSpaceTest, TheReserveIsEnoughToEmptyOneSegmentAfterTheOther) {
  EraseEach(8);  // an eighth of the records is dead
  std::size_t rounds = 0;
  for (; parts_.segments.free_count() < 2 && rounds < 100; ++rounds) {
    while (Work()) {
    }
    ASSERT_NO_FATAL_FAILURE(CheckAll());
    parts_.Pass(kTestRest);
  }
  EXPECT_GE(parts_.segments.free_count(), 2u) << "no segment came of " << rounds << " rounds";
}

TEST_F(CleanerWithoutSpaceTest, WithNowhereToMoveToItStopsAndGoesOnWhenASegmentHasRested) {
  EraseEach(4);
  EXPECT_FALSE(Work());
  EXPECT_EQ(parts_.segments.free_count(), 0u) << "it used the reserve";
  EXPECT_GT(parts_.segments.retired_count(), 0u);
  const std::uint64_t moved = parts_.log.bytes_appended(Head::kMoves);
  EXPECT_FALSE(Work());
  EXPECT_EQ(parts_.log.bytes_appended(Head::kMoves), moved);
  ASSERT_NO_FATAL_FAILURE(CheckAll());
  parts_.Pass(kTestRest);
  Work();
  EXPECT_GT(parts_.log.bytes_appended(Head::kMoves), moved);
  ASSERT_NO_FATAL_FAILURE(CheckAll());
}

TEST_F(CleanerWithoutSpaceTest, OverwritingForEverNeverFails) {
  EraseEach(2);
  for (std::size_t round = 0; round < 4'000; ++round) {
    const std::size_t i = (round * 7919 % (keys_.size() / 2)) * 2 + 1;
    while (parts_.segments.free_count() <= Segments::kReserve + 1) {
      Work(10 * kRecordSize);
      parts_.Pass(kTestRest);
    }
    ASSERT_NO_FATAL_FAILURE(Put(keys_[i]));
  }
  ASSERT_NO_FATAL_FAILURE(CheckAll());
  EXPECT_GT(parts_.cleaner.segments_cleaned(), 30u);
}

}  // namespace
}  // namespace remora
