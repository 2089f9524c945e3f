// Tests how the sessions of a mirror share its READs, and which sessions have the same mirror.
#include "client/mirror/index_mirror.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/mirror/shared_mirrors.h"
#include "client/session/address_choice.h"
#include "store/format/memory/change_log.h"
#include "tests/support/manual_clock.h"

namespace remora {
namespace {

using std::chrono::milliseconds;

constexpr StoreShape kShape{
    .memory_size = std::uint64_t{100} * kSegmentSize, .incarnation = 7, .base_depth = 6};
constexpr milliseconds kMirrorGrace{100};
constexpr std::size_t kMirrorBytes = std::size_t{1} << 20;
constexpr std::uint64_t kBulkBuckets = 1024;

class IndexMirrorTest : public testing::Test {
 protected:
  IndexMirrorTest() {
    server_.TakeStore(kShape, kMirrorGrace, 6, 0);
    Look();
    TakeRetired(&retired_, std::byte{0});
  }

  void Look() {
    const std::vector<std::byte> bytes(SegmentCount(kShape.memory_size));
    mirror_.generations().Take(0, bytes, now_, now_);
  }
  /// Has a session READ the retired segments: all of them, or none.
  void TakeRetired(RetiredSegments* retired, std::byte byte) {
    retired->Take(0, std::vector<std::byte>(mirror_.RetiredRange(0).size, byte),
                  mirror_.generations().count());
  }
  void TakeBasis(std::uint64_t count = 0) {
    mirror_.TakeBasis(EncodeChangeCount(count), mirror_.generations().count(), retired_, now_);
  }
  std::optional<IndexMirror::Range> NextRead(IndexMirror::User& user) {
    return mirror_.NextRead(user, now_, region_);
  }
  void TakeCount(IndexMirror::User& user, std::uint64_t count) {
    const std::uint64_t word = EncodeChangeCount(count);
    mirror_.Take(user, std::as_bytes(std::span(&word, 1)), now_, region_);
  }

  TimePoint now_{std::chrono::seconds(1000)};
  ManualClock clock_;
  ServerView server_{clock_};
  SessionBuffers buffers_;
  ClientCounters counters_;
  RegionReader region_{buffers_, server_, counters_};
  IndexMirror mirror_{kShape, kMirrorGrace, kMirrorBytes};
  RetiredSegments retired_{kShape.memory_size};
  IndexMirror::User first_, second_;
};

TEST_F(IndexMirrorTest, OneSessionAtATimeReadsForAll) {
  TakeBasis();
  EXPECT_FALSE(NextRead(first_));
  now_ += kMirrorGrace;
  const auto read = NextRead(first_);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->offset, ChangesOffset(kShape.memory_size));
  EXPECT_FALSE(NextRead(second_));
  EXPECT_EQ(mirror_.Find(7, 7).word, 0u);  // asks for the bucket's group
  EXPECT_FALSE(NextRead(second_));
  TakeCount(first_, 0);
  EXPECT_FALSE(NextRead(second_));
  now_ += kMirrorGrace;
  EXPECT_TRUE(NextRead(second_));
  EXPECT_FALSE(NextRead(first_));
}

TEST_F(IndexMirrorTest, ASessionThatStopsInTheMiddleHoldsNobodyUp) {
  TakeBasis();
  now_ += kMirrorGrace;
  ASSERT_TRUE(NextRead(first_));
  now_ += kMirrorGrace;
  ASSERT_TRUE(NextRead(second_));
  TakeCount(first_, 3);  // late: it has no ticket any more
  EXPECT_FALSE(NextRead(first_));
  TakeCount(second_, 5);
  const auto changes = NextRead(first_);
  ASSERT_TRUE(changes);
  EXPECT_EQ(changes->offset, ChangeOffset(kShape.memory_size, 0));
  EXPECT_EQ(changes->size, 5 * sizeof(IndexChange));
}

TEST_F(IndexMirrorTest, ASessionThatGaveUpItsReadMakesAnotherAtOnce) {
  TakeBasis();
  now_ += kMirrorGrace;
  ASSERT_TRUE(NextRead(first_));
  ASSERT_TRUE(NextRead(first_));
  TakeCount(first_, 5);
  EXPECT_TRUE(NextRead(second_));
}

TEST_F(IndexMirrorTest, NobodyReadsForItBeforeItHasItsBasis) {
  EXPECT_TRUE(mirror_.LacksBasis());
  now_ += std::chrono::hours(1);
  EXPECT_FALSE(NextRead(first_));
  TakeBasis(4);
  EXPECT_FALSE(mirror_.LacksBasis());
  TakeBasis(9);  // of a session that began at the same time
  now_ += kMirrorGrace;
  ASSERT_TRUE(NextRead(first_));
  TakeCount(first_, 5);
  EXPECT_EQ(NextRead(first_)->size, sizeof(IndexChange));
}

TEST_F(IndexMirrorTest, TheBytesThatAllSessionsEarnPayForTheReadsOfOne) {
  TakeBasis();
  // 64 KiB at once: 16 READs of 4 KiB.
  std::uint64_t count = 0;
  int reads = 0;
  const auto read_all = [&] {
    for (;; count += 256) {
      now_ += kMirrorGrace;
      if (!NextRead(first_)) return;
      TakeCount(first_, count + 256);
      if (!NextRead(first_)) return;
      std::vector<IndexChange> changes;
      for (std::uint64_t i = 0; i < 256; ++i) changes.push_back(EncodeChange(count + i, 0, 0));
      mirror_.Take(first_, std::as_bytes(std::span(changes)), now_, region_);
      ++reads;
    }
  };
  read_all();
  EXPECT_EQ(reads, 15);  // and the counts
  second_.Earn(100 * 4096);
  EXPECT_TRUE(NextRead(second_));
}

TEST_F(IndexMirrorTest, SessionsThatConnectAtATimeShareTheBuckets) {
  constexpr std::uint64_t kEnd = 3 * kBulkBuckets;
  const auto first = mirror_.Claim(kBulkBuckets, kEnd), second = mirror_.Claim(kBulkBuckets, kEnd);
  EXPECT_EQ(first->first, 0u);
  EXPECT_EQ(second->first, kBulkBuckets);
  EXPECT_EQ(second->count, kBulkBuckets);
  mirror_.GiveBack(kBulkBuckets);
  EXPECT_EQ(mirror_.Claim(kBulkBuckets, kEnd)->first, kBulkBuckets);
  EXPECT_EQ(mirror_.Claim(kBulkBuckets, kEnd)->first, 2 * kBulkBuckets);
  EXPECT_FALSE(mirror_.Claim(kBulkBuckets, kEnd));
  // The index has grown meanwhile, by a part of a group.
  EXPECT_EQ(mirror_.Claim(kBulkBuckets, kEnd + 5)->count, 5u);
  EXPECT_FALSE(mirror_.Claim(kBulkBuckets, kEnd + 5));
  const auto rest = mirror_.Claim(kBulkBuckets, std::uint64_t{1} << 40);
  EXPECT_EQ(rest->first, kEnd + MirrorFrames::kBuckets);
  EXPECT_EQ(rest->first + rest->count, 4 * kBulkBuckets);
}

TEST_F(IndexMirrorTest, NoMoreBucketsAreReadThanThereAreFramesFor) {
  std::uint64_t buckets = 0;
  while (const auto claimed = mirror_.Claim(kBulkBuckets, std::uint64_t{1} << 40)) buckets += claimed->count;
  EXPECT_EQ(buckets, mirror_.frames().capacity() * MirrorFrames::kBuckets);
}

TEST_F(IndexMirrorTest, ASessionLearnsHowFarTheIndexHadGrown) {
  TakeBasis();
  std::vector<Bucket> buckets(MirrorFrames::kBuckets);
  buckets[3].control = EncodeControl(8, 0);
  mirror_.TakeBuckets(0, buckets, retired_);
  EXPECT_EQ(mirror_.view().level, 7u);
  EXPECT_EQ(mirror_.view().split, 4u);
}

// While it READs buckets, a retired segment may be released, and another session may see that: M2 says
// nothing of the slots then.
TEST_F(IndexMirrorTest, ASlotIsJudgedByWhatItsOwnSessionSawBefore) {  // M2
  const std::uint64_t word = EncodeSlot({9, ExtentCode(4), 5 * kSegmentSize / kUnitSize});
  std::vector<Bucket> buckets(MirrorFrames::kBuckets);
  buckets[3].slots[0] = word;
  RetiredSegments before{kShape.memory_size};
  TakeRetired(&before, std::byte{1});
  Look();
  TakeRetired(&retired_, std::byte{0});
  TakeBasis();
  mirror_.TakeBuckets(0, buckets, before);
  EXPECT_EQ(mirror_.frames().CountSlots(), 0u);
  mirror_.TakeBuckets(0, buckets, retired_);
  EXPECT_EQ(mirror_.frames().CountSlots(), 1u);
}

class SharedMirrorsTest : public testing::Test {
 protected:
  ManualClock clock_;
  const MirrorKey key_{.address = "tcp://a:1",
                       .incarnation = 7,
                       .memory_size = kShape.memory_size,
                       .base_depth = 6,
                       .grace = kMirrorGrace,
                       .bytes = 10'000,
                       .clock = &clock_,
                       .forks = 0};
};

TEST_F(SharedMirrorsTest, SessionsOfOneServerHaveOneUntilTheLastEnds) {
  std::shared_ptr<IndexMirror> one = SharedMirrors::Join(key_, nullptr);
  std::shared_ptr<IndexMirror> other = SharedMirrors::Join(key_, nullptr);
  EXPECT_EQ(one, other);
  const std::weak_ptr<IndexMirror> watched = one;
  one = SharedMirrors::Join(key_, std::move(one));  // connected again
  EXPECT_EQ(one, other);
  one.reset();
  EXPECT_EQ(SharedMirrors::Join(key_, nullptr), other);
  other.reset();
  EXPECT_TRUE(watched.expired());
  const std::shared_ptr<IndexMirror> anew = SharedMirrors::Join(key_, nullptr);
  EXPECT_TRUE(anew->LacksBasis());
}

TEST_F(SharedMirrorsTest, SessionsThatDifferHaveTheirOwn) {
  const std::shared_ptr<IndexMirror> one = SharedMirrors::Join(key_, nullptr);
  const ManualClock another_clock;
  std::array<MirrorKey, 8> others;
  others.fill(key_);
  others[0].address = "tcp://b:1";
  others[1].incarnation = 8;
  others[2].memory_size *= 2;
  others[3].base_depth = 7;
  others[4].grace *= 2;
  others[5].bytes += 1;
  others[6].clock = &another_clock;
  others[7].forks = 1;
  for (const MirrorKey& other : others) EXPECT_NE(SharedMirrors::Join(other, nullptr), one);
}

TEST_F(SharedMirrorsTest, OneOfAServerThatIsGoneEndsBeforeTheNextIsMade) {
  std::shared_ptr<IndexMirror> mirror = SharedMirrors::Join(key_, nullptr);
  const std::weak_ptr<IndexMirror> before = mirror;
  MirrorKey restarted = key_;
  restarted.incarnation = 8;
  mirror = SharedMirrors::Join(restarted, std::move(mirror));
  EXPECT_TRUE(before.expired());
  EXPECT_NE(mirror, nullptr);
}

TEST(AddressOfADialer, IsTheOneThatItDialsNow) {
  ManualClock clock;
  EXPECT_EQ(AddressOf(AddressChoice::Of("tcp://a:1", {}, clock)->MakeDialer().value()), "tcp://a:1");
  const Dialer list = AddressChoice::Of("tcp://a:1,tcp://b:2", {}, clock)->MakeDialer().value();
  EXPECT_EQ(AddressOf(list), "tcp://a:1");
  PassOn(list);
  EXPECT_EQ(AddressOf(list), "tcp://b:2");
  EXPECT_EQ(AddressOf([](TimePoint) { return absl::UnavailableError("none"); }), "");
  EXPECT_EQ(AddressOf(Dialer()), "");
}

}  // namespace
}  // namespace remora
