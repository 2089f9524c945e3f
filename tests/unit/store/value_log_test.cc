#include "store/region/value_log.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store/format/memory/record.h"
#include "store/memory_plan.h"

namespace remora {
namespace {

using Head = ValueLog::Head;

class ValueLogTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kIncarnation = 42;
  static constexpr std::size_t kUsable = 4;  // segments besides the first one
  const std::unique_ptr<AnonymousMemory> memory_ =
      std::move(*AnonymousMemory::Map((1 + kUsable) * kSegmentSize));
  Segments segments_{memory_->bytes(), std::chrono::seconds(1)};
  ValueLog log_{memory_->bytes(), segments_, kIncarnation};
  const TimePoint now_{std::chrono::seconds(1000)};

  RecordState Check(const Place& place, std::string_view key) const {
    return CheckRecord(log_.Header(place), log_.Body(place), key, HashKey(key),
                       {place.offset_units, place.extent_bytes(), {0, 0}, kIncarnation});
  }
  std::optional<Place> Append(std::string_view key, std::string_view value, Head head = Head::kWrites) {
    return log_.Append(head, key, value, now_);
  }
  Place AppendSealed(std::string_view key, std::string_view value, std::uint64_t version,
                     Head head = Head::kWrites) {
    const std::optional<Place> place = Append(key, value, head);
    EXPECT_TRUE(place.has_value());
    log_.Seal(*place, version, /*expiry_ms=*/9, HashKey(key), HashValue(value.data(), value.size()));
    return *place;
  }
  Place AppendLive(std::string_view key, std::string_view value, Head head = Head::kWrites) {
    const Place place = AppendSealed(key, value, 1, head);
    log_.MakeLive(place);
    return place;
  }
  static std::uint64_t SegmentOf(const Place& place) { return place.offset_bytes() / kSegmentSize; }
  static std::uint64_t EndOf(const Place& place) { return place.offset_bytes() + place.extent_bytes(); }
  /// Returns a value whose record, with a key of three bytes, takes `size` bytes.
  /// REQUIRES: `size` divides 64 KiB.
  static std::string ValueFor(std::size_t size) { return std::string(size - sizeof(RecordHeader) - 3, 'v'); }
};

TEST_F(ValueLogTest, ARecordLivesFromMakeLiveToKill) {
  const Place place = AppendSealed("key", "value", 7);
  EXPECT_EQ(Check(place, "key"), RecordState::kDead) << "live before it is published";
  EXPECT_FALSE(log_.IsLive(place));
  log_.MakeLive(place);
  EXPECT_EQ(Check(place, "key"), RecordState::kLive);
  EXPECT_TRUE(log_.IsLive(place));
  EXPECT_EQ(log_.Header(place).version_live >> 1, 7u);
  EXPECT_EQ(log_.Header(place).expiry_ms, 9u);
  EXPECT_EQ(log_.Key(place), "key");
  EXPECT_EQ(log_.Value(place), "value");
  log_.Kill(place);
  EXPECT_FALSE(log_.IsLive(place));
  EXPECT_EQ(Check(place, "key"), RecordState::kDead);
  EXPECT_EQ(log_.Value(place), "value") << "a killed record stays readable";
}

TEST_F(ValueLogTest, TheChecksumIsTheOneThatWasSealed) {
  const Place place = AppendSealed("key", "value", 7);
  EXPECT_EQ(log_.Header(place).checksum, log_.Checksum(place, HashKey("key"), HashValue("value", 5)));
  EXPECT_NE(log_.Header(place).checksum, log_.Checksum(place, HashKey("key"), HashValue("Value", 5)));
}

// A new record may be appended where an older one was. No bit of the old one must make the new one live.
TEST_F(ValueLogTest, AnAppendedRecordIsNotLiveWhateverStoodThere) {
  const Place first = AppendSealed("key", "value", 7);
  log_.Rollback(first);
  auto* header = reinterpret_cast<RecordHeader*>(memory_->bytes().data() + first.offset_bytes());
  header->version_live |= kLiveBit;
  const Place again = *Append("key", "other");
  ASSERT_EQ(again, first);
  EXPECT_FALSE(log_.IsLive(again));
}

TEST_F(ValueLogTest, CountsUsedAndDead) {
  const Place place = AppendSealed("key", "value", 7);  // 40 bytes in 3 units
  EXPECT_EQ(log_.bytes_used(), 48u);
  EXPECT_EQ(log_.bytes_dead(), 0u);
  log_.MakeLive(place);
  log_.Kill(place);
  EXPECT_EQ(log_.bytes_used(), 48u);
  EXPECT_EQ(log_.bytes_dead(), 48u);
  AppendLive("key", "value", Head::kMoves);
  EXPECT_EQ(log_.bytes_used(), 96u);
  EXPECT_EQ(log_.bytes_dead(), 48u);
  EXPECT_EQ(log_.bytes_appended(Head::kWrites), 48u);
  EXPECT_EQ(log_.bytes_appended(Head::kMoves), 48u);
}

TEST_F(ValueLogTest, HeadsDoNotShareASegment) {
  std::vector<Place> places[2];
  for (int i = 0; i < 20; ++i) {
    places[0].push_back(*Append("key", "value", Head::kWrites));
    places[1].push_back(*Append("key", "value", Head::kMoves));
  }
  for (const Place& place : places[0]) EXPECT_EQ(SegmentOf(place), SegmentOf(places[0][0]));
  for (const Place& place : places[1]) EXPECT_EQ(SegmentOf(place), SegmentOf(places[1][0]));
  EXPECT_NE(SegmentOf(places[0][0]), SegmentOf(places[1][0]));
}

TEST_F(ValueLogTest, NoRecordCrossesTheEndOfASegment) {
  const std::string value(100'000, 'v');
  std::size_t records = 0;
  std::uint64_t previous_end = kSegmentSize;
  for (; const std::optional<Place> place = Append("key", value, Head::kMoves); ++records) {
    ASSERT_GE(place->offset_bytes(), previous_end);
    ASSERT_EQ(SegmentOf(*place), (EndOf(*place) - 1) / kSegmentSize);
    ASSERT_LE(EndOf(*place), memory_->bytes().size());
    previous_end = EndOf(*place);
  }
  EXPECT_EQ(records, 10 * kUsable);
  EXPECT_EQ(log_.bytes_used(), records * ExtentUnits(RecordExtentCode(3, 100'000)) * kUnitSize)
      << "what is left at the end of a segment is not used";
}

TEST_F(ValueLogTest, ARecordMayEndWithItsSegment) {
  const std::string value = ValueFor(kSegmentSize / 256);
  std::vector<Place> places;
  for (int i = 0; i < 257; ++i) places.push_back(*Append("key", value));
  EXPECT_EQ(EndOf(places[255]) % kSegmentSize, 0u);
  EXPECT_EQ(SegmentOf(places[255]), SegmentOf(places[0])) << "a gap where none is needed";
  EXPECT_NE(SegmentOf(places[256]), SegmentOf(places[0]));
  EXPECT_EQ(places[256].offset_bytes() % kSegmentSize, 0u);
}

TEST_F(ValueLogTest, AFullHeadIsSealedWhereItsLastRecordEnds) {
  const Place first = *Append("key", std::string(200'000, 'v'));
  Place last = first;
  for (Place place = first; SegmentOf(place) == SegmentOf(first);) {
    last = place;
    place = *Append("key", std::string(200'000, 'v'));
  }
  const Segments::Segment& segment = segments_[static_cast<SegmentNumber>(SegmentOf(first))];
  EXPECT_EQ(segment.use, Segments::Use::kLog);
  EXPECT_EQ(segment.end, EndOf(last));
  EXPECT_EQ(segment.sealed, now_);
  EXPECT_EQ(segment.dead(), 0u);
}

TEST_F(ValueLogTest, WritesLeaveTheReserveAndMovesTakeIt) {
  const std::string value(kMaxSmallValueSize, 'v');
  while (Append("key", value, Head::kWrites)) {
  }
  EXPECT_EQ(segments_.free_count(), Segments::kReserve);
  EXPECT_TRUE(Append("key", value, Head::kMoves).has_value());
  EXPECT_EQ(segments_.free_count(), 0u);
}

TEST_F(ValueLogTest, FullIsFullForLargeAndNotYetForSmall) {
  const std::string value(kMaxSmallValueSize, 'v');
  while (Append("key", value)) {
  }
  const std::uint64_t used = log_.bytes_used();
  const std::uint64_t appended = log_.bytes_appended(Head::kWrites);
  EXPECT_FALSE(Append("key", value).has_value());
  EXPECT_EQ(log_.bytes_used(), used) << "a rejected record takes nothing";
  EXPECT_EQ(log_.bytes_appended(Head::kWrites), appended);
  EXPECT_EQ(log_.bytes_dead(), 0u);
  Place last = *Append("k", "");
  while (const std::optional<Place> place = Append("k", "")) last = *place;
  EXPECT_LT(Segments::EndOf(static_cast<SegmentNumber>(SegmentOf(last))) - EndOf(last), 48u)
      << "a record of 33 bytes takes 3 units";
}

// --- Taking back ----------------------------------------------------------------------------------------

TEST_F(ValueLogTest, TheLastRecordTakenBackMakesSpace) {
  const Place kept = AppendLive("kept", "value");
  const Place last = AppendSealed("last", "value", 2);
  log_.Rollback(last);
  EXPECT_EQ(log_.bytes_used(), kept.extent_bytes());
  EXPECT_EQ(log_.bytes_dead(), 0u);
  EXPECT_EQ(AppendLive("other", "bytes"), last);
  EXPECT_EQ(Check(last, "other"), RecordState::kLive);
  EXPECT_EQ(Check(kept, "kept"), RecordState::kLive);
}

TEST_F(ValueLogTest, AnEarlierRecordTakenBackIsDeadAndStays) {
  const Place earlier = AppendSealed("earlier", "value", 2);
  const Place last = AppendLive("last", "value");
  log_.Rollback(earlier);
  EXPECT_EQ(log_.bytes_dead(), earlier.extent_bytes());
  EXPECT_EQ(log_.bytes_used(), earlier.extent_bytes() + last.extent_bytes());
  EXPECT_NE(AppendLive("other", "bytes"), earlier);
  EXPECT_EQ(Check(last, "last"), RecordState::kLive);
}

TEST_F(ValueLogTest, AGroupTakenBackFromItsEndLeavesNothing) {
  std::vector<Place> group;
  for (int i = 0; i < 10; ++i) group.push_back(*Append("key", "value"));
  for (auto place = group.rbegin(); place != group.rend(); ++place) log_.Rollback(*place);
  EXPECT_EQ(log_.bytes_used(), 0u);
  EXPECT_EQ(*Append("key", "value"), group[0]);
}

TEST_F(ValueLogTest, ARecordOfOneHeadTakenBackLeavesTheOtherAlone) {
  const Place write = *Append("key", "value", Head::kWrites);
  const Place move = *Append("key", "value", Head::kMoves);
  log_.Rollback(write);
  EXPECT_EQ(*Append("key", "value", Head::kWrites), write);
  EXPECT_EQ(Append("key", "value", Head::kMoves)->offset_bytes(), EndOf(move));
}

// The first record of the group filled its segment, and the second one went into the next segment. The first
// segment is sealed, so nothing may be appended there again.
TEST_F(ValueLogTest, AGroupTakenBackAcrossSegmentsDoesNotReopenTheSealedOne) {
  const std::string value = ValueFor(kSegmentSize / 16);
  for (int i = 0; i < 15; ++i) ASSERT_TRUE(Append("key", value).has_value());
  const Place filling = *Append("key", value);
  ASSERT_EQ(EndOf(filling) % kSegmentSize, 0u);
  const Place next = *Append("key", value);
  ASSERT_EQ(next.offset_bytes(), EndOf(filling)) << "the test means the next segment";
  log_.Rollback(next);
  log_.Rollback(filling);
  EXPECT_EQ(*Append("key", value), next);
  EXPECT_EQ(log_.bytes_used(), 17 * next.extent_bytes());
  EXPECT_EQ(log_.bytes_dead(), filling.extent_bytes());
}

// --- Walking --------------------------------------------------------------------------------------------

TEST_F(ValueLogTest, AtWalksASegmentRecordByRecord) {
  std::vector<Place> places;
  for (std::size_t i = 0; places.empty() || SegmentOf(places.back()) == SegmentOf(places.front()); ++i) {
    const std::string key(1 + i * 37 % 500, 'k');
    places.push_back(AppendSealed(key, std::string(i * 7919 % 20'000, 'v'), i));
    if (i % 3 == 0) log_.MakeLive(places.back());
    if (i % 6 == 0) log_.Kill(places.back());
    if (i % 3 == 1 && i % 2 == 0) {
      log_.Rollback(places.back());
      places.pop_back();
    }
  }
  places.pop_back();  // this one is in the next segment
  ASSERT_GT(places.size(), 50u);
  std::uint64_t offset = places.front().offset_bytes();
  for (const Place& place : places) {
    ASSERT_EQ(log_.At(offset), place);
    offset += place.extent_bytes();
  }
  EXPECT_EQ(offset, segments_[static_cast<SegmentNumber>(SegmentOf(places.front()))].end);
}

TEST_F(ValueLogTest, AtKnowsARecordThatWasTakenBackBeforeItWasSealed) {
  const Place first = *Append("first", std::string(5'000, 'v'));
  const Place second = *Append("second", "value");
  log_.Rollback(first);
  EXPECT_EQ(log_.At(first.offset_bytes()), first);
  EXPECT_FALSE(log_.IsLive(first));
  EXPECT_EQ(log_.At(EndOf(first)), second);
}

TEST_F(ValueLogTest, SizesAtTheirBounds) {
  const std::string key(kMaxKeySize, 'k');
  const std::string value(kMaxSmallValueSize, 'v');
  const Place small = AppendLive("k", "");
  const Place large = AppendLive(key, value);
  EXPECT_EQ(Check(small, "k"), RecordState::kLive);
  EXPECT_EQ(Check(large, key), RecordState::kLive);
  EXPECT_EQ(log_.At(large.offset_bytes()), large);
}

}  // namespace
}  // namespace remora
