// The search for one key, as every reader does it: the store in its own memory, a client with READs. It says
// what to read next, is given a private copy of that, and judges it. A pure state machine.
//
//   IndexView view;  // what is known of the index' growth; the search learns
//   for (KeySearch search(key, key_hash, store, &view);;) {
//     switch (search.step()) {
//       case kReadBucket: search.TakeBucket(copy of the bucket search.bucket()); break;
//       case kReadRecord: search.TakeRecord(copy of what is at search.slot()); break;
//       case kFound:      the last record taken holds the value
//       case kCold:       the record is, or was a moment ago, only in the durable tier: ask the store
//       case kMissing:    at some moment since the search began, the key was not there
//       case kUnsure:     something changed meanwhile: begin again
//
// kFound and kMissing hold only if no more than the grace period went by since the search began
// (layout.h, I6): the driver of the search reads a clock.
//
// Why a miss is proven: store/format/memory/layout.h, I1 to I3. One case is left to chance. A torn
// slot of our key spells exactly the place at which another key of the same bucket and fingerprint
// is published between our two READs. A torn slot that spells the place of a record published
// before is caught here. No two slots name the same place, but for a moment while an entry is
// copied inside its chain.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "store/format/memory/index_view.h"
#include "store/format/memory/layout.h"
#include "store/format/memory/record.h"

namespace remora {

/// Properties of a store that a search needs. Fixed from its start to its stop (see Superblock).
struct StoreShape {
  std::uint64_t memory_size = 0;
  std::uint64_t incarnation = 0;
  std::uint32_t base_depth = 0;
};

inline StoreShape ShapeOf(const Superblock& superblock) {
  return {.memory_size = superblock.memory_size,
          .incarnation = superblock.incarnation,
          .base_depth = static_cast<std::uint32_t>(superblock.base_depth & 0xff)};
}

/// A bucket to read: a main one by its number, which the directory makes a place of; an overflow bucket by
/// its place, counted in buckets from the region's start.
struct BucketRef {
  bool overflow = false;
  std::uint64_t number = 0;

  friend constexpr bool operator==(const BucketRef&, const BucketRef&) = default;
};

class KeySearch {
 public:
  enum class Step : std::uint8_t { kReadBucket = 1, kReadRecord, kFound, kCold, kMissing, kUnsure };

  /// `key`, `shape` and `view` must outlive the search.
  KeySearch(std::string_view key, std::uint64_t key_hash, const StoreShape& shape, IndexView* view)
      : key_(key),
        key_hash_(key_hash),
        shape_(shape),
        view_(view),
        home_(view->HomeOf(key_hash)),
        bucket_{false, home_.bucket} {}

  Step step() const { return step_; }
  /// kReadBucket.
  const BucketRef& bucket() const { return bucket_; }
  /// kReadRecord, kFound: the record's place, inside the region.
  const Slot& slot() const { return slot_; }

  /// REQUIRES: kReadBucket. `copy` must stay as it is until the next kReadBucket.
  void TakeBucket(const Bucket& copy) {
    if (!bucket_.overflow) {
      const std::uint32_t depth = std::max(ControlDepth(copy.control), shape_.base_depth);
      if (depth < home_.depth || depth > kMaxDepth) {
        step_ = Step::kUnsure;
        return;
      }
      if (depth > home_.depth) {
        view_->Saw(home_.bucket, depth);
        home_ = NextHome(key_hash_, home_, depth);
        if (home_.bucket != bucket_.number) {
          bucket_.number = home_.bucket;
          return;
        }
      }
    }
    copy_ = &copy;
    candidates_ = FindSlots(copy, key_hash_);
    Advance();
  }

  /// It cannot go on, or took too long.
  void GiveUp() { step_ = Step::kUnsure; }

  /// REQUIRES: kReadRecord. As CheckRecord.
  void TakeRecord(const RecordHeader& header, const std::byte* body) {
    TakeJudged(CheckRecord(header, body, key_, key_hash_, place()));
  }
  /// Place of the record, for a caller that judges it in parts (JudgeRecord).
  RecordPlace place() const { return {slot_.offset_units, slot_.extent_bytes(), home_, shape_.incarnation}; }
  void TakeJudged(RecordState state) {
    switch (state) {
      case RecordState::kLive:
        step_ = Step::kFound;
        return;
      case RecordState::kForeign:
        foreign_[foreign_count_++] = EncodeSlot(slot_);
        break;
      case RecordState::kDead:
      case RecordState::kTorn:
        unsure_ = true;
        break;
    }
    Advance();
  }

 private:
  // Longer is no chain.
  static constexpr int kMaxChain = 64;

  /// On to the next candidate, the next bucket or the end.
  void Advance() {
    while (!candidates_.empty()) {
      const std::uint64_t word = copy_->slots[static_cast<std::size_t>(candidates_.Next())];
      if (SlotIsCold(word)) {
        // Another key's is passed over; so is one that is torn, for which there is another slot (I2).
        cold_ = cold_ || word == EncodeColdSlot(key_hash_);
        continue;
      }
      slot_ = DecodeSlot(word);
      const auto* foreign_end = foreign_.data() + foreign_count_;
      if (!SlotNamesPlace(slot_, shape_.memory_size) || foreign_count_ == foreign_.size() ||
          std::find(static_cast<const std::uint64_t*>(foreign_.data()), foreign_end, word) != foreign_end) {
        unsure_ = true;
        continue;
      }
      step_ = Step::kReadRecord;
      return;
    }
    const std::uint64_t link = ControlLink(copy_->control);
    if (!ControlIsWhole(copy_->control) || !LinkNamesPlace(link, shape_.memory_size) ||
        ++chain_ > kMaxChain) {
      step_ = Step::kUnsure;
    } else if (link != 0) {
      bucket_ = {true, link};
      step_ = Step::kReadBucket;
    } else if (cold_) {
      // Only now: a record that was brought back a moment ago has its slot beside the cold one.
      step_ = Step::kCold;
    } else {
      step_ = unsure_ ? Step::kUnsure : Step::kMissing;
    }
  }

  const std::string_view key_;
  const std::uint64_t key_hash_;
  const StoreShape& shape_;
  IndexView* const view_;

  Step step_ = Step::kReadBucket;
  bool unsure_ = false;  // a candidate was neither the key's live record nor another key's
  bool cold_ = false;    // a slot says that the key is cold
  Home home_;
  BucketRef bucket_;
  int chain_ = 0;
  const Bucket* copy_ = nullptr;
  SlotSet candidates_{0};
  Slot slot_;
  // Slots that led to other keys' records, in the whole chain. More than fit in here are left to the server.
  std::array<std::uint64_t, 8> foreign_;
  std::size_t foreign_count_ = 0;
};

}  // namespace remora
