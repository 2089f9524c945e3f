// Tests which slots a client's mirror of the index keeps (M1 to M5 of client/mirror/mirror_frames.h).
#include "client/mirror/mirror_frames.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace remora {
namespace {

constexpr std::uint64_t kMirrorMemory = std::uint64_t{100} * kSegmentSize;
constexpr TimePoint kFirstRefresh{std::chrono::seconds(1000)};
constexpr std::uint32_t kDepth = 6;
constexpr std::uint64_t kSegment = 7;

std::uint64_t WordIn(std::uint64_t segment, std::uint32_t fingerprint, std::uint64_t number = 0) {
  return EncodeSlot({fingerprint, ExtentCode(4), segment * kSegmentSize / kUnitSize + number * 4});
}

class MirrorFramesTest : public testing::Test {
 protected:
  MirrorFramesTest() { Refresh(); }

  /// Makes a refresh that shows the current generations.
  void Refresh() { generations_.Take(0, bytes_, kFirstRefresh, kFirstRefresh); }
  void Empty(std::uint64_t segment) {
    bytes_[segment] = std::byte(std::to_integer<unsigned>(bytes_[segment]) + 1);
  }
  /// READs which segments are retired.
  void ReadRetired(std::vector<std::uint64_t> segments = {}) {
    std::vector<std::byte> shown(SegmentCount(kMirrorMemory));
    for (const std::uint64_t segment : segments) shown[segment] = std::byte{1};
    retired_.Take(0, shown, generations_.count());
  }
  /// Fills group 0, all of whose buckets have this content.
  bool Fill(const Bucket& bucket, std::uint32_t depth = kDepth, std::uint64_t group = 0) {
    const std::vector<Bucket> buckets(MirrorFrames::kBuckets, bucket);
    return frames_.Fill({group, buckets, depth}, retired_, generations_);
  }
  static Bucket WithSlots(const std::vector<std::uint64_t>& words) {
    Bucket bucket{};
    for (std::size_t i = 0; i < words.size(); ++i) bucket.slots[3 * i] = words[i];
    return bucket;
  }
  std::uint64_t Find(std::uint64_t bucket, std::uint32_t fingerprint) {
    return frames_.Find(bucket, fingerprint, generations_).word;
  }
  void Add(std::uint64_t bucket, std::uint64_t word, MirrorFrames::Same same = MirrorFrames::Same::kReplace) {
    frames_.Add(bucket, word, same, generations_.count(), generations_);
  }

  std::vector<std::byte> bytes_ = std::vector<std::byte>(SegmentCount(kMirrorMemory));
  SegmentGenerations generations_{kMirrorMemory, std::chrono::milliseconds(100)};
  RetiredSegments retired_{kMirrorMemory};
  MirrorFrames frames_{std::size_t{1} << 20};
};

TEST_F(MirrorFramesTest, ABulkReadGivesTheSlotsOfRecordsThatOneReadGets) {
  ReadRetired();
  const std::uint64_t large = EncodeSlot({4, RecordExtentCode(8, 2 * kMaxSmallValueSize), 1 << 20});
  const std::uint64_t cold = EncodeColdSlot(std::uint64_t{5} << 52);
  const std::uint64_t outside = EncodeSlot({6, ExtentCode(4), kMirrorMemory / kUnitSize});
  ASSERT_TRUE(Fill(WithSlots({WordIn(kSegment, 3), large, cold, outside})));
  for (std::uint64_t bucket = 0; bucket < MirrorFrames::kBuckets; ++bucket) {
    EXPECT_EQ(Find(bucket, 3), WordIn(kSegment, 3));
    for (const std::uint32_t fingerprint : {2u, 4u, 5u, 6u}) EXPECT_EQ(Find(bucket, fingerprint), 0u);
  }
  EXPECT_EQ(frames_.CountSlots(), MirrorFrames::kBuckets);
  EXPECT_EQ(Find(MirrorFrames::kBuckets, 3), 0u);
}

TEST_F(MirrorFramesTest, SlotsOfRetiredSegmentsAreLeftOut) {
  Empty(kSegment);
  Refresh();
  ReadRetired({kSegment});
  ASSERT_TRUE(Fill(WithSlots({WordIn(kSegment, 3), WordIn(kSegment + 1, 4)})));
  EXPECT_EQ(Find(0, 3), 0u);
  EXPECT_EQ(Find(0, 4), WordIn(kSegment + 1, 4));
}

TEST_F(MirrorFramesTest, WithoutAReadOfRetiredSegmentsNothingIsTaken) {
  ASSERT_TRUE(Fill(WithSlots({WordIn(kSegment, 3)})));
  EXPECT_EQ(Find(0, 3), 0u);
}

TEST_F(MirrorFramesTest, ASegmentThatChangedAfterTheReadOfRetiredSegmentsIsLeftOut) {
  ReadRetired();
  Empty(kSegment);
  Refresh();
  ASSERT_TRUE(Fill(WithSlots({WordIn(kSegment, 3)})));
  EXPECT_EQ(Find(0, 3), 0u);
}

TEST_F(MirrorFramesTest, SlotsGoWhenARefreshShowsThatTheirSegmentWasEmptied) {
  ReadRetired();
  ASSERT_TRUE(Fill(WithSlots({WordIn(kSegment, 3), WordIn(kSegment + 1, 4), WordIn(kSegment, 5)})));
  Empty(kSegment);
  EXPECT_EQ(Find(0, 3), WordIn(kSegment, 3));
  Refresh();
  EXPECT_EQ(Find(0, 3), 0u);
  EXPECT_EQ(Find(0, 4), WordIn(kSegment + 1, 4));
  EXPECT_EQ(Find(15, 5), 0u);
  // The next change of the frame takes them out.
  Add(15, WordIn(kSegment + 1, 6));
  EXPECT_EQ(frames_.CountSlots(), MirrorFrames::kBuckets + 1);
}

TEST_F(MirrorFramesTest, ASlotWithAnOldProofDoesNotComeIntoASegmentThatChangedSince) {
  ReadRetired();
  ASSERT_TRUE(Fill(Bucket{}));
  const MirrorFrames::Stamp before = generations_.count();
  Empty(kSegment);
  Refresh();
  frames_.Add(0, WordIn(kSegment, 3), MirrorFrames::Same::kReplace, before, generations_);
  EXPECT_EQ(Find(0, 3), 0u);
  Add(0, WordIn(kSegment, 3));
  EXPECT_EQ(Find(0, 3), WordIn(kSegment, 3));
}

// A number that the segment has later has no proof: a reader that took it would trust the place again.
TEST_F(MirrorFramesTest, ASlotComesWithANumberThatItsProofHas) {
  ReadRetired();
  ASSERT_TRUE(Fill(WithSlots({WordIn(kSegment, 3)})));
  const MirrorFrames::Stamp filled = generations_.count();
  Empty(kSegment + 1);
  Refresh();
  Add(0, WordIn(kSegment + 1, 4));
  EXPECT_EQ(frames_.Find(0, 3, generations_).number, filled);
  EXPECT_EQ(frames_.Find(0, 4, generations_).number, generations_.count());
}

// The frame was not looked at for some refreshes. The new slot must not make its old ones valid again.
TEST_F(MirrorFramesTest, ANewSlotDoesNotRenewTheOthers) {
  ReadRetired();
  ASSERT_TRUE(Fill(WithSlots({WordIn(kSegment, 3)})));
  Empty(kSegment);
  Refresh();
  Add(0, WordIn(kSegment, 4, 1));
  EXPECT_EQ(Find(0, 3), 0u);
  EXPECT_EQ(Find(0, 4), WordIn(kSegment, 4, 1));
}

TEST_F(MirrorFramesTest, ANewSlotReplacesTheOneOfItsFingerprintIfThatIsAlone) {
  ReadRetired();
  ASSERT_TRUE(Fill(WithSlots({WordIn(kSegment, 3), WordIn(kSegment, 4)})));
  Add(2, WordIn(kSegment, 3, 1));
  EXPECT_EQ(Find(2, 3), WordIn(kSegment, 3, 1));
  frames_.Drop(2, WordIn(kSegment, 3, 1));
  EXPECT_EQ(Find(2, 3), 0u);
  EXPECT_EQ(Find(2, 4), WordIn(kSegment, 4));
  EXPECT_EQ(Find(1, 3), WordIn(kSegment, 3));
  EXPECT_EQ(Find(3, 3), WordIn(kSegment, 3));

  Add(1, WordIn(kSegment, 3, 1), MirrorFrames::Same::kKeep);
  EXPECT_EQ(Find(1, 3), WordIn(kSegment, 3, 1));
  frames_.Drop(1, WordIn(kSegment, 3, 1));
  EXPECT_EQ(Find(1, 3), WordIn(kSegment, 3));
}

TEST_F(MirrorFramesTest, AFullFrameTakesSlotsInPlaceOfTheSameFingerprintAlone) {
  ReadRetired();
  ASSERT_TRUE(Fill(Bucket{}));
  for (std::uint64_t i = 0; i < 2 * MirrorFrames::kSlots; ++i) {
    Add(i % 2, WordIn(kSegment, static_cast<std::uint32_t>(1 + i), i));
  }
  EXPECT_EQ(frames_.CountSlots(), MirrorFrames::kSlots);
  EXPECT_EQ(Find(0, 1), WordIn(kSegment, 1));
  Add(0, WordIn(kSegment, 1, 9999));
  EXPECT_EQ(Find(0, 1), WordIn(kSegment, 1, 9999));
  EXPECT_EQ(frames_.CountSlots(), MirrorFrames::kSlots);
}

TEST_F(MirrorFramesTest, AFrameServesTheBucketsThatWereSplitFromItsOwnLater) {
  ReadRetired();
  ASSERT_TRUE(Fill(WithSlots({WordIn(kSegment, 3)})));
  EXPECT_TRUE(frames_.Covers(5 + (1 << kDepth)));
  EXPECT_EQ(Find(5 + (1 << kDepth), 3), WordIn(kSegment, 3));
  EXPECT_EQ(Find(5 + (3 << kDepth), 3), WordIn(kSegment, 3));
  EXPECT_FALSE(frames_.Covers(5 + MirrorFrames::kBuckets));

  ASSERT_TRUE(Fill(WithSlots({WordIn(kSegment, 3)}), kDepth + 1));
  EXPECT_FALSE(frames_.Covers(5 + (1 << kDepth)));
  EXPECT_TRUE(frames_.Covers(5 + (2 << kDepth)));
}

TEST_F(MirrorFramesTest, WhenNoFrameIsFreeAGroupTakesItsOwnIfThatWasNotAskedFor) {
  MirrorFrames small(4 * 3400);
  ASSERT_GE(small.capacity(), 3u);
  const std::size_t capacity = small.capacity();
  ReadRetired();
  const std::vector<Bucket> buckets(MirrorFrames::kBuckets, WithSlots({WordIn(kSegment, 3)}));
  const auto fill = [&](std::uint64_t group) {
    return small.Fill({group, buckets, kMaxDepth}, retired_, generations_);
  };
  for (std::uint64_t group = 0; group < capacity; ++group) ASSERT_TRUE(fill(group));
  EXPECT_TRUE(small.is_full());
  EXPECT_LE(small.bytes(), std::size_t{4} * 3400);
  for (std::uint64_t group = 0; group < capacity; ++group) {
    if (group == 1) continue;
    ASSERT_NE(small.Find(group * MirrorFrames::kBuckets, 3, generations_).word, 0u);
  }
  EXPECT_FALSE(fill(25 * capacity));  // its frame has group 0, which was asked for
  ASSERT_TRUE(fill(25 * capacity + 1));
  EXPECT_FALSE(small.HasFrame(1));
  EXPECT_TRUE(small.HasFrame(0));
  EXPECT_TRUE(fill(25 * capacity));  // group 0 was not asked for since
  EXPECT_FALSE(small.HasFrame(0));
  EXPECT_NE(small.Find((25 * capacity + 1) * MirrorFrames::kBuckets, 3, generations_).word, 0u);
}

TEST(MirrorFramesOfNoBytes, TakeNothing) {
  MirrorFrames frames(100);
  const SegmentGenerations generations(kMirrorMemory, std::chrono::milliseconds(100));
  EXPECT_EQ(frames.capacity(), 0u);
  EXPECT_FALSE(frames.lacks_memory());
  const std::vector<Bucket> buckets(MirrorFrames::kBuckets);
  EXPECT_FALSE(frames.Fill({0, buckets, kDepth}, RetiredSegments(kMirrorMemory), generations));
  EXPECT_EQ(frames.Find(0, 1, generations).word, 0u);
}

}  // namespace
}  // namespace remora
