// A search whose bucket and records change between its reads, or are torn.
#include "store/format/memory/key_search.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "record_image.h"

namespace remora {
namespace {

using Step = KeySearch::Step;

/// The memory of a store, as a reader may see it. A test puts buckets and records there one by one.
class KeySearchTest : public testing::Test {
 protected:
  static constexpr std::string_view kKey = "the key";
  static constexpr std::uint64_t kOverflow = 77;  // place of an overflow bucket
  const StoreShape shape_{1 << 20, 0xfeed};
  const std::uint64_t hash_ = HashKey(kKey);
  const std::string neighbour_ = CollidingKey(kKey);
  const std::uint64_t main_ = BucketAtDepth(hash_, kTestDepth);
  IndexView view_{kTestDepth, 0};
  KeySearch search_{kKey, hash_, shape_, &view_};
  Bucket bucket_ = EmptyBucket();

  static Bucket EmptyBucket(std::uint32_t depth = kTestDepth, std::uint64_t link = 0) {
    return {EncodeControl(depth, link), {}};
  }

  std::uint64_t WordFor(const RecordImage& record) const {
    const RecordHeader header = record.header();
    return EncodeSlot({Fingerprint(hash_), RecordExtentCode(header.key_size, header.value_size),
                       record.place.offset_units});
  }
  void TakeBucket() {
    ASSERT_EQ(search_.step(), Step::kReadBucket);
    search_.TakeBucket(bucket_);
  }
  void TakeRecord(const RecordImage& record) {
    ASSERT_EQ(search_.step(), Step::kReadRecord);
    search_.TakeRecord(record.header(), record.bytes.data() + sizeof(RecordHeader));
  }
};

TEST_F(KeySearchTest, FindsTheKey) {
  const RecordImage record = MakeRecord(kKey, "value", 5, true, 100);
  bucket_.slots[3] = WordFor(record);
  EXPECT_EQ(search_.bucket(), (BucketRef{false, main_}));
  TakeBucket();
  EXPECT_EQ(search_.slot().offset_units, 100u);
  TakeRecord(record);
  EXPECT_EQ(search_.step(), Step::kFound);
}

TEST_F(KeySearchTest, EmptyBucketIsAMiss) {
  TakeBucket();
  EXPECT_EQ(search_.step(), Step::kMissing);
}

TEST_F(KeySearchTest, FollowsTheChainPastAForeignRecord) {
  const RecordImage foreign = MakeRecord(neighbour_, "value", 4, true, 90);
  bucket_.slots[0] = WordFor(foreign);
  bucket_.control = EncodeControl(kTestDepth, kOverflow);
  TakeBucket();
  TakeRecord(foreign);
  EXPECT_EQ(search_.bucket(), (BucketRef{true, kOverflow}));
  const RecordImage record = MakeRecord(kKey, "value", 5, true, 100);
  bucket_ = EmptyBucket(0);
  bucket_.slots[30] = WordFor(record);
  TakeBucket();
  TakeRecord(record);
  EXPECT_EQ(search_.step(), Step::kFound);
}

TEST_F(KeySearchTest, ForeignRecordsAloneAreAMiss) {
  const RecordImage foreign = MakeRecord(neighbour_, "value", 4, true, 90);
  bucket_.slots[0] = WordFor(foreign);
  TakeBucket();
  TakeRecord(foreign);
  EXPECT_EQ(search_.step(), Step::kMissing);
}

TEST_F(KeySearchTest, ADeadRecordIsNoMiss) {
  const RecordImage dead = MakeRecord(kKey, "value", 5, false, 100);
  bucket_.slots[3] = WordFor(dead);
  TakeBucket();
  TakeRecord(dead);
  EXPECT_EQ(search_.step(), Step::kUnsure);
}

TEST_F(KeySearchTest, ALiveRecordIsFoundBehindATornOne) {
  RecordImage torn = MakeRecord(kKey, "older", 4, true, 90);
  torn.bytes[40] ^= std::byte{1};
  const RecordImage record = MakeRecord(kKey, "value", 5, true, 100);
  bucket_.slots[0] = WordFor(torn);
  bucket_.slots[1] = WordFor(record);
  TakeBucket();
  TakeRecord(torn);
  TakeRecord(record);
  EXPECT_EQ(search_.step(), Step::kFound);
}

// A torn slot of the key may lead outside of the region.
// The search neither follows it nor takes it for empty.
TEST_F(KeySearchTest, ASlotOutsideTheRegionIsNoMiss) {
  bucket_.slots[3] = EncodeSlot({Fingerprint(hash_), 4, kMaxOffsetUnits});
  TakeBucket();
  EXPECT_EQ(search_.step(), Step::kUnsure);
}

// A torn slot of the key may equal another key's slot. Then the other key's record does not prove a miss.
TEST_F(KeySearchTest, TwoSlotsThatSayTheSameAreNoMiss) {
  const RecordImage foreign = MakeRecord(neighbour_, "value", 4, true, 90);
  bucket_.slots[0] = WordFor(foreign);
  bucket_.slots[9] = WordFor(foreign);
  TakeBucket();
  TakeRecord(foreign);
  EXPECT_EQ(search_.step(), Step::kUnsure);
}

TEST_F(KeySearchTest, TwoSlotsThatSayTheSameInOneChainAreNoMiss) {
  const RecordImage foreign = MakeRecord(neighbour_, "value", 4, true, 90);
  bucket_.slots[0] = WordFor(foreign);
  bucket_.control = EncodeControl(kTestDepth, kOverflow);
  TakeBucket();
  TakeRecord(foreign);
  bucket_.control = EncodeControl(0, 0);
  TakeBucket();
  EXPECT_EQ(search_.step(), Step::kUnsure);
}

// A torn slot may lead to a record that another slot named before, or may have another extent.
TEST_F(KeySearchTest, AForeignRecordThatIsDeadIsNoMiss) {
  const RecordImage foreign = MakeRecord(neighbour_, "value", 4, false, 90);
  bucket_.slots[0] = WordFor(foreign);
  TakeBucket();
  TakeRecord(foreign);
  EXPECT_EQ(search_.step(), Step::kUnsure);
}

TEST_F(KeySearchTest, AForeignRecordInAnotherExtentIsNoMiss) {
  const RecordImage foreign = MakeRecord(neighbour_, "value", 4, true, 90);
  Slot slot = DecodeSlot(WordFor(foreign));
  ++slot.extent_code;
  bucket_.slots[0] = EncodeSlot(slot);
  TakeBucket();
  TakeRecord(foreign);
  EXPECT_EQ(search_.step(), Step::kUnsure);
}

TEST_F(KeySearchTest, ATornLinkIsNoMiss) {
  bucket_.control = EncodeControl(kTestDepth, 0) | 1;  // the check bits of the link are missing
  TakeBucket();
  EXPECT_EQ(search_.step(), Step::kUnsure);
}

TEST_F(KeySearchTest, ALinkOutsideTheMemoryIsNotFollowed) {
  const std::uint64_t buckets = shape_.memory_size / sizeof(Bucket);
  bucket_.control = EncodeControl(kTestDepth, buckets - 1);
  TakeBucket();
  EXPECT_EQ(search_.bucket(), (BucketRef{true, buckets - 1}));
  for (const std::uint64_t link : {buckets, buckets + 1, (std::uint64_t{1} << kLinkBits) - 1}) {
    KeySearch search(kKey, hash_, shape_, &view_);
    search.TakeBucket(EmptyBucket(kTestDepth, link));
    EXPECT_EQ(search.step(), Step::kUnsure) << link;
  }
}

TEST_F(KeySearchTest, AChainWithoutAnEndIsNotFollowedForEver) {
  bucket_.control = EncodeControl(kTestDepth, kOverflow);
  int buckets = 0;
  for (; search_.step() == Step::kReadBucket && buckets < 1000; ++buckets) TakeBucket();
  EXPECT_EQ(search_.step(), Step::kUnsure);
  EXPECT_GE(buckets, 64) << "real chains are that long";
  EXPECT_LT(buckets, 100);
}

TEST_F(KeySearchTest, ALongChainHasAnEnd) {
  for (std::uint64_t i = 0; i < 40; ++i) {
    bucket_ = EmptyBucket(i == 0 ? kTestDepth : 0, kOverflow + i);
    TakeBucket();
  }
  bucket_ = EmptyBucket(0);
  TakeBucket();
  EXPECT_EQ(search_.step(), Step::kMissing);
}

// --- An index that has grown --------------------------------------------------------------------------

TEST_F(KeySearchTest, ADeeperBucketLeadsToItsOtherHalf) {
  const std::string parted = CollidingKey(kKey, kTestDepth, true);
  const bool ours_is_upper = BucketAtDepth(hash_, kTestDepth + 1) != main_;
  const std::string& upper_key = ours_is_upper ? std::string(kKey) : parted;
  KeySearch search(upper_key, HashKey(upper_key), shape_, &view_);
  bucket_ = EmptyBucket(kTestDepth + 1);
  search.TakeBucket(bucket_);
  EXPECT_EQ(search.step(), Step::kReadBucket);
  EXPECT_EQ(search.bucket(), (BucketRef{false, main_ + (1u << kTestDepth)}));
  search.TakeBucket(bucket_);
  EXPECT_EQ(search.step(), Step::kMissing);
}

TEST_F(KeySearchTest, ADeeperBucketIsSearchedByAKeyThatStayed) {
  const std::string parted = CollidingKey(kKey, kTestDepth, true);
  const bool ours_is_lower = BucketAtDepth(hash_, kTestDepth + 1) == main_;
  const std::string& lower_key = ours_is_lower ? std::string(kKey) : parted;
  KeySearch search(lower_key, HashKey(lower_key), shape_, &view_);
  bucket_ = EmptyBucket(kTestDepth + 1);
  search.TakeBucket(bucket_);
  EXPECT_EQ(search.step(), Step::kMissing) << "one READ, not two";
}

TEST_F(KeySearchTest, TheViewLearnsFromADeeperBucket) {
  bucket_ = EmptyBucket(kTestDepth + 1);
  TakeBucket();
  IndexView learned{kTestDepth, 0};
  learned.Saw(main_, kTestDepth + 1);
  EXPECT_EQ(view_.level, learned.level);
  EXPECT_EQ(view_.split, learned.split);
  EXPECT_NE(std::pair(view_.level, view_.split), std::pair(kTestDepth, std::uint64_t{0}));
}

TEST_F(KeySearchTest, ABucketOfLessDepthThanLookedForIsNoMiss) {
  bucket_ = EmptyBucket(kTestDepth - 1);
  TakeBucket();
  EXPECT_EQ(search_.step(), Step::kUnsure);
}

TEST_F(KeySearchTest, ADepthThatNoBucketHasIsNotFollowed) {
  bucket_ = EmptyBucket(kMaxDepth + 1);
  TakeBucket();
  EXPECT_EQ(search_.step(), Step::kUnsure);
  EXPECT_EQ(view_.level, kTestDepth) << "and nothing is learned from it";
}

// After a split, old slots stay for a grace period. They lead to live records of keys that belong to another
// bucket now. A torn slot may look the same, so such a record proves nothing.
TEST_F(KeySearchTest, ARecordThatASplitMovedAwayIsNoMiss) {
  const RecordImage moved = MakeRecord(CollidingKey(kKey, kTestDepth, true), "value", 4, true, 90);
  const bool ours_is_lower = BucketAtDepth(hash_, kTestDepth + 1) == main_;
  view_ = {kTestDepth, ours_is_lower ? main_ : main_ + 1};
  KeySearch search(kKey, hash_, shape_, &view_);
  bucket_ = EmptyBucket(kTestDepth + 1);
  bucket_.slots[0] = WordFor(moved);
  search.TakeBucket(bucket_);
  ASSERT_EQ(search.step(), Step::kReadRecord);
  search.TakeRecord(moved.header(), moved.bytes.data() + sizeof(RecordHeader));
  EXPECT_EQ(search.step(), Step::kUnsure);
}

TEST_F(KeySearchTest, GivingUpIsNoMiss) {
  TakeBucket();
  search_.GiveUp();
  EXPECT_EQ(search_.step(), Step::kUnsure);
}

// --- Records --------------------------------------------------------------------------------------------

// The bucket has more foreign records than a search remembers, so the search cannot prove a miss.
TEST_F(KeySearchTest, ManyForeignRecordsAreNoMiss) {
  for (std::size_t i = 0; i < kSlotsPerBucket; ++i) {
    bucket_.slots[i] = WordFor(MakeRecord(neighbour_, "value", 4, true, 90 + i * 10));
  }
  TakeBucket();
  for (std::size_t i = 0; search_.step() == Step::kReadRecord; ++i) {
    ASSERT_LT(i, kSlotsPerBucket);
    TakeRecord(MakeRecord(neighbour_, "value", 4, true, 90 + i * 10));
  }
  EXPECT_EQ(search_.step(), Step::kUnsure);
}

// An update as a reader may see it. Each mixture of the slots, with each state of the two records, leads to a
// live record or to another search, never to a miss.
TEST_F(KeySearchTest, NoMixtureOfAnUpdateIsAMiss) {
  const RecordImage foreign = MakeRecord(neighbour_, "value", 4, true, 0x1ff);
  for (const bool old_is_live : {true, false}) {
    const RecordImage older = MakeRecord(kKey, "older", 5, old_is_live, 0x0ff);
    const RecordImage newer = MakeRecord(kKey, "newer, longer", 6, !old_is_live, 0x100);
    for (unsigned mask = 0; mask < 256; ++mask) {
      bucket_.slots[2] = WordFor(foreign);
      bucket_.slots[5] = MixBytes(WordFor(older), WordFor(newer), mask);
      IndexView view{kTestDepth, 0};
      KeySearch search(kKey, hash_, shape_, &view);
      search.TakeBucket(bucket_);
      while (search.step() == Step::kReadRecord) {
        const std::uint64_t at = search.slot().offset_units;
        // Any other place in the region has no record that verifies.
        const RecordImage& seen = at == 0x0ff ? older : at == 0x100 ? newer : at == 0x1ff ? foreign : older;
        search.TakeRecord(seen.header(), seen.bytes.data() + sizeof(RecordHeader));
      }
      ASSERT_TRUE(search.step() == Step::kFound || search.step() == Step::kUnsure) << "mask " << mask;
    }
  }
}

}  // namespace
}  // namespace remora
