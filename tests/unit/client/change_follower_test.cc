// Tests how a client follows the log of changes.
#include "client/mirror/change_follower.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "store/index/change_log.h"

namespace remora {
namespace {

constexpr std::uint64_t kLogMemory = std::uint64_t{16} * kSegmentSize;

class ChangeFollowerTest : public testing::Test {
 protected:
  ChangeFollowerTest() : log_(region_) {}

  bool ReadCount(ChangeFollower::Stamp refreshes) {
    std::uint64_t word = 0;
    std::memcpy(&word, Region() + ChangesOffset(kLogMemory), sizeof(word));
    return follower_.TakeCount(word, refreshes);
  }
  /// READs all changes up to the count.
  bool ReadChanges() {
    while (follower_.has_changes()) {
      const std::span<const std::byte> bytes(Region() + ChangeOffset(kLogMemory, follower_.next()),
                                             follower_.changes_in_read() * sizeof(IndexChange));
      const bool is_whole =
          follower_.TakeChanges(bytes, [&](const IndexChange& change, ChangeFollower::Stamp stamp) {
            seen_.push_back(change.word);
            places_.push_back(ChangePlaceOf(change));
            stamp_ = stamp;
          });
      if (!is_whole) return false;
    }
    return true;
  }
  void Append(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t place = appended_ % 1000;
      log_.Append(place, ++appended_);
    }
  }
  std::byte* Region() { return region_.data(); }

  std::vector<std::byte> region_ = std::vector<std::byte>(kSegmentSize * 16);
  IndexChangeLog log_;
  ChangeFollower follower_;
  std::uint64_t appended_ = 0;
  std::vector<std::uint64_t> seen_;
  std::vector<std::uint64_t> places_;
  ChangeFollower::Stamp stamp_ = 0;
};

TEST_F(ChangeFollowerTest, SeesWhatIsAppendedAfterTheFirstCount) {
  Append(10);
  EXPECT_TRUE(ReadCount(1));
  EXPECT_FALSE(follower_.has_changes());
  Append(5);
  EXPECT_TRUE(ReadCount(2));
  EXPECT_TRUE(ReadChanges());
  EXPECT_EQ(seen_, (std::vector<std::uint64_t>{11, 12, 13, 14, 15}));
  EXPECT_EQ(places_.front(), 10u);
}

// M3: changes before the second count may be older than the refresh before it, but not older than the one
// before the first.
TEST_F(ChangeFollowerTest, AChangeHasTheStampOfTheCountBeforeIt) {
  EXPECT_TRUE(ReadCount(7));
  Append(1);
  EXPECT_TRUE(ReadCount(9));
  EXPECT_TRUE(ReadChanges());
  EXPECT_EQ(stamp_, 7u);
  Append(1);
  EXPECT_TRUE(ReadCount(12));
  EXPECT_TRUE(ReadChanges());
  EXPECT_EQ(stamp_, 9u);
}

TEST_F(ChangeFollowerTest, FollowsTheLogManyTimesAround) {
  EXPECT_TRUE(ReadCount(1));
  std::uint64_t expected = 0;
  for (int round = 0; round < 40; ++round) {
    Append(1 + static_cast<std::uint64_t>(round) * 37 % 3000);
    ASSERT_TRUE(ReadCount(1));
    seen_.clear();
    ASSERT_TRUE(ReadChanges());
    for (const std::uint64_t word : seen_) ASSERT_EQ(word, ++expected);
    ASSERT_EQ(expected, appended_);
  }
  EXPECT_GT(appended_, 2 * kChangeCount);
}

TEST_F(ChangeFollowerTest, NoticesThatChangesWereOverwritten) {
  EXPECT_TRUE(ReadCount(1));
  Append(kChangeCount + 1);
  EXPECT_FALSE(ReadCount(1));
  EXPECT_FALSE(follower_.has_changes());
  Append(3);
  EXPECT_TRUE(ReadCount(1));
  Append(kChangeCount);  // between the count and the changes
  EXPECT_FALSE(ReadChanges());
  EXPECT_TRUE(seen_.empty());
  Append(1);
  EXPECT_FALSE(ReadCount(1));
}

TEST_F(ChangeFollowerTest, ATornCountIsIgnored) {
  Append(255);
  EXPECT_TRUE(ReadCount(1));
  std::uint64_t before = 0;
  std::memcpy(&before, Region() + ChangesOffset(kLogMemory), sizeof(before));
  Append(1);
  std::uint64_t after = 0;
  std::memcpy(&after, Region() + ChangesOffset(kLogMemory), sizeof(after));
  for (unsigned mixture = 1; mixture < 255; ++mixture) {
    std::uint64_t word = 0;
    for (unsigned byte = 0; byte < 8; ++byte) {
      word |= ((mixture >> byte & 1) != 0 ? after : before) & std::uint64_t{0xff} << 8 * byte;
    }
    if (word == before || word == after) continue;
    EXPECT_FALSE(ChangeCountIsWhole(word)) << mixture;
    ChangeFollower follower = follower_;
    EXPECT_TRUE(follower.TakeCount(word, 2));
    EXPECT_FALSE(follower.has_changes());
  }
}

TEST_F(ChangeFollowerTest, ATornChangeIsNotTaken) {
  std::mt19937_64 random(3);
  for (std::uint64_t number = 0; number < 200; ++number) {
    const IndexChange before = EncodeChange(number, random(), random() >> 40);
    const IndexChange after = EncodeChange(number + kChangeCount, random(), random() >> 40);
    EXPECT_TRUE(ChangeIsWhole(before, number));
    EXPECT_FALSE(ChangeIsWhole(before, number + kChangeCount));
    for (int i = 0; i < 20; ++i) {
      IndexChange torn = before;
      const std::uint64_t mixture = random() % 65534 + 1;
      for (std::size_t byte = 0; byte < sizeof(IndexChange); ++byte) {
        if ((mixture >> byte & 1) == 0) continue;
        reinterpret_cast<std::byte*>(&torn)[byte] = reinterpret_cast<const std::byte*>(&after)[byte];
      }
      const bool is_one =
          std::memcmp(&torn, &before, sizeof(torn)) == 0 || std::memcmp(&torn, &after, sizeof(torn)) == 0;
      if (is_one) continue;
      EXPECT_FALSE(ChangeIsWhole(torn, number) || ChangeIsWhole(torn, number + kChangeCount));
    }
  }
}

}  // namespace
}  // namespace remora
