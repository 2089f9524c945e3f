// The search for one key, as every reader does it: the store in its own memory, a client with READs. It says
// what to read next, is given a private copy of that, and judges it. A pure state machine.
//
//   for (KeySearch search(key, key_hash, shape);;) {
//     switch (search.step()) {
//       case kReadBucket: search.TakeBucket(copy of bucket number search.bucket()); break;
//       case kReadRecord: search.TakeRecord(copy of what is at search.slot()); break;
//       case kFound:      the last record taken holds the value
//       case kMissing:    at some moment since the search began, the key was not there
//       case kUnsure:     something changed meanwhile: begin again
//
// Why a miss is proven: store/format/layout.h, I1 to I3. What is left to chance: that a torn slot of our key
// spells exactly the place at which another key of the same bucket and fingerprint is published between our
// two READs. A torn slot that spells the place of a record published before is caught here: no two slots say
// the same.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "store/format/layout.h"
#include "store/format/lookup.h"
#include "store/format/record.h"

namespace remora {

/// What a search has to know of a store. Fixed from its start to its stop (see Superblock).
struct StoreShape {
  std::uint64_t bucket_count = 0;
  std::uint64_t overflow_count = 0;
  std::uint64_t log_size = 0;
  std::uint64_t incarnation = 0;
};

class KeySearch {
 public:
  enum class Step : std::uint8_t { kReadBucket = 1, kReadRecord, kFound, kMissing, kUnsure };

  /// `key` must outlive the search.
  KeySearch(std::string_view key, std::uint64_t key_hash, const StoreShape& shape)
      : key_(key), key_hash_(key_hash), shape_(shape), bucket_(MainBucket(key_hash, shape.bucket_count)) {}

  Step step() const { return step_; }
  /// kReadBucket: the number of the bucket to read.
  std::uint64_t bucket() const { return bucket_; }
  /// kReadRecord, kFound: the record's place, inside the log.
  const Slot& slot() const { return slot_; }

  /// REQUIRES: kReadBucket. `copy` must stay as it is until the next kReadBucket.
  void TakeBucket(const Bucket& copy) {
    copy_ = &copy;
    candidates_ = FindSlots(copy, key_hash_);
    Advance();
  }

  /// REQUIRES: kReadRecord. As CheckRecord.
  void TakeRecord(const RecordHeader& header, const std::byte* body) {
    const RecordPlace place{slot_.offset_units, slot_.extent_bytes(), shape_.bucket_count,
                            shape_.incarnation};
    switch (CheckRecord(header, body, key_, key_hash_, place)) {
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
  /// On to the next candidate, the next bucket or the end.
  void Advance() {
    while (!candidates_.empty()) {
      const std::uint64_t word = copy_->slots[static_cast<std::size_t>(candidates_.Next())];
      slot_ = DecodeSlot(word);
      const auto* foreign_end = foreign_.data() + foreign_count_;
      if (!SlotNamesPlace(slot_, shape_.log_size) || foreign_count_ == foreign_.size() ||
          std::find(static_cast<const std::uint64_t*>(foreign_.data()), foreign_end, word) != foreign_end) {
        unsure_ = true;
        continue;
      }
      step_ = Step::kReadRecord;
      return;
    }
    const std::uint32_t next = ControlOverflow(copy_->control);
    const bool next_exists =
        next >= shape_.bucket_count && next - shape_.bucket_count < shape_.overflow_count;
    if (!ControlIsWhole(copy_->control) || (next != 0 && !next_exists)) {
      step_ = Step::kUnsure;
    } else if (next != 0) {
      bucket_ = next;
      step_ = Step::kReadBucket;
    } else {
      step_ = unsure_ ? Step::kUnsure : Step::kMissing;
    }
  }

  const std::string_view key_;
  const std::uint64_t key_hash_;
  const StoreShape& shape_;

  Step step_ = Step::kReadBucket;
  bool unsure_ = false;  // a candidate was neither the key's live record nor another key's
  std::uint64_t bucket_;
  const Bucket* copy_ = nullptr;
  SlotSet candidates_{0};
  Slot slot_;
  // Slots that led to other keys' records, in the whole chain. More than fit in here are left to the server.
  std::array<std::uint64_t, 8> foreign_;
  std::size_t foreign_count_ = 0;
};

}  // namespace remora
