// Large records that are moved in steps, while others replace or delete them.
#include "store/reclaim/large_mover.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "store_parts.h"

namespace remora {
namespace {

constexpr std::size_t kSize = std::size_t{700} << 10;

class LargeMoverTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kPiece = 100'000;

  /// Puts two records, and leaves a hole of the size of one before them.
  void SetUp() override {
    for (const std::string key : {"low", "gone", "high"}) Put(key, 'a');
    ASSERT_TRUE(parts_.Erase("gone"));
    Settle();
    old_ = parts_.PlaceOf("low");
    value_ = parts_.ValueOf("low").value();
  }
  void Put(const std::string& key, char first) {
    std::string value(kSize, first);
    for (std::size_t i = 1; i < value.size(); ++i) value[i] = static_cast<char>(i % 251 + i / 977);
    ASSERT_TRUE(parts_.Put(key, value)) << key;
  }
  void Settle() {
    parts_.segments.StartGracePeriod(parts_.now);
    parts_.Settle();
  }
  /// Begins to move "low", and does so many steps.
  void Move(int steps) {
    ASSERT_TRUE(mover_.Begin(old_));
    for (int i = 0; i < steps; ++i) ASSERT_FALSE(Step());
  }
  bool Step() {
    std::uint64_t left = kPiece;
    const bool ended = mover_.Copy(&left);
    EXPECT_LT(left, kPiece);
    return ended;
  }
  void Finish() {
    std::uint64_t left = ~std::uint64_t{0};
    ASSERT_TRUE(mover_.Copy(&left));
    ASSERT_FALSE(mover_.is_busy());
  }
  /// Checks that the key is found, that its record verifies, and its value.
  void ExpectRead(const std::string& key, const std::string& value) {
    Reader reader(parts_, key, kFirstView);
    ASSERT_EQ(reader.Run(), KeySearch::Step::kFound);
    EXPECT_TRUE(reader.value() == value) << key;
  }

  StoreParts parts_{24};
  LargeMover mover_{parts_.segments, parts_.log, parts_.index};
  Place old_;
  std::string value_;
};

TEST_F(LargeMoverTest, AStepCopiesSoMuchAndTheRecordIsReadMeanwhile) {
  const std::uint64_t version = parts_.log.Header(old_).version_live;
  ASSERT_NO_FATAL_FAILURE(Move(0));
  std::size_t steps = 0;
  for (; !Step(); ++steps) {
    ASSERT_EQ(parts_.PlaceOf("low"), old_);
    ASSERT_NO_FATAL_FAILURE(ExpectRead("low", value_));
  }
  EXPECT_EQ(steps, kSize / kPiece);
  EXPECT_FALSE(parts_.log.IsLive(old_));
  const Place moved = parts_.PlaceOf("low");
  EXPECT_NE(moved, old_);
  EXPECT_EQ(parts_.log.Header(moved).version_live, version);
  ASSERT_NO_FATAL_FAILURE(ExpectRead("low", value_));
  EXPECT_FALSE(parts_.segments.large().AnyFixed()) << "it may be moved again";
}

TEST_F(LargeMoverTest, ARecordThatWasReplacedIsNotPublishedAgain) {
  const std::uint64_t live = parts_.segments.live_bytes();
  ASSERT_NO_FATAL_FAILURE(Move(3));
  ASSERT_NO_FATAL_FAILURE(Put("low", 'b'));
  const Place replaced = parts_.PlaceOf("low");
  ASSERT_NO_FATAL_FAILURE(Finish());
  EXPECT_EQ(parts_.PlaceOf("low"), replaced);
  EXPECT_EQ(parts_.segments.live_bytes(), live);
  EXPECT_FALSE(parts_.segments.large().AnyFixed()) << "the copy is given back";
}

TEST_F(LargeMoverTest, ARecordThatWasDeletedIsNotPublishedAgain) {
  ASSERT_NO_FATAL_FAILURE(Move(3));
  ASSERT_TRUE(parts_.Erase("low"));
  ASSERT_NO_FATAL_FAILURE(Finish());
  EXPECT_EQ(parts_.ValueOf("low"), std::nullopt);
  EXPECT_FALSE(parts_.segments.large().AnyFixed());
}

// Its memory is used anew, by a record of the same size, before the mover looks again.
TEST_F(LargeMoverTest, AnotherRecordAtTheSamePlaceIsNotTakenForIt) {
  ASSERT_NO_FATAL_FAILURE(Move(3));
  ASSERT_TRUE(parts_.Erase("low"));
  Settle();
  ASSERT_NO_FATAL_FAILURE(Put("new", 'c'));
  ASSERT_EQ(parts_.PlaceOf("new"), old_);
  const std::string value = parts_.ValueOf("new").value();
  ASSERT_NO_FATAL_FAILURE(Finish());
  EXPECT_EQ(parts_.PlaceOf("new"), old_);
  ASSERT_NO_FATAL_FAILURE(ExpectRead("new", value));
  EXPECT_FALSE(parts_.segments.large().AnyFixed());
}

TEST_F(LargeMoverTest, WithoutAHoleItDoesNotBegin) {
  for (const std::string key : {"one", "two"}) ASSERT_NO_FATAL_FAILURE(Put(key, 'd'));
  EXPECT_FALSE(mover_.Begin(old_));
  EXPECT_FALSE(mover_.is_busy());
}

// Other clients wait for one call of Work, not for the whole copy.
TEST(LargeInTheWayTest, TheCleanerMovesItInSteps) {
  StoreParts parts(40);
  const std::string value(2 * LargeMover::kStep, 'v');
  ASSERT_TRUE(parts.Put("gone", value + value));
  ASSERT_TRUE(parts.Put("in the way", value));
  ASSERT_TRUE(parts.Erase("gone"));
  parts.segments.StartGracePeriod(parts.now);
  parts.Settle();
  ASSERT_TRUE(parts.segments.MakeRun(26, parts.now)) << "which covers all but the free segments of one end";
  ASSERT_TRUE(parts.segments.LargeInWay().has_value());
  const Place old = parts.PlaceOf("in the way");
  int calls = 0;
  for (; parts.PlaceOf("in the way") == old; ++calls) {
    ASSERT_LT(calls, 10);
    parts.cleaner.Work(~std::uint64_t{0}, parts.now, 0);
  }
  EXPECT_EQ(calls, 3) << "the key and the value are longer than two steps";
  EXPECT_EQ(parts.ValueOf("in the way"), value);
  EXPECT_FALSE(parts.segments.LargeInWay().has_value());
}

}  // namespace
}  // namespace remora
