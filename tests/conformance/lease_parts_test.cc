// The parts of leases that do no I/O: Q1 to Q3, Q5 to Q7 (store/format/memory/lease_line.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "client/session/read_lease.h"
#include "server/replication/follower_support.h"
#include "server/replication/lease_rounds.h"
#include "store/format/memory/lease_line.h"
#include "tests/support/manual_clock.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kIncarnation = 77;
constexpr milliseconds kLease{800};  // T

LeaseLine Line(std::uint64_t begun, std::uint64_t done, std::uint64_t epoch = 3) {
  return {.epoch = epoch, .begun = begun, .done = done, .lease_ms = 800, .reserved = {}, .checksum = 0};
}

class LeaseTimes : public testing::Test {
 protected:
  TimePoint At(int ms) const { return clock_.Now() + milliseconds(ms); }

  const ManualClock clock_{};
};

// --- The line -------------------------------------------------------------------------------------------

std::vector<std::byte> Stored(const LeaseLine& line) {
  std::vector<std::byte> region(kSuperblockSize);
  StoreLeaseLine(line, kIncarnation, region);
  return {region.begin() + kLeaseLineOffset, region.end()};
}

LeaseLine Read(const std::vector<std::byte>& bytes) {
  LeaseLine line{};
  std::memcpy(&line, bytes.data(), sizeof(line));
  return line;
}

TEST(LeaseLineTest, AMixtureOfTwoLinesIsNotTaken) {  // Q1
  const std::vector<std::byte> before = Stored(Line(300, 299)), after = Stored(Line(511, 511));
  EXPECT_TRUE(ReadLease::IsWhole(Read(before), kIncarnation));
  EXPECT_TRUE(ReadLease::IsWhole(Read(after), kIncarnation));
  int mixtures = 0;
  for (std::size_t begin = 0; begin < before.size(); ++begin) {
    for (std::size_t end = begin + 1; end <= before.size(); ++end) {
      std::vector<std::byte> mixed = before;
      std::copy(after.begin() + static_cast<std::ptrdiff_t>(begin),
                after.begin() + static_cast<std::ptrdiff_t>(end),
                mixed.begin() + static_cast<std::ptrdiff_t>(begin));
      if (mixed == before || mixed == after) continue;
      ++mixtures;
      EXPECT_FALSE(ReadLease::IsWhole(Read(mixed), kIncarnation)) << begin << " " << end;
    }
  }
  EXPECT_GT(mixtures, 500);
}

TEST(LeaseLineTest, ALineOfAnotherIncarnationIsNotTaken) {  // Q1
  EXPECT_FALSE(ReadLease::IsWhole(Read(Stored(Line(5, 5))), kIncarnation + 1));
  EXPECT_FALSE(ReadLease::IsWhole(LeaseLine{}, kIncarnation));
}

TEST(LeaseLineTest, ALineOutOfBoundsIsNotTaken) {
  const auto is_whole = [](LeaseLine line) { return ReadLease::IsWhole(Read(Stored(line)), kIncarnation); };
  EXPECT_FALSE(is_whole(Line(5, 6)));
  EXPECT_FALSE(is_whole(Line(5, 3)));
  LeaseLine line = Line(5, 5);
  line.lease_ms = 0;
  EXPECT_FALSE(is_whole(line));
  line.lease_ms = ~std::uint64_t{0};
  EXPECT_FALSE(is_whole(line));
}

// --- The primary ----------------------------------------------------------------------------------------

class LeaseRoundsTest : public LeaseTimes {};

TEST_F(LeaseRoundsTest, RoundsFollowEachOther) {  // Q2
  LeaseRounds rounds(3, kLease);
  EXPECT_TRUE(rounds.Begin(At(0)));
  EXPECT_EQ(rounds.line(), Line(1, 0));
  EXPECT_FALSE(rounds.Begin(At(500))) << "one is in progress";
  EXPECT_EQ(rounds.next(), std::nullopt);
  EXPECT_TRUE(rounds.End(1));
  EXPECT_EQ(rounds.line(), Line(1, 1));
  EXPECT_EQ(rounds.next(), At(100));
  EXPECT_FALSE(rounds.Begin(At(99)));
  EXPECT_TRUE(rounds.Begin(At(100)));
  EXPECT_EQ(rounds.line(), Line(2, 1));
}

TEST_F(LeaseRoundsTest, ARoundEndsWhenAllFollowersHaveAnsweredIt) {  // Q3
  LeaseRounds rounds(3, kLease);
  EXPECT_FALSE(rounds.End(9));
  EXPECT_TRUE(rounds.Begin(At(0)));
  EXPECT_FALSE(rounds.End(0));
  EXPECT_EQ(rounds.done(), 0);
  EXPECT_TRUE(rounds.End(1));
  EXPECT_TRUE(rounds.Begin(At(100)));
  EXPECT_FALSE(rounds.End(1)) << "that was the answer to the round before";
}

TEST_F(LeaseRoundsTest, AnAwaitedRoundBeginsBehindTheRequest) {
  LeaseRounds rounds(3, kLease);
  EXPECT_TRUE(rounds.Begin(At(0)));
  EXPECT_EQ(rounds.Await(), 2) << "the round in progress had begun before";
  EXPECT_FALSE(rounds.Begin(At(0)));
  EXPECT_TRUE(rounds.End(1));
  EXPECT_LT(*rounds.next(), At(0));
  EXPECT_TRUE(rounds.Begin(At(0))) << "it is due at once";
  EXPECT_TRUE(rounds.End(2));
  EXPECT_FALSE(rounds.Begin(At(0))) << "nobody waits any more";
}

// --- The follower ---------------------------------------------------------------------------------------

class FollowerSupportTest : public LeaseTimes {};

TEST_F(FollowerSupportTest, EndsTBehindTheStartAndBehindTheLastAnswer) {  // Q5
  FollowerSupport support(kLease, At(0));
  EXPECT_EQ(support.ends_at(), At(800));
  support.NoteAnswer(At(300));
  EXPECT_EQ(support.ends_at(), At(1100));
  support.NoteAnswer(At(200));
  EXPECT_EQ(support.ends_at(), At(1100)) << "it never goes back";
}

// --- The client -----------------------------------------------------------------------------------------

class ReadLeaseTest : public LeaseTimes {
 protected:
  void Begin(std::uint64_t begun, std::uint64_t done) { ASSERT_TRUE(lease_.Begin(Line(begun, done), At(0))); }

  ReadLease lease_;
};

TEST_F(ReadLeaseTest, BeginsAtTheFirstLookAndLastsThreeQuarters) {  // Q6, Q7
  Begin(5, 5);
  EXPECT_FALSE(lease_.Holds(At(0)));
  EXPECT_FALSE(lease_.Covers(At(0)));
  EXPECT_TRUE(lease_.Take(Line(6, 6), At(250)));
  EXPECT_TRUE(lease_.Holds(At(250)));
  EXPECT_TRUE(lease_.Holds(At(599)));
  EXPECT_FALSE(lease_.Holds(At(600)));
}

TEST_F(ReadLeaseTest, ARoundThatHadBegunBeforeTheFirstLookDoesNotCount) {  // Q6
  Begin(6, 5);
  EXPECT_TRUE(lease_.Take(Line(6, 6), At(10)));
  EXPECT_FALSE(lease_.Holds(At(10)));
  EXPECT_TRUE(lease_.Take(Line(7, 6), At(20)));
  EXPECT_FALSE(lease_.Holds(At(20))) << "the round has not ended";
  EXPECT_TRUE(lease_.Take(Line(7, 7), At(30)));
  EXPECT_TRUE(lease_.Holds(At(599))) << "the first look is still the earlier one";
  EXPECT_FALSE(lease_.Holds(At(600)));
}

TEST_F(ReadLeaseTest, ALaterLeaseBeginsAtTheNextLook) {
  Begin(5, 5);
  EXPECT_TRUE(lease_.Take(Line(6, 6), At(200)));
  EXPECT_TRUE(lease_.Take(Line(8, 8), At(400)));
  EXPECT_TRUE(lease_.Holds(At(799)));
  EXPECT_FALSE(lease_.Holds(At(800)));
}

TEST_F(ReadLeaseTest, ALookThatIsTooOldIsReplaced) {
  Begin(5, 5);
  EXPECT_TRUE(lease_.IsLookOfUse(At(599)));
  EXPECT_FALSE(lease_.IsLookOfUse(At(600)));
  EXPECT_TRUE(lease_.Take(Line(5, 5), At(700)));
  EXPECT_TRUE(lease_.IsLookOfUse(At(700)));
  EXPECT_TRUE(lease_.Take(Line(6, 6), At(800)));
  EXPECT_TRUE(lease_.Holds(At(1299)));
  EXPECT_FALSE(lease_.Holds(At(1300)));
}

TEST_F(ReadLeaseTest, AnAnswerTakesALeaseFromTheRequestOn) {  // Q6
  Begin(5, 5);
  lease_.TakeAnswer(At(100));
  EXPECT_TRUE(lease_.Holds(At(699)));
  EXPECT_FALSE(lease_.Holds(At(700)));
  lease_.TakeAnswer(At(50));
  EXPECT_TRUE(lease_.Holds(At(699))) << "it never becomes shorter";
}

TEST_F(ReadLeaseTest, ALookIsDueWellBeforeTheEnd) {
  Begin(5, 5);
  lease_.TakeAnswer(At(0));
  EXPECT_TRUE(lease_.Covers(At(199)));
  EXPECT_FALSE(lease_.Covers(At(200))) << "four looks in T";
  EXPECT_TRUE(lease_.Take(Line(5, 5), At(200)));
  EXPECT_TRUE(lease_.Covers(At(249)));
  EXPECT_FALSE(lease_.Covers(At(250))) << "the look showed nothing new";
  EXPECT_TRUE(lease_.Take(Line(5, 5), At(570)));
  EXPECT_TRUE(lease_.Covers(At(579)));
  EXPECT_FALSE(lease_.Covers(At(580))) << "a coarse clock may be late by 20 ms";
}

TEST_F(ReadLeaseTest, ALineOfAnotherReignEndsIt) {  // adversarial: a line that goes back, or changes
  const std::array<LeaseLine, 5> others = {Line(6, 6, 4), Line(6, 6, 2), Line(6, 6, 0), Line(4, 4),
                                           Line(5, 4)};
  for (const LeaseLine& other : others) {
    Begin(5, 5);
    EXPECT_FALSE(lease_.Take(other, At(100)));
    EXPECT_FALSE(lease_.Holds(At(100)));
  }
  Begin(5, 5);
  LeaseLine longer = Line(6, 6);
  longer.lease_ms = 9000;
  EXPECT_FALSE(lease_.Take(longer, At(100)));
  EXPECT_FALSE(lease_.Begin(Line(5, 5, 0), At(0)));
}

}  // namespace
}  // namespace remora
