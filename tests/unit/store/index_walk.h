// Walks a whole index by its bytes, as layout.h describes them, and reports the first error.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "store_parts.h"

namespace remora {

/// The keys and values that the store should hold.
using Model = std::map<std::string, std::string>;

class IndexWalk {
 public:
  /// `settled`: no grace period runs, so no entry is there twice, and no overflow bucket is empty.
  IndexWalk(const StoreParts& parts, const Model& model, bool settled)
      : parts_(parts), model_(model), settled_(settled), view_(parts.index.view()) {}

  void Check() {
    const std::uint64_t buckets = (std::uint64_t{1} << view_.level) + view_.split;
    ASSERT_EQ(parts_.index.bucket_count(), buckets);
    const auto* superblock = reinterpret_cast<const Superblock*>(parts_.region.data());
    ASSERT_EQ(superblock->level, view_.level);
    for (std::uint64_t number = 0; number < buckets; ++number) {
      ASSERT_NO_FATAL_FAILURE(CheckChain(number)) << "main bucket " << number;
    }
    ASSERT_EQ(keys_.size(), model_.size()) << "keys that are not in the index";
    ASSERT_EQ(parts_.index.cold_count(), cold_);
    ASSERT_EQ(parts_.index.entry_count(), model_.size());
    ASSERT_EQ(parts_.segments.live_bytes(), live_bytes_);
    ASSERT_LE(overflow_.size(), parts_.index.overflow_count());
    if (settled_) {
      ASSERT_EQ(overflow_.size(), parts_.index.overflow_count()) << "overflow buckets that are lost";
    }
  }

 private:
  void CheckChain(std::uint64_t number) {
    ASSERT_TRUE(DirectoryEntryIsWhole(parts_.DirectoryEntry(number)));
    CheckIsIndexSegment(DirectoryEntrySegment(parts_.DirectoryEntry(number)));
    const Bucket* bucket = &parts_.Main(number);
    const bool was_split = number < view_.split || number >= std::uint64_t{1} << view_.level;
    home_ = {number, view_.level + (was_split ? 1 : 0)};
    ASSERT_EQ(std::max(ControlDepth(bucket->control), parts_.shape.base_depth), home_.depth);
    words_.clear();
    for (;;) {
      ASSERT_TRUE(ControlIsWhole(bucket->control));
      ASSERT_NO_FATAL_FAILURE(CheckSlots(*bucket));
      const std::uint64_t link = ControlLink(bucket->control);
      if (link == 0) return;
      ASSERT_TRUE(LinkNamesPlace(link, parts_.shape.memory_size));
      ASSERT_TRUE(overflow_.insert(link).second) << "an overflow bucket in two chains, or a circle";
      CheckIsIndexSegment(link / kBucketsPerSegment);
      if (settled_) {
        for (const std::uint64_t word : bucket->slots) ASSERT_NE(word, 0u) << "a hole before the last bucket";
      }
      bucket = &parts_.BucketAt(link);
      if (settled_) {
        ASSERT_NE(bucket->slots, Bucket{}.slots) << "an empty overflow bucket";
      }
    }
  }

  void CheckSlots(const Bucket& bucket) {
    for (const std::uint64_t word : bucket.slots) {
      if (word == 0) continue;
      if (SlotIsCold(word)) {
        ASSERT_NO_FATAL_FAILURE(CheckColdSlot(word));
        continue;
      }
      const Slot slot = DecodeSlot(word);
      const Place place = Place::Of(slot);
      ASSERT_TRUE(SlotNamesPlace(slot, parts_.shape.memory_size));
      const Segments::Use use =
          parts_.segments[static_cast<SegmentNumber>(slot.offset_bytes() / kSegmentSize)].use;
      ASSERT_TRUE(use == Segments::Use::kLog || use == Segments::Use::kLogHead ||
                  use == Segments::Use::kRetired)
          << "a slot that names memory used for something else";
      const std::string key(parts_.log.Key(place));
      ASSERT_EQ(slot.fingerprint, Fingerprint(HashKey(key)));
      const bool first = words_.insert(word).second;
      const bool current = first && parts_.log.IsLive(place) && Belongs(HashKey(key), home_);
      ASSERT_TRUE(current || !settled_) << key << " was left behind";
      if (!current) continue;
      ASSERT_TRUE(keys_.insert(key).second) << key << " is there twice";
      const auto expected = model_.find(key);
      ASSERT_NE(expected, model_.end()) << key << " was erased";
      ASSERT_EQ(parts_.log.Value(place), expected->second) << key;
      live_bytes_ += place.extent_bytes();
    }
  }

  void CheckColdSlot(std::uint64_t word) {
    const auto found = by_cold_word_.find(word);
    // A cold key that was promoted, erased or copied to
    // another bucket leaves a slot behind for a grace period.
    const bool current =
        found != by_cold_word_.end() && Belongs(word, home_) && keys_.insert(found->second).second;
    ASSERT_TRUE(current || !settled_) << "a cold slot was left behind";
    if (current) ++cold_;
  }
  static std::map<std::uint64_t, std::string> ByColdWord(const StoreParts& parts, const Model& model) {
    std::map<std::uint64_t, std::string> keys;
    for (const auto& [key, value] : model) {
      if (parts.IsCold(key)) keys[EncodeColdSlot(HashKey(key))] = key;
    }
    return keys;
  }

  void CheckIsIndexSegment(std::uint64_t segment) const {
    EXPECT_EQ(parts_.segments[static_cast<SegmentNumber>(segment)].use, Segments::Use::kIndex);
  }

  const StoreParts& parts_;
  const Model& model_;
  const bool settled_;
  const std::map<std::uint64_t, std::string> by_cold_word_ = ByColdWord(parts_, model_);
  const IndexView view_;
  Home home_;
  std::set<std::uint64_t> words_;     // slots of the current chain
  std::set<std::uint64_t> overflow_;  // places of the overflow buckets so far
  std::set<std::string> keys_;
  std::uint64_t live_bytes_ = 0;
  std::uint64_t cold_ = 0;
};

}  // namespace remora
