// A search whose bucket and records change, or are seen torn, between its reads.
#include "store/format/key_search.h"

#include <gtest/gtest.h>

#include <string>

#include "record_image.h"

namespace remora {
namespace {

using Step = KeySearch::Step;

/// One store's memory, as a reader may see it: buckets and records are put there one by one.
class KeySearchTest : public testing::Test {
 protected:
  static constexpr std::string_view kKey = "the key";
  const StoreShape shape_{kTestBuckets, 8, 1 << 20, 0xfeed};
  const std::uint64_t hash_ = HashKey(kKey);
  const std::string neighbour_ = CollidingKey(kKey);
  KeySearch search_{kKey, hash_, shape_};
  Bucket bucket_{};

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
  EXPECT_EQ(search_.bucket(), hash_ % kTestBuckets);
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
  bucket_.control = EncodeControl(kTestBuckets + 7);
  TakeBucket();
  TakeRecord(foreign);
  EXPECT_EQ(search_.bucket(), kTestBuckets + 7);
  const RecordImage record = MakeRecord(kKey, "value", 5, true, 100);
  bucket_ = {};
  bucket_.slots[14] = WordFor(record);
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

// A slot of the key, torn, that names a place outside the log must be neither followed nor taken for empty.
TEST_F(KeySearchTest, ASlotOutsideTheLogIsNoMiss) {
  bucket_.slots[3] = EncodeSlot({Fingerprint(hash_), 4, kMaxOffsetUnits});
  TakeBucket();
  EXPECT_EQ(search_.step(), Step::kUnsure);
}

// The same, torn to spell what another slot says: the other key's record does not show that ours is missing.
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
  bucket_.control = EncodeControl(kTestBuckets);
  TakeBucket();
  TakeRecord(foreign);
  bucket_.control = 0;
  TakeBucket();
  EXPECT_EQ(search_.step(), Step::kUnsure);
}

// A torn slot that leads to a record which another slot named before, or with another extent.
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
  bucket_.control = EncodeControl(kTestBuckets + 7) & 0xff;  // its check is not there yet
  TakeBucket();
  EXPECT_EQ(search_.step(), Step::kUnsure);
}

TEST_F(KeySearchTest, ALinkToNoOverflowBucketIsNotFollowed) {
  for (const std::uint32_t link : {1u, kTestBuckets - 1, kTestBuckets + 8, 0xffffffffu}) {
    KeySearch search(kKey, hash_, shape_);
    Bucket bucket{};
    bucket.control = EncodeControl(link);
    search.TakeBucket(bucket);
    EXPECT_EQ(search.step(), Step::kUnsure) << link;
  }
}

// More foreign records than a search remembers: it does not guess.
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

// An update as a reader may see it: each mixture, at each state of the two records, leads to a live record or
// to another look, never to a miss.
TEST_F(KeySearchTest, NoMixtureOfAnUpdateIsAMiss) {
  const RecordImage foreign = MakeRecord(neighbour_, "value", 4, true, 0x1ff);
  for (const bool old_is_live : {true, false}) {
    const RecordImage older = MakeRecord(kKey, "older", 5, old_is_live, 0x0ff);
    const RecordImage newer = MakeRecord(kKey, "newer, longer", 6, !old_is_live, 0x100);
    for (unsigned mask = 0; mask < 256; ++mask) {
      bucket_.slots[2] = WordFor(foreign);
      bucket_.slots[5] = MixBytes(WordFor(older), WordFor(newer), mask);
      KeySearch search(kKey, hash_, shape_);
      search.TakeBucket(bucket_);
      while (search.step() == Step::kReadRecord) {
        const std::uint64_t at = search.slot().offset_units;
        // Elsewhere in the log: nothing that verifies.
        const RecordImage& seen = at == 0x0ff ? older : at == 0x100 ? newer : at == 0x1ff ? foreign : older;
        search.TakeRecord(seen.header(), seen.bytes.data() + sizeof(RecordHeader));
      }
      ASSERT_TRUE(search.step() == Step::kFound || search.step() == Step::kUnsure) << "mask " << mask;
    }
  }
}

}  // namespace
}  // namespace remora
