#include "store/value_log.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "store/format/record.h"

namespace remora {
namespace {

class ValueLogTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kIncarnation = 42;
  std::vector<std::byte> memory_ = std::vector<std::byte>(5 * ValueLog::kSegmentSize / 2);
  ValueLog log_{memory_, kIncarnation};

  RecordState Check(const Place& place, std::string_view key) const {
    return CheckRecord(log_.Header(place), log_.Body(place), key, HashKey(key),
                       {place.offset_units, place.extent_bytes(), 1, kIncarnation});
  }
  Place AppendSealed(std::string_view key, std::string_view value, std::uint64_t version) {
    const std::optional<Place> place = log_.Append(key, value);
    EXPECT_TRUE(place.has_value());
    log_.Seal(*place, key.size(), value.size(), version, HashKey(key), HashValue(value.data(), value.size()));
    return *place;
  }
};

TEST_F(ValueLogTest, ARecordLivesFromMakeLiveToKill) {
  const Place place = AppendSealed("key", "value", 7);
  EXPECT_EQ(Check(place, "key"), RecordState::kDead) << "live before it is published";
  log_.MakeLive(place);
  EXPECT_EQ(Check(place, "key"), RecordState::kLive);
  EXPECT_EQ(log_.Header(place).version_live >> 1, 7u);
  EXPECT_EQ(log_.Key(place, 3), "key");
  EXPECT_EQ(log_.Value(place, 3, 5), "value");
  log_.Kill(place);
  EXPECT_EQ(Check(place, "key"), RecordState::kDead);
  EXPECT_EQ(log_.Value(place, 3, 5), "value") << "a killed record stays readable";
}

TEST_F(ValueLogTest, UnitZeroIsNeverHandedOut) {
  EXPECT_EQ(log_.bytes_used(), kUnitSize);
  EXPECT_EQ(log_.Append("k", "")->offset_units, 1u);
}

TEST_F(ValueLogTest, CountsUsedAndDead) {
  const Place place = AppendSealed("key", "value", 7);  // 40 bytes in 3 units
  EXPECT_EQ(log_.bytes_used(), kUnitSize + 48);
  EXPECT_EQ(log_.bytes_dead(), kUnitSize);
  log_.MakeLive(place);
  log_.Kill(place);
  EXPECT_EQ(log_.bytes_used(), kUnitSize + 48);
  EXPECT_EQ(log_.bytes_dead(), kUnitSize + 48);
}

TEST_F(ValueLogTest, NoRecordCrossesASegmentBoundary) {
  const std::string value(100'000, 'v');
  std::uint64_t previous_end = kUnitSize;
  while (const std::optional<Place> place = log_.Append("key", value)) {
    const std::uint64_t begin = place->offset_units * kUnitSize;
    const std::uint64_t end = begin + place->extent_bytes();
    ASSERT_GE(begin, previous_end);
    ASSERT_EQ(begin / ValueLog::kSegmentSize, (end - 1) / ValueLog::kSegmentSize);
    ASSERT_LE(end, memory_.size());
    ASSERT_EQ(log_.bytes_used(), end);
    previous_end = end;
  }
  // Ten fit into each whole segment, five into the half one.
  EXPECT_EQ(log_.bytes_used() - log_.bytes_dead(),
            25 * ExtentUnits(RecordExtentCode(3, 100'000)) * kUnitSize);
}

TEST_F(ValueLogTest, ARecordMayEndWithItsSegment) {
  // 255 units is exact; 257 of them end at unit 65535 + 1 - 0 when they begin at unit 1.
  const std::string value(255 * kUnitSize - sizeof(RecordHeader) - 3, 'v');
  for (int i = 0; i < 257; ++i) ASSERT_TRUE(log_.Append("key", value).has_value());
  EXPECT_EQ(log_.bytes_used(), ValueLog::kSegmentSize);
  EXPECT_EQ(log_.bytes_dead(), kUnitSize) << "a gap where none is needed";
  EXPECT_EQ(log_.Append("key", value)->offset_units, ValueLog::kSegmentSize / kUnitSize);
}

TEST_F(ValueLogTest, FullIsFullForLargeAndNotYetForSmall) {
  const std::string value(kMaxValueSize, 'v');
  while (log_.Append("key", value)) {
  }
  const std::uint64_t used = log_.bytes_used();
  EXPECT_FALSE(log_.Append("key", value).has_value());
  EXPECT_EQ(log_.bytes_used(), used) << "a refused record takes nothing";
  while (log_.Append("k", "")) {
  }
  EXPECT_LT(memory_.size() - log_.bytes_used(), 48u) << "a record of 33 bytes takes 3 units";
}

TEST_F(ValueLogTest, WhatIsGivenBackIsHandedOutAgain) {
  const Place kept = AppendSealed("kept", "value", 1);
  const ValueLog::Mark mark = log_.mark();
  const Place first = AppendSealed("first", "value", 2);
  AppendSealed("second", std::string(200'000, 'v'), 3);
  log_.GiveBack(mark);
  EXPECT_EQ(log_.bytes_used(), kept.offset_units * kUnitSize + kept.extent_bytes());
  const Place again = AppendSealed("other", "bytes", 4);
  EXPECT_EQ(again.offset_units, first.offset_units);
  log_.MakeLive(again);
  EXPECT_EQ(Check(again, "other"), RecordState::kLive);
}

TEST_F(ValueLogTest, AGapIsGivenBackToo) {
  ASSERT_TRUE(log_.Append("key", std::string(900'000 % kMaxValueSize, 'v')).has_value());
  while (log_.bytes_used() + kMaxValueSize < ValueLog::kSegmentSize) {
    ASSERT_TRUE(log_.Append("key", std::string(50'000, 'v')).has_value());
  }
  const ValueLog::Mark mark = log_.mark();
  const std::uint64_t used = log_.bytes_used();
  const std::uint64_t dead = log_.bytes_dead();
  ASSERT_TRUE(log_.Append("key", std::string(kMaxValueSize, 'v')).has_value());
  ASSERT_GT(log_.bytes_dead(), dead) << "the test means to make a gap";
  log_.GiveBack(mark);
  EXPECT_EQ(log_.bytes_used(), used);
  EXPECT_EQ(log_.bytes_dead(), dead);
}

TEST_F(ValueLogTest, SizesAtTheirBounds) {
  const std::string key(kMaxKeySize, 'k');
  const std::string value(kMaxValueSize, 'v');
  const Place small = AppendSealed("k", "", 1);
  const Place large = AppendSealed(key, value, 2);
  log_.MakeLive(small);
  log_.MakeLive(large);
  EXPECT_EQ(Check(small, "k"), RecordState::kLive);
  EXPECT_EQ(Check(large, key), RecordState::kLive);
}

}  // namespace
}  // namespace remora
