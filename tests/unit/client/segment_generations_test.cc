// Tests the conclusions of a client from the generation bytes that it has READ.
#include "client/cache/segment_generations.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace remora {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kMemorySize =
    std::uint64_t{5000} * kSegmentSize;  // two chunks, one of them not whole
constexpr milliseconds kGrace{100};
constexpr TimePoint kStart{std::chrono::seconds(1000)};

class GenerationsTest : public testing::Test {
 protected:
  /// Takes a look at the first chunk, in which all bytes are 0 except that of segment 7.
  void Look(std::uint8_t byte, TimePoint posted, Duration took = milliseconds(0)) {
    std::vector<std::byte> bytes(generations_.RangeOf(7).size);
    bytes[7] = std::byte(byte);
    generations_.Take(7, bytes, posted, posted + took);
  }

  SegmentGenerations generations_{kMemorySize, kGrace};
};

TEST_F(GenerationsTest, NothingIsFreshBeforeTheFirstLook) {
  EXPECT_FALSE(generations_.IsFresh(0, TimePoint()));
  EXPECT_FALSE(generations_.IsFresh(4999, kStart));
}

TEST_F(GenerationsTest, ALookStaysFreshForTheGracePeriodLessTheClocksError) {
  Look(0, kStart);
  EXPECT_TRUE(generations_.IsFresh(7, kStart));
  EXPECT_TRUE(generations_.IsFresh(7, kStart + kGrace - Clock::kCoarseness));
  EXPECT_FALSE(generations_.IsFresh(7, kStart + kGrace - Clock::kCoarseness + milliseconds(1)));
}

TEST_F(GenerationsTest, ALookIsAsOldAsItsPost) {
  Look(0, kStart, /*took=*/milliseconds(70));
  EXPECT_FALSE(generations_.IsFresh(7, kStart + milliseconds(81)));
}

// Even the shortest grace period that a server may have leaves a margin on both sides.
TEST_F(GenerationsTest, AShortGracePeriodIsHalved) {
  SegmentGenerations generations(kMemorySize, Clock::kCoarseness);
  generations.Take(0, std::vector<std::byte>(generations.RangeOf(0).size), kStart, kStart);
  EXPECT_TRUE(generations.IsFresh(0, kStart + milliseconds(10)));
  EXPECT_FALSE(generations.IsFresh(0, kStart + milliseconds(11)));
}

TEST_F(GenerationsTest, ALookIsDueBeforeNumbersWouldHaveToChange) {
  EXPECT_FALSE(generations_.HasNumber(7));
  EXPECT_TRUE(generations_.RefreshIsDue(7, TimePoint()));
  Look(0, kStart);
  EXPECT_TRUE(generations_.HasNumber(7));
  EXPECT_FALSE(generations_.HasNumber(4096));
  EXPECT_FALSE(generations_.RefreshIsDue(7, kStart + 128 * kGrace));
  EXPECT_TRUE(generations_.RefreshIsDue(7, kStart + 129 * kGrace));
}

TEST_F(GenerationsTest, ALookCoversItsChunkAndNoOther) {
  Look(0, kStart);
  EXPECT_EQ(generations_.RangeOf(7).offset, GenerationsOffset(kMemorySize));
  EXPECT_EQ(generations_.RangeOf(7).size, 4096u);
  EXPECT_EQ(generations_.RangeOf(4096).offset, GenerationsOffset(kMemorySize) + 4096);
  EXPECT_EQ(generations_.RangeOf(4999).size, 5000u - 4096u);
  EXPECT_TRUE(generations_.IsFresh(4095, kStart));
  EXPECT_FALSE(generations_.IsFresh(4096, kStart));
}

TEST_F(GenerationsTest, AnotherByteIsAnotherNumberForThatSegmentAlone) {
  Look(0, kStart);
  const SegmentGenerations::Number seven = generations_.NumberOf(7);
  const SegmentGenerations::Number eight = generations_.NumberOf(8);
  Look(0, kStart + milliseconds(1));
  EXPECT_EQ(generations_.NumberOf(7), seven);
  Look(1, kStart + milliseconds(2));
  EXPECT_NE(generations_.NumberOf(7), seven);
  EXPECT_EQ(generations_.NumberOf(8), eight);
}

TEST_F(GenerationsTest, AByteThatComesBackIsANewNumber) {
  Look(0, kStart);
  const SegmentGenerations::Number first = generations_.NumberOf(7);
  Look(1, kStart + milliseconds(1));
  Look(0, kStart + milliseconds(2));
  EXPECT_NE(generations_.NumberOf(7), first);
}

TEST_F(GenerationsTest, AByteThatMayHaveComeAllTheWayRoundIsANewNumber) {
  Look(0, kStart);
  const SegmentGenerations::Number first = generations_.NumberOf(7);
  Look(0, kStart + 256 * kGrace);
  EXPECT_EQ(generations_.NumberOf(7), first);
  Look(0, kStart + 2 * 256 * kGrace, /*took=*/milliseconds(1));
  EXPECT_NE(generations_.NumberOf(7), first);
}

// G7: two refreshes overlapped, and the one that saw the earlier state is taken last. A place with a proof
// from before both is no longer valid, nor does it become so again.
TEST_F(GenerationsTest, OfTwoLooksThatOverlapEitherMayComeFirst) {
  Look(0, kStart);
  const SegmentGenerations::Number proof = generations_.count();
  Look(1, kStart + milliseconds(2), milliseconds(2));
  EXPECT_FALSE(generations_.IsUnchangedSince(7, proof));
  Look(0, kStart + milliseconds(1), milliseconds(5));
  EXPECT_FALSE(generations_.IsUnchangedSince(7, proof));
  EXPECT_TRUE(generations_.IsUnchangedSince(8, proof));
  EXPECT_FALSE(generations_.IsFresh(7, kStart + kGrace + milliseconds(2) - Clock::kCoarseness));
}

TEST_F(GenerationsTest, OneCallerInAWhileIsToLook) {
  EXPECT_TRUE(generations_.Claim(7, kStart, milliseconds(4)));
  EXPECT_FALSE(generations_.Claim(7, kStart, milliseconds(4)));
  EXPECT_FALSE(generations_.Claim(8, kStart + milliseconds(3), milliseconds(4)));
  EXPECT_TRUE(generations_.Claim(4096, kStart, milliseconds(4))) << "of another chunk";
  EXPECT_TRUE(generations_.Claim(7, kStart + milliseconds(4), milliseconds(4)));
}

}  // namespace
}  // namespace remora
