// Leaves of the ordered index as clients READ them: bytes that verify, and bytes that do not. The images of
// all blocks are those of the leaves that there are.
#include "store/format/memory/leaf_block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/ordered/ordered_index.h"
#include "store/ordered/ordered_keys.h"
#include "tests/unit/store/store_parts.h"

namespace remora {
namespace {

constexpr std::uint64_t kStore = 0xfeed;
constexpr std::uint64_t kLeafPlace = 7 * kLeafBlockSize;

LeafHeader Fences(unsigned low_shared, unsigned low_size, unsigned high_shared, unsigned high_size) {
  LeafHeader header{};
  header.low_shared = static_cast<std::uint16_t>(low_shared);
  header.low_size = static_cast<std::uint16_t>(low_size);
  header.high_shared = static_cast<std::uint16_t>(high_shared);
  header.high_size = static_cast<std::uint16_t>(high_size);
  return header;
}

/// A block that a test fills by itself.
class LeafBlockTest : public testing::Test {
 protected:
  /// Writes a leaf with these entries and fences, whatever they are.
  void Write(std::string_view entries, std::size_t count, LeafHeader header, std::string_view fences) {
    header.used = static_cast<std::uint16_t>(entries.size());
    header.count = static_cast<std::uint16_t>(count);
    header.version = 5;
    std::memcpy(block_.data() + sizeof(header), entries.data(), entries.size());
    std::memcpy(block_.data() + kLeafBlockSize - fences.size(), fences.data(), fences.size());
    header.checksum = LeafChecksum(header, entries, fences, kLeafPlace, kStore);
    std::memcpy(block_.data(), &header, sizeof(header));
  }
  void WriteGood() {
    LeafHeader header = Fences(1, 1, 0, 1);
    header.next = 4 * kLeafBlockSize;
    Write(kEntries, 3, header, "aq");
  }
  LeafRead Read() { return ReadLeaf(block_, kLeafPlace, kStore, &image_); }

  // "pea", "pear", "plum"
  static constexpr std::string_view kEntries{"\0\3pea\3\1r\1\3lum", 13};
  std::vector<std::byte> block_ = std::vector<std::byte>(kLeafBlockSize);
  LeafImage image_;
};

TEST_F(LeafBlockTest, ALeafNamesItsKeysAndFences) {
  WriteGood();
  ASSERT_EQ(Read(), LeafRead::kVerified);
  ASSERT_EQ(image_.keys.size(), 3u);
  EXPECT_EQ(image_.keys[0], "pea");
  EXPECT_EQ(image_.keys[1], "pear");
  EXPECT_EQ(image_.keys[2], "plum");
  EXPECT_EQ(image_.low, "pa");
  EXPECT_EQ(image_.high, "q");
  EXPECT_EQ(image_.next, 4 * kLeafBlockSize);
  EXPECT_FALSE(image_.Covers("p"));
  EXPECT_TRUE(image_.Covers("pa"));
  EXPECT_TRUE(image_.Covers("pz"));
  EXPECT_FALSE(image_.Covers("q"));
  EXPECT_FALSE(image_.CoversBelow("pa"));
  EXPECT_TRUE(image_.CoversBelow("pb"));
  EXPECT_TRUE(image_.CoversBelow("q"));
  EXPECT_FALSE(image_.CoversBelow("qa"));
  EXPECT_FALSE(image_.CoversBelow(""));
}

TEST_F(LeafBlockTest, TheLastLeafHasNoHighFence) {
  Write(kEntries, 3, {}, "");
  ASSERT_EQ(Read(), LeafRead::kVerified);
  EXPECT_EQ(image_.low, "");
  EXPECT_FALSE(image_.has_high);
  EXPECT_TRUE(image_.Covers("z"));
  EXPECT_TRUE(image_.CoversBelow(""));
}

// All that the leaf says, its place and its store.
TEST_F(LeafBlockTest, NoBitMayBeAnother) {
  WriteGood();
  const std::size_t used = sizeof(LeafHeader) + kEntries.size();
  for (std::size_t at = 0; at < kLeafBlockSize; ++at) {
    if (at == used) at = kLeafBlockSize - 2;  // unused bytes
    for (int bit = 0; bit < 8; ++bit) {
      block_[at] ^= std::byte(1 << bit);
      ASSERT_EQ(Read(), LeafRead::kTorn) << at;
      block_[at] ^= std::byte(1 << bit);
    }
  }
  EXPECT_EQ(ReadLeaf(block_, kLeafPlace + kLeafBlockSize, kStore, &image_), LeafRead::kTorn);
  EXPECT_EQ(ReadLeaf(block_, kLeafPlace, kStore + 1, &image_), LeafRead::kTorn);
  EXPECT_EQ(Read(), LeafRead::kVerified);
  std::memset(block_.data(), 0, sizeof(std::uint64_t));
  EXPECT_EQ(Read(), LeafRead::kDead);
}

// A server could do that.
TEST_F(LeafBlockTest, WhatBreaksTheFormatIsRejectedThoughItVerifies) {
  const auto expect_malformed = [&](std::string_view entries, std::size_t count, const LeafHeader& header,
                                    std::string_view fences) {
    Write(entries, count, header, fences);
    EXPECT_EQ(Read(), LeafRead::kMalformed);
  };
  expect_malformed(kEntries, 2, {}, "");
  expect_malformed(kEntries, 4, {}, "");
  expect_malformed("", 0, {}, "");
  expect_malformed({"\0\0", 2}, 1, {}, "");        // an empty key
  expect_malformed({"\1\1a", 3}, 1, {}, "");       // shares bytes of no key
  expect_malformed({"\0\1a\2\1b", 6}, 2, {}, "");  // shares more than there is
  expect_malformed({"\0\1b\0\1a", 6}, 2, {}, "");  // descends
  expect_malformed({"\0\1a\0\1a", 6}, 2, {}, "");  // the same key twice
  expect_malformed({"\0\2a", 3}, 1, {}, "");       // is cut
  expect_malformed({"\0\xe5", 2}, 1, {}, "");      // is cut inside a number
  expect_malformed({"\xff", 1}, 1, {}, "");
  expect_malformed(kEntries, 3, Fences(4, 0, 0, 0), "");   // more bytes than the first key has
  expect_malformed(kEntries, 3, Fences(0, 1, 0, 0), "q");  // a low fence above the first key
  expect_malformed(kEntries, 3, Fences(0, 0, 0, 1), "p");  // a high fence below the last one
  expect_malformed(kEntries, 3, Fences(0, 0, 4, 1), "z");
  LeafHeader reserved{};
  reserved.reserved = 1;
  expect_malformed(kEntries, 3, reserved, "");
  Write(kEntries, 3, Fences(0, 2000, 0, 2000), "");
  EXPECT_EQ(Read(), LeafRead::kTorn) << "sizes beyond the block";
}

TEST_F(LeafBlockTest, PlacesAreBlocksInTheRegion) {
  constexpr std::uint64_t kSize = 4 * kSegmentSize;
  EXPECT_TRUE(IsLeafPlace(kSegmentSize, kSize));
  EXPECT_TRUE(IsLeafPlace(kSize - kLeafBlockSize, kSize));
  EXPECT_FALSE(IsLeafPlace(0, kSize));
  EXPECT_FALSE(IsLeafPlace(kSegmentSize + 1024, kSize));
  EXPECT_FALSE(IsLeafPlace(kSize, kSize));
  EXPECT_FALSE(IsLeafPlace(~std::uint64_t{0} / kLeafBlockSize * kLeafBlockSize, kSize));
}

// --- The leaves of a set --------------------------------------------------------------------------------

struct LeafMix {
  const char* name;
  OrderedKeys::Shape shape;
  std::size_t stem;  // bytes that all keys begin with
  std::uint64_t keys;
  bool has_large = false;  // some keys, or fences, do not fit into a block
};

/// A set in blocks of a region, beside a std::set.
class OrderedLeavesTest : public testing::TestWithParam<LeafMix> {
 protected:
  std::string AnyKey() {
    const std::uint64_t number = random_() % GetParam().keys;
    std::string key = std::string(GetParam().stem, 's') + std::to_string(number);
    if (!GetParam().has_large) return key;
    std::mt19937_64 of_key(number);
    key.insert(0, of_key() % 900, 'x');
    return key + std::string(of_key() % 8 == 0 ? 3000 : 0, 'y');
  }
  bool Verifies(std::uint64_t place, LeafImage* image) const {
    return ReadLeaf(std::span<const std::byte>(parts_.region).subspan(place, kLeafBlockSize), place,
                    kTestIncarnation, image) == LeafRead::kVerified;
  }
  /// Returns the images that a client could READ, by their low fences, wherever they are.
  std::map<std::string, LeafImage> AllImages() const {
    std::map<std::string, LeafImage> images;
    for (SegmentNumber i = 0; i < parts_.segments.count(); ++i) {
      if (parts_.segments[i].use != SegmentUse::kIndex) continue;
      for (std::size_t block = 0; block < kLeavesPerSegment; ++block) {
        LeafImage image;
        if (!Verifies(i * kSegmentSize + block * kLeafBlockSize, &image)) continue;
        const std::string low = image.low;
        EXPECT_TRUE(images.emplace(low, std::move(image)).second) << "two leaves of one range";
      }
    }
    return images;
  }
  /// B4: the images have all keys, each has those of its range, and the ranges follow each other.
  void ExpectImagesOfTheSet() {
    const bool all_fit = !GetParam().has_large;
    ASSERT_EQ(keys_.FindFault(), "");
    std::set<std::string> seen;
    std::set<std::uint64_t> versions;
    const std::map<std::string, LeafImage> images = AllImages();
    for (auto image = images.begin(); image != images.end(); ++image) {
      const auto from = model_.lower_bound(image->first);
      const auto to = image->second.has_high ? model_.lower_bound(image->second.high) : model_.end();
      std::vector<std::string> has;
      for (std::size_t i = 0; i < image->second.keys.size(); ++i) has.emplace_back(image->second.keys[i]);
      ASSERT_EQ(has, std::vector<std::string>(from, to));
      ASSERT_TRUE(versions.insert(image->second.version).second) << "B2";
      seen.insert(from, to);
      if (!all_fit) continue;
      const auto next = std::next(image);
      ASSERT_EQ(image->second.has_high, next != images.end());
      if (next == images.end()) continue;
      ASSERT_EQ(image->second.high, next->first);
      LeafImage linked;
      ASSERT_TRUE(Verifies(image->second.next, &linked));
      ASSERT_EQ(linked.low, next->first);
    }
    if (!all_fit) return;
    ASSERT_EQ(seen, model_);
    ASSERT_EQ(blocks_.used(), images.size());
  }
  void ExpectLeavesByKey() {
    for (int i = 0; i < 20 && !model_.empty(); ++i) {
      const std::string key = AnyKey();
      LeafImage image;
      const OrderedLeaf* leaf = keys_.LeafOf(key);
      ASSERT_TRUE(leaf->is_readable() && Verifies(leaf->place(), &image));
      ASSERT_TRUE(image.Covers(key));
      leaf = keys_.LeafBelow(key);
      ASSERT_TRUE(leaf->is_readable() && Verifies(leaf->place(), &image));
      ASSERT_TRUE(image.CoversBelow(key) || leaf->previous() == nullptr);
      leaf = keys_.LeafBelow("");
      ASSERT_TRUE(Verifies(leaf->place(), &image) && !image.has_high);
    }
  }

  StoreParts parts_{8};
  LeafBlocks blocks_{parts_.region, parts_.segments, kTestIncarnation};
  OrderedKeys keys_{GetParam().shape, &blocks_};
  std::set<std::string> model_;
  std::mt19937_64 random_{GetParam().keys};
};

TEST_P(OrderedLeavesTest, ImagesAreThoseOfTheSet) {
  int changes = 0;
  for (const unsigned insert_percent : {90u, 50u, 20u, 60u, 5u, 80u, 0u}) {
    for (std::uint64_t i = 0; i < 3 * GetParam().keys; ++i) {
      const std::string key = AnyKey();
      if (random_() % 100 < insert_percent) {
        ASSERT_EQ(keys_.Insert(key), model_.insert(key).second);
      } else {
        ASSERT_EQ(keys_.Erase(key), model_.erase(key) == 1);
      }
      if (++changes % 61 != 0) continue;
      ASSERT_NO_FATAL_FAILURE(ExpectImagesOfTheSet());
      if (GetParam().has_large) continue;
      ASSERT_NO_FATAL_FAILURE(ExpectLeavesByKey());
    }
  }
  for (const std::string& key : std::set(model_)) ASSERT_TRUE(keys_.Erase(key));
  model_.clear();
  ASSERT_NO_FATAL_FAILURE(ExpectImagesOfTheSet());
  EXPECT_EQ(blocks_.used(), 0u);
  EXPECT_EQ(keys_.LeafOf("a"), nullptr);
  EXPECT_EQ(keys_.LeafBelow(""), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Mixes, OrderedLeavesTest,
                         testing::Values(LeafMix{"Tiny", {.leaf_capacity = 24, .fanout = 4}, 0, 300},
                                         LeafMix{"LongStems", {.leaf_capacity = 400, .fanout = 4}, 250, 300},
                                         LeafMix{"Large", {.fanout = 4}, 0, 400, true},
                                         LeafMix{"Usual", {}, 3, 3000}),
                         [](const auto& mix) { return std::string(mix.param.name); });

class LeafMemoryTest : public testing::Test {
 protected:
  StoreParts parts_{8};
  LeafBlocks blocks_{parts_.region, parts_.segments, kTestIncarnation};
};

// They are in private memory, and the leaves beside them can still be READ.
TEST_F(LeafMemoryTest, LeavesThatDoNotFitCannotBeRead) {
  OrderedKeys keys({}, &blocks_);
  const std::string large(3000, 'l');
  ASSERT_TRUE(keys.Insert(large));
  ASSERT_TRUE(keys.Insert("a"));
  ASSERT_TRUE(keys.Insert("z"));
  ASSERT_EQ(keys.FindFault(), "");
  EXPECT_FALSE(keys.LeafOf(large)->is_readable());
  ASSERT_TRUE(keys.Erase(large));
  ASSERT_EQ(keys.FindFault(), "");
  EXPECT_TRUE(keys.LeafOf("b")->is_readable());
  EXPECT_EQ(keys.LeafOf("b"), keys.LeafBelow(""));
}

// The high fence of the first leaf has nothing in common with its first key, and is nearly as large as the
// block.
TEST_F(LeafMemoryTest, ALeafWhoseFencesDoNotFitIsDead) {
  OrderedKeys keys({}, &blocks_);
  const std::string stem(1900, 'b');
  ASSERT_TRUE(keys.Insert("a"));
  for (int i = 100; i < 150; ++i) {
    ASSERT_TRUE(keys.Insert(stem + std::to_string(i)));
    ASSERT_EQ(keys.FindFault(), "");
  }
  EXPECT_NE(keys.LeafOf("a")->place(), 0u);
  EXPECT_FALSE(keys.LeafOf("a")->is_readable());
  EXPECT_TRUE(keys.LeafOf("c")->is_readable());
}

// Without a free segment, leaves are in private memory. Once there is one, those that change move there.
TEST_F(LeafMemoryTest, ALeafMovesToABlockOnceThereIsOne) {
  std::vector<SegmentNumber> taken;
  while (const auto segment = parts_.segments.Take(SegmentUse::kLogHead, LeafBlocks::kLeft)) {
    taken.push_back(*segment);
  }
  OrderedKeys keys({}, &blocks_);
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(keys.Insert("key " + std::to_string(i)));
  ASSERT_EQ(keys.FindFault(), "");
  EXPECT_FALSE(keys.LeafOf("key 3")->is_readable());
  EXPECT_EQ(parts_.segments.free_count(), LeafBlocks::kLeft);
  parts_.segments.Extend(taken.back(), parts_.segments[taken.back()].begin + 64);
  parts_.segments.Seal(taken.back(), parts_.segments[taken.back()].begin + 64, parts_.now);
  parts_.segments.Drop(parts_.segments[taken.back()].begin, 64);
  parts_.segments.Retire(taken.back(), parts_.now);
  parts_.segments.StartGracePeriod(parts_.now);
  parts_.segments.Release(parts_.now + kTestRest);
  ASSERT_TRUE(keys.Insert("key 3 and more"));
  EXPECT_TRUE(keys.LeafOf("key 3")->is_readable());
  EXPECT_EQ(keys.FindFault(), "");
}

TEST_F(LeafMemoryTest, LeavesTakeAQuarterOfTheSegmentsAtMost) {
  std::size_t blocks = 0;
  while (blocks_.Take() != nullptr) ++blocks;
  EXPECT_EQ(blocks, parts_.segments.count() / 4 * kLeavesPerSegment);
}

// Bytes of records that look like a leaf were written before the segment had leaves (B3).
TEST_F(LeafMemoryTest, ASegmentHasNoLeavesAtFirst) {
  const SegmentNumber next = parts_.segments.Take(SegmentUse::kLogHead, 0).value();
  std::byte* const begin = parts_.region.data() + (next + std::size_t{1}) * kSegmentSize;
  std::memset(begin, 0x5a, kSegmentSize);
  std::byte* const block = blocks_.Take();
  ASSERT_GE(block, begin);
  ASSERT_LT(block, begin + kSegmentSize);
  LeafImage image;
  for (std::size_t i = 0; i < kLeavesPerSegment; ++i) {
    ASSERT_EQ(ReadLeaf({begin + i * kLeafBlockSize, kLeafBlockSize},
                       blocks_.OffsetOf(begin) + i * kLeafBlockSize, kTestIncarnation, &image),
              LeafRead::kDead);
  }
}

// In between, clients may still find the record (B4).
TEST_F(LeafMemoryTest, AKeyStaysInItsLeafUntilTheHashIndexHasLostIt) {
  OrderedIndex ordered(parts_.log, kSegmentSize, parts_.region, parts_.segments, kTestIncarnation);
  ASSERT_TRUE(parts_.Put("key", "value"));
  ordered.NoteInsert("key");
  ordered.NoteRemove(parts_.PlaceOf("key"));
  EXPECT_TRUE(ordered.keys().Has("key"));
  ASSERT_TRUE(parts_.Erase("key"));
  ordered.FinishRemove();
  EXPECT_FALSE(ordered.keys().Has("key"));
}

}  // namespace
}  // namespace remora
