// The first steps of a search where a READ is a copy (rdma/mapped_region.h), written out: the key's main
// bucket, of the depth that was expected, and the record of its first slot with the key's fingerprint. That
// is what nearly all GETs come to, in half of the instructions of a search (store/format/key_search.h), which
// goes on from here where it was not.
//
//   FirstLook look;
//   if (look.FindBucket(...) && look.ReadBucket(...) && look.ReadRecord(...)) {
//     look.record() is the key's, live and verified: judge it, if no more than the grace period went by
//   } else {
//     search, and Tell it what was read
//   }
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "client/get_steps.h"
#include "client/session.h"
#include "store/format/key_search.h"
#include "store/format/layout.h"
#include "store/format/lookup.h"

namespace remora {

/// Thread Safety: none.
class FirstLook {
 public:
  /// Whether it is of use: READs are copies, and no places are remembered.
  static bool IsFor(Session& session) { return session.reads_now() && !session.locations().is_on(); }

  // In this order, each behind one that returned true; between them, others may make theirs. `start`: not
  // later.
  bool FindBucket(Session& session, std::uint64_t key_hash, TimePoint start) {
    start_ = start;
    home_ = session.view().HomeOf(key_hash);
    const std::optional<std::uint64_t> offset = session.KnownOffsetOf({false, home_.bucket});
    bucket_offset_ = offset.value_or(0);
    return offset.has_value();
  }
  void PrefetchBucket(Session& session) const { session.Prefetch(bucket_offset_, sizeof(Bucket)); }

  /// `bucket` stays as it is as long as this is in use.
  bool ReadBucket(Session& session, std::uint64_t key_hash, Bucket* bucket) {
    if (!session.ReadNow(std::as_writable_bytes(std::span(bucket, 1)), bucket_offset_)) return false;
    bucket_ = bucket;
    if (std::max(ControlDepth(bucket->control), session.shape().base_depth) != home_.depth) return false;
    SlotSet slots = FindSlots(*bucket, key_hash);
    if (slots.empty()) return false;
    slot_ = DecodeSlot(bucket->slots[static_cast<std::size_t>(slots.Next())]);
    return SlotNamesPlace(slot_, session.shape().memory_size) && slot_.extent_bytes() <= kMaxSmallExtent;
  }
  void PrefetchRecord(Session& session) const {
    session.Prefetch(slot_.offset_bytes(), std::min(slot_.extent_bytes(), kPrefetched));
  }

  /// To the beginning of `buffer`, which holds extent_bytes() at least.
  bool ReadRecord(Session& session, std::string_view key, std::uint64_t key_hash,
                  std::span<std::byte> buffer) {
    const std::span<std::byte> copy = buffer.first(slot_.extent_bytes());
    if (!session.ReadNow(copy, slot_.offset_bytes())) return false;
    const RecordPlace place{slot_.offset_units, copy.size(), home_, session.shape().incarnation};
    JudgeCopy(copy, key, key_hash, place, &record_);
    has_record_ = true;
    return record_.state == RecordState::kLive;
  }

  TimePoint start() const { return start_; }
  std::size_t extent_bytes() const { return slot_.extent_bytes(); }
  /// As long as the buffer is what it was.
  const RecordCopy& record() const { return record_; }
  bool has_bucket() const { return bucket_ != nullptr; }
  /// Tells a search that has just begun what it would have read. Since the look began, others may have
  /// learned that the index has grown, so that the search begins at another bucket: then that is of no use to
  /// it. REQUIRES: has_bucket().
  void Tell(KeySearch* search) const {
    if (search->bucket() != BucketRef{false, home_.bucket}) return;
    search->TakeBucket(*bucket_);
    if (has_record_ && search->step() == KeySearch::Step::kReadRecord) search->TakeJudged(record_.state);
  }

 private:
  // The bytes at the start of a record that are worth fetching before they are copied; what follows comes by
  // the processor's own foresight.
  static constexpr std::uint64_t kPrefetched = 1024;

  TimePoint start_;
  Home home_;
  std::uint64_t bucket_offset_ = 0;
  const Bucket* bucket_ = nullptr;
  Slot slot_;
  bool has_record_ = false;
  RecordCopy record_;
};

}  // namespace remora
