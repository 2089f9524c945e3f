// Tests of layout.h, record.h and index_view.h in store/format/memory:
// every mixture of bytes that a reader may see is harmless.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <string>

#include "record_image.h"
#include "store/format/memory/change_log.h"
#include "store/format/memory/index_view.h"
#include "store/format/memory/layout.h"
#include "store/format/memory/record.h"

namespace remora {
namespace {

// --- Hashes ---------------------------------------------------------------------------------------------

TEST(HashTest, IsTheSameByWhicheverInstructionsAndInWhicheverPieces) {
  std::mt19937_64 random(1);
  std::string bytes(70'000, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  const auto expect_same = [&](std::size_t begin, std::size_t size) {
    const char* const data = bytes.data() + begin;
    const std::uint64_t hash = HashValue(data, size);
    ASSERT_EQ(hash, XXH3_64bits(data, size)) << size << " bytes at " << begin;
    ValueHasher pieces;
    const std::size_t first = size == 0 ? 0 : random() % size;
    pieces.Add(data, first);
    pieces.Add(data + first, size - first);
    ASSERT_EQ(hash, pieces.Hash()) << size << " bytes at " << begin << ", " << first << " of them first";
    if (size > 0) {
      bytes[begin + size / 2] ^= 1;
      ASSERT_NE(hash, HashValue(data, size)) << size << " bytes at " << begin;
      bytes[begin + size / 2] ^= 1;
    }
  };
  for (std::size_t size = 0; size <= 2'500; ++size) ASSERT_NO_FATAL_FAILURE(expect_same(size % 67, size));
  for (const std::size_t size : {4'096u, 9'000u, 65'536u, 69'000u})
    ASSERT_NO_FATAL_FAILURE(expect_same(1, size));
}

// --- Extents and slots ----------------------------------------------------------------------------------

TEST(ExtentTest, HoldsEverySizeAndIsTheSmallestThatDoes) {
  std::uint64_t previous = 0;
  for (std::uint64_t units = 1; units <= (sizeof(RecordHeader) + kMaxKeySize + kMaxValueSize) / kUnitSize + 1;
       ++units) {
    const std::uint32_t code = ExtentCode(units);
    const std::uint64_t extent = ExtentUnits(code);
    ASSERT_NE(code, 0u);
    ASSERT_LT(code, 1u << kExtentCodeBits);
    ASSERT_GE(extent, units);
    ASSERT_GE(extent, previous) << "not monotonic at " << units;
    if (units <= 255) {
      ASSERT_EQ(extent, units);
    }
    ASSERT_LT((extent - units) * 128, units) << units;
    ASSERT_EQ(ExtentCode(extent), code) << "not a round trip at " << units;
    previous = extent;
  }
}

TEST(ExtentTest, NoSmallerCodeWouldDo) {
  std::set<std::uint64_t> extents;
  for (std::uint32_t code = 1; code < (1u << kExtentCodeBits); ++code) extents.insert(ExtentUnits(code));
  for (std::uint64_t units = 1; units <= 255u << 15; units += units < 70000 ? 1 : 977) {
    ASSERT_EQ(ExtentUnits(ExtentCode(units)), *extents.lower_bound(units)) << units;
  }
}

TEST(SlotTest, RoundTripAtTheBounds) {
  for (const std::uint32_t fingerprint : {1u, 0x7ffu, 0xfffu}) {
    for (const std::uint32_t code : {1u, 0x800u, 0xfffu}) {
      for (const std::uint64_t offset : {std::uint64_t{1}, std::uint64_t{0x123456789a}, kMaxOffsetUnits}) {
        const Slot slot{fingerprint, code, offset};
        EXPECT_EQ(DecodeSlot(EncodeSlot(slot)), slot);
      }
    }
  }
  EXPECT_EQ(DecodeSlot(0), Slot{});
}

TEST(SlotTest, NamesAPlaceOnlyInsideTheRegion) {
  constexpr std::uint64_t kSize = 1 << 20;
  const std::uint64_t last = kSize / kUnitSize - 4;
  EXPECT_TRUE(SlotNamesPlace({1, 4, 1}, kSize));
  EXPECT_TRUE(SlotNamesPlace({1, 4, last}, kSize));
  EXPECT_FALSE(SlotNamesPlace({1, 4, last + 1}, kSize));
  EXPECT_FALSE(SlotNamesPlace({1, 4, kMaxOffsetUnits}, kSize));
  EXPECT_FALSE(SlotNamesPlace({1, 4, 0}, kSize)) << "unit 0 is never a record";
  EXPECT_FALSE(SlotNamesPlace({1, 0, 1}, kSize)) << "no extent";
  EXPECT_FALSE(SlotNamesPlace({1, 2, 1}, kSize)) << "no space for a key";
  EXPECT_FALSE(SlotNamesPlace({1, 0xfff, 1}, kSize)) << "larger than the region";
}

// --- Words, torn ----------------------------------------------------------------------------------------

// Checks all mixtures of two control words: a link comes or goes
// while the depth stays, or the depth grows while the link stays.
void CheckControl(std::uint32_t depth, std::uint64_t link) {
  const std::uint64_t none = EncodeControl(depth, 0);
  const std::uint64_t whole = EncodeControl(depth, link);
  const std::uint64_t deeper = EncodeControl(depth + 1, link);
  ASSERT_TRUE(ControlIsWhole(none) && ControlIsWhole(whole));
  ASSERT_EQ(ControlLink(whole), link);
  ASSERT_EQ(ControlDepth(whole), depth);
  for (unsigned mask = 0; mask < 256; ++mask) {
    const std::uint64_t linking = MixBytes(none, whole, mask);
    ASSERT_TRUE(linking == none || linking == whole || !ControlIsWhole(linking)) << link << " " << mask;
    ASSERT_EQ(ControlDepth(linking), depth);
    const std::uint64_t splitting = MixBytes(whole, deeper, mask);
    ASSERT_TRUE(splitting == whole || splitting == deeper) << link << " " << mask;
  }
}

TEST(ControlTest, NoMixtureLeadsToABucketThatWasNotLinked) {
  std::mt19937_64 random(1);
  constexpr std::uint64_t kLastLink = (std::uint64_t{1} << kLinkBits) - 1;
  for (std::uint64_t link = 1; link < 5000; ++link) ASSERT_NO_FATAL_FAILURE(CheckControl(6, link));
  for (int i = 0; i < 5000; ++i) {
    // Links with different numbers of zeros and ones.
    const std::uint64_t link = random() & kLastLink & (i % 2 == 0 ? random() : ~std::uint64_t{0});
    ASSERT_NO_FATAL_FAILURE(
        CheckControl(static_cast<std::uint32_t>(random() % 255), std::max(link, std::uint64_t{1})));
  }
  for (int bit = 0; bit < kLinkBits; ++bit) {
    ASSERT_NO_FATAL_FAILURE(CheckControl(0, std::uint64_t{1} << bit));
    ASSERT_NO_FATAL_FAILURE(CheckControl(0, kLastLink ^ std::uint64_t{1} << bit));
  }
  ASSERT_NO_FATAL_FAILURE(CheckControl(254, kLastLink));
}

TEST(ControlTest, BitsOfALaterFormatAreNotWhole) {
  EXPECT_FALSE(ControlIsWhole(EncodeControl(6, 0) | std::uint64_t{1} << 40));
  EXPECT_FALSE(ControlIsWhole(EncodeControl(6, 77) | std::uint64_t{1} << 47));
}

void CheckDirectoryEntry(std::uint32_t segment) {
  const std::uint64_t entry = EncodeDirectoryEntry(segment);
  ASSERT_TRUE(DirectoryEntryIsWhole(entry));
  ASSERT_EQ(DirectoryEntrySegment(entry), segment);
  for (unsigned mask = 0; mask < 256; ++mask) {
    const std::uint64_t seen = MixBytes(0, entry, mask);
    ASSERT_TRUE(seen == 0 || seen == entry || !DirectoryEntryIsWhole(seen)) << segment << " mask " << mask;
  }
}

TEST(DirectoryTest, NoMixtureLeadsToAnotherSegment) {
  std::mt19937_64 random(4);
  for (std::uint32_t segment = 1; segment < 70000; segment += segment < 1000 ? 1 : 61) {
    ASSERT_NO_FATAL_FAILURE(CheckDirectoryEntry(segment));
  }
  for (int i = 0; i < 5000; ++i)
    ASSERT_NO_FATAL_FAILURE(CheckDirectoryEntry(static_cast<std::uint32_t>(random())));
  // Segment numbers with bytes that are 0, or whose complement is 0.
  for (const std::uint32_t segment : {0xffu, 0xff00u, 0xff00ff00u, 0x00ff00ffu, 0xffffffffu}) {
    ASSERT_NO_FATAL_FAILURE(CheckDirectoryEntry(segment));
  }
  EXPECT_FALSE(DirectoryEntryIsWhole(0));
}

// A reader tells a large record from a small one by the extent alone.
TEST(LayoutTest, TheExtentOfALargeRecordIsAboveThatOfEachSmallOne) {
  for (const std::size_t key : {kMinKeySize, std::size_t{100}, kMaxKeySize}) {
    const auto extent = [key](std::size_t value) {
      return ExtentUnits(RecordExtentCode(key, value)) * kUnitSize;
    };
    EXPECT_LE(extent(kMaxSmallValueSize), kMaxSmallExtent);
    EXPECT_GT(extent(kMaxSmallValueSize + 1), kMaxSmallExtent);
    EXPECT_EQ(LargeBytes(key, kMaxSmallValueSize), 0u);
    for (std::size_t value = kMaxSmallValueSize + 1; value <= kMaxValueSize; value += value / 3) {
      ASSERT_GE(extent(value), sizeof(RecordHeader) + key + value);
      ASSERT_GE(LargeBytes(key, value), extent(value));
      ASSERT_LT(LargeBytes(key, value), extent(value) + kPageSize);
      ASSERT_EQ(LargeBytes(key, value) % kPageSize, 0u);
    }
  }
}

// --- Segments -------------------------------------------------------------------------------------------

TEST(LayoutTest, TheFirstSegmentIsBehindAllOtherParts) {
  EXPECT_EQ(FirstSegment(16 * kSegmentSize), 1u);
  for (std::uint64_t count = 2; count < (std::uint64_t{8} << 20); count += 1 + count / 7) {
    const std::uint64_t size = count * kSegmentSize;
    const std::uint64_t bytes_end = kSuperblockSize + count * (sizeof(std::uint64_t) + 6);
    const std::uint64_t end = (bytes_end + 63) / 64 * 64 + kChangesSize;
    ASSERT_GE(FirstSegment(size) * kSegmentSize, end) << count;
    ASSERT_LT(FirstSegment(size) * kSegmentSize, end + kSegmentSize) << "one is wasted at " << count;
    ASSERT_EQ(GenerationsOffset(size) + count, RetiredOffset(size));
    ASSERT_EQ(RetiredOffset(size) + count, BeginningsOffset(size));
    ASSERT_EQ(BeginningsOffset(size) + 4 * count, bytes_end);
    ASSERT_EQ(ChangesOffset(size) + kChangesSize, end);
  }
}

TEST(LayoutTest, TheFirstSegmentMayBeginWhereTheChangesEnd) {
  constexpr std::uint64_t kCount = (7 * kSegmentSize - kSuperblockSize - kChangesSize) / 896 * 64;
  static_assert(kSuperblockSize + 14 * kCount + kChangesSize <= 7 * kSegmentSize);
  EXPECT_EQ(FirstSegment(kCount * kSegmentSize), 7u);
  EXPECT_EQ(FirstSegment((kCount + 64) * kSegmentSize), 8u);
}

// An update keeps the fingerprint, so a search considers every mixture of the old slot and the new one.
TEST(FindSlotsTest, EveryMixtureOfTwoSlotsOfOneKeyMatches) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 2000; ++round) {
    std::uint64_t hash = random();
    if (round % 4 == 0) hash &= ~std::uint64_t{0} >> 12;  // the top bits are 0, but the fingerprint is not
    const auto any_slot = [&] {
      return EncodeSlot({Fingerprint(hash), static_cast<std::uint32_t>(1 + random() % 4095),
                         1 + random() % kMaxOffsetUnits});
    };
    const std::uint64_t older = any_slot();
    const std::uint64_t newer = any_slot();
    const auto where = static_cast<std::size_t>(random() % kSlotsPerBucket);
    for (unsigned mask = 0; mask < 256; ++mask) {
      Bucket bucket{};
      bucket.slots[where] = MixBytes(older, newer, mask);
      SlotSet found = FindSlots(bucket, hash);
      ASSERT_FALSE(found.empty()) << "round " << round << " mask " << mask;
      ASSERT_EQ(found.Next(), static_cast<int>(where));
      ASSERT_TRUE(found.empty()) << "an empty slot matched";
    }
  }
}

TEST(FindSlotsTest, FindsAllOfAFingerprintAndNoOther) {
  const std::uint64_t hash = std::uint64_t{0xabc} << 52 | 5;
  Bucket bucket{};
  EXPECT_TRUE(FindSlots(bucket, hash).empty());
  for (std::size_t i = 0; i < kSlotsPerBucket; ++i) {
    bucket.slots[i] = EncodeSlot({i % 7 == 0 ? 0xabcu : 0xabdu, 9, 100 + i});
  }
  SlotSet found = FindSlots(bucket, hash);
  for (const int expected : {0, 7, 14, 21, 28}) {
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found.Next(), expected);
  }
  EXPECT_TRUE(found.empty());
}

TEST(FingerprintTest, IsNeverZero) {
  EXPECT_EQ(Fingerprint(0), 1u);
  EXPECT_EQ(Fingerprint(~std::uint64_t{0} >> 12), 1u);
  EXPECT_EQ(Fingerprint(~std::uint64_t{0}), 0xfffu);
  EXPECT_EQ(Fingerprint(std::uint64_t{2} << 52), 2u);
}

// --- Records --------------------------------------------------------------------------------------------

constexpr std::string_view kKey = "some key";

TEST(CheckRecordTest, TellsLiveFromDead) {
  EXPECT_EQ(MakeRecord(kKey, "value", 5, true).Check(kKey), RecordState::kLive);
  EXPECT_EQ(MakeRecord(kKey, "value", 5, false).Check(kKey), RecordState::kDead);
}

TEST(CheckRecordTest, ForeignOnlyWhenItBelongsInOurBucketAndLives) {
  const std::string neighbour = CollidingKey(kKey);
  EXPECT_EQ(MakeRecord(neighbour, "value", 5, true).Check(kKey), RecordState::kForeign);
  EXPECT_EQ(MakeRecord(neighbour, "value", 5, false).Check(kKey), RecordState::kTorn);
  EXPECT_EQ(MakeRecord("elsewhere", "value", 5, true).Check(kKey), RecordState::kTorn);
  const std::string parted = CollidingKey(kKey, kTestDepth - 1, true);
  EXPECT_EQ(MakeRecord(parted, "value", 5, true).Check(kKey), RecordState::kTorn) << "moved away by a split";
}

TEST(CheckRecordTest, AnyByteFlippedIsNotLive) {
  const RecordImage record = MakeRecord(kKey, "a value of some bytes", 5, true);
  const std::size_t size = sizeof(RecordHeader) + kKey.size() + 21;
  for (std::size_t at = 0; at < size; ++at) {
    for (unsigned flip = 1; flip < 256; ++flip) {
      RecordImage torn = record;
      torn.bytes[at] ^= static_cast<std::byte>(flip);
      const RecordState expected = at == 0 && flip == kLiveBit ? RecordState::kDead : RecordState::kTorn;
      ASSERT_EQ(torn.Check(kKey), expected) << "byte " << at << " flip " << flip;
    }
  }
  RecordImage padded = record;
  padded.bytes.back() ^= std::byte{1};
  ASSERT_LT(size, padded.bytes.size());
  EXPECT_EQ(padded.Check(kKey), RecordState::kLive) << "padding is no part of the record";
}

// While one record replaces another at the same place, a reader sees some bytes of each. There are about 2^60
// mixtures. The test tries those with one and with two seams, and random ones.
TEST(CheckRecordTest, MixturesOfTwoRecordsAtOnePlaceAreNeverLive) {
  const RecordImage older = MakeRecord(kKey, "old value bytes", 5, true);
  const RecordImage newer = MakeRecord(kKey, "NEW VALUE BYTES", 6, true);
  const std::size_t size = sizeof(RecordHeader) + kKey.size() + 15;
  const auto check = [&](const RecordImage& mixed) {
    const auto equals = [&](const RecordImage& one) {
      return std::equal(one.bytes.begin(), one.bytes.begin() + static_cast<std::ptrdiff_t>(size),
                        mixed.bytes.begin());
    };
    if (equals(older) || equals(newer)) return;
    // The live bit is set in both records, so only the other bytes decide.
    ASSERT_EQ(mixed.Check(kKey), RecordState::kTorn);
  };
  for (std::size_t begin = 0; begin <= size; ++begin) {
    for (std::size_t end = begin; end <= size; ++end) {
      RecordImage mixed = older;
      RecordImage inverse = newer;
      for (std::size_t i = begin; i < end; ++i) {
        mixed.bytes[i] = newer.bytes[i];
        inverse.bytes[i] = older.bytes[i];
      }
      ASSERT_NO_FATAL_FAILURE(check(mixed)) << begin << " " << end;
      ASSERT_NO_FATAL_FAILURE(check(inverse)) << begin << " " << end;
    }
  }
  std::mt19937_64 random(3);
  for (int round = 0; round < 20000; ++round) {
    RecordImage mixed = older;
    for (std::size_t i = 0; i < size; ++i) {
      if (random() % 2 == 0) mixed.bytes[i] = newer.bytes[i];
    }
    ASSERT_NO_FATAL_FAILURE(check(mixed)) << round;
  }
}

TEST(CheckRecordTest, IsTiedToItsPlaceAndItsStore) {
  const RecordImage record = MakeRecord(kKey, "value", 5, true);
  RecordPlace place = record.place;
  place.offset_units += 1;
  EXPECT_EQ(record.Check(kKey, place), RecordState::kTorn);
  place = record.place;
  place.incarnation += 1;
  EXPECT_EQ(record.Check(kKey, place), RecordState::kTorn);
}

// A torn slot with another extent must not verify, even if the record fits into that extent.
TEST(CheckRecordTest, IsTiedToItsExtent) {
  RecordImage record = MakeRecord(kKey, "value", 5, true);
  record.bytes.resize(record.bytes.size() + 2 * kUnitSize);
  for (const int units : {-1, 1, 2}) {
    RecordPlace place = record.place;
    place.extent_bytes += static_cast<std::uint64_t>(units * static_cast<int>(kUnitSize));
    EXPECT_EQ(record.Check(kKey, place), RecordState::kTorn) << units;
  }
}

TEST(CheckRecordTest, SizesAtTheirBounds) {
  const std::string long_key(kMaxKeySize, 'k');
  const std::string long_value(kMaxSmallValueSize, 'v');
  EXPECT_EQ(MakeRecord("k", "", 5, true).Check("k"), RecordState::kLive);
  EXPECT_EQ(MakeRecord(long_key, "", 5, true).Check(long_key), RecordState::kLive);
  EXPECT_EQ(MakeRecord(long_key, long_value, 5, true).Check(long_key), RecordState::kLive);
}

// A reader rejects sizes beyond the bounds or the extent before it reads anything behind the header. Here
// nothing is behind the header, so a sanitizer would report such a read.
TEST(CheckRecordTest, SizesBeyondTheirBoundsReadNothing) {
  RecordHeader header = MakeRecord(kKey, "value", 5, true).header();
  const RecordPlace place{77, 48, TestHome(kKey), 0xfeed};
  const auto check = [&](std::uint16_t key_size, std::uint32_t value_size, std::uint16_t flags = 0) {
    header.key_size = key_size;
    header.value_size = value_size;
    header.flags = flags;
    return CheckRecord(header, nullptr, kKey, HashKey(kKey), place);
  };
  EXPECT_EQ(check(0, 5), RecordState::kTorn);
  EXPECT_EQ(check(kMaxKeySize + 1, 0), RecordState::kTorn);
  EXPECT_EQ(check(0xffff, 0xffffffff), RecordState::kTorn);
  EXPECT_EQ(check(8, kMaxValueSize + 1), RecordState::kTorn);
  EXPECT_EQ(check(8, 9), RecordState::kTorn) << "49 bytes in an extent of 48";
  EXPECT_EQ(check(8, 0xffffffff - 40), RecordState::kTorn) << "a sum that overflows 32 bits";
  EXPECT_EQ(check(8, 8, 1), RecordState::kTorn) << "flags of a later format";
}

// ReadLiveRecord agrees with CheckRecord about whole records,
// records in other places, and records with any bit flipped.
TEST(CheckRecordTest, ReadLiveRecordAgreesWithCheckRecord) {
  int live = 0;
  const auto compare = [&](const RecordImage& record, std::string_view key, const RecordPlace& place) {
    LiveRecord found;
    const bool is_live = ReadLiveRecord(key, HashKey(key), record.bytes.data(), place, &found);
    ASSERT_EQ(is_live, record.Check(key, place) == RecordState::kLive) << key.size() << " " << key;
    if (is_live) {
      ASSERT_EQ(found.version, record.header().version_live >> 1);
      ASSERT_EQ(found.expiry_ms, record.header().expiry_ms);
      ASSERT_EQ(found.value.size(), record.header().value_size);
      ASSERT_EQ(found.value.data(),
                reinterpret_cast<const char*>(record.bytes.data()) + sizeof(RecordHeader) + key.size());
    }
    live += is_live ? 1 : 0;
  };
  constexpr std::size_t kKeySizes[] = {1, 8, 15, 16, 17, 31, 32, 33, 200, 4096};
  constexpr std::size_t kValueSizes[] = {0, 1, 16, 40, 64, 300, 4048, 9000};
  for (const std::size_t key_size : kKeySizes) {
    for (const std::size_t value_size : kValueSizes) {
      const std::string key(key_size, 'k');
      for (const bool is_live : {true, false}) {
        RecordImage record = MakeRecord(key, std::string(value_size, 'v'), 5, is_live);
        compare(record, key, record.place);
        std::string other = key;
        other.back() = 'K';
        compare(record, other, record.place);
        compare(record, key + "k", record.place);
        compare(record, key.substr(1), record.place);
        RecordPlace place = record.place;
        ++place.offset_units;
        compare(record, key, place);
        place = record.place;
        ++place.incarnation;
        compare(record, key, place);
        place = record.place;
        if (place.extent_bytes > sizeof(RecordHeader) + kUnitSize) {
          place.extent_bytes -= kUnitSize;
          compare(record, key, place);
        }
        const std::size_t bits = std::min<std::size_t>(record.bytes.size(), 400) * 8;
        for (std::size_t bit = 0; bit < bits; ++bit) {
          const std::byte flip{static_cast<unsigned char>(1 << bit % 8)};
          record.bytes[bit / 8] ^= flip;
          compare(record, key, record.place);
          record.bytes[bit / 8] ^= flip;
        }
      }
    }
  }
  EXPECT_GE(live, 80) << "hardly one was";
}

// --- The format, pinned ---------------------------------------------------------------------------------
// A change of one of these values changes the format, and needs a new kFormatVersion.

TEST(FormatTest, IsPinned) {
  EXPECT_EQ(HashKey("remora"), 0xeaeae9574c4dcac0u) << "another version of the hash library?";
  EXPECT_EQ(HashValue(nullptr, 0), 0x2d06800538d394c2u);
  EXPECT_EQ(MakeRecord("key", "value", 5, true).header().checksum, 0x5557ec4c60fd7cf2u);
  EXPECT_EQ(kFormatVersion, 10u);
  EXPECT_EQ(EncodeControl(7, 0x12345), 0x2107000000012345u);
  EXPECT_EQ(EncodeControl(7, 0), 0x0007000000000000u);
  EXPECT_EQ(EncodeDirectoryEntry(0x12345), 0xfffedcba00012345u);
  EXPECT_EQ(EncodeSlot({0xabc, 0x123, 0x456789}), 0xabc1230000456789u);
  EXPECT_EQ(EncodeChangeCount(0x12345), 0x263b3f0000012345u);
  EXPECT_EQ(EncodeChange(7, 0xabc1230000456789, 0x12345).place, 0x80e01f6000012345u);
}

}  // namespace
}  // namespace remora
