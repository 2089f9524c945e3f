#include "client/mirror/mirror_frames.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>

namespace remora {
namespace {

// A frame's memory comes as zeros, so its fields are plain ones. Threads access them by these functions. The
// orders are those of M7: the change that a load sees happened after its frame was taken, so a later load of
// the version shows that. A holder may load without these, as nobody else stores.
template <typename T>
T Load(const T& field) {
  // std::atomic_ref<const T> needs a later C++. The cast is safe, because a load does not write.
  return std::atomic_ref<T>(const_cast<T&>(field)).load(std::memory_order_acquire);
}
template <typename T>
void Store(T& field, std::type_identity_t<T> value) {
  std::atomic_ref<T>(field).store(value, std::memory_order_release);
}

std::uint64_t SegmentOfWord(std::uint64_t word) { return SegmentGenerations::SegmentOf(DecodeSlot(word)); }

std::uint32_t FingerprintOf(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 52); }

/// Returns whether a slot of a bulk READ has a proof (M2), and leads to a record that one READ gets.
bool IsOfUse(std::uint64_t word, const RetiredSegments& retired, const SegmentGenerations& generations) {
  if (word == 0 || SlotIsCold(word)) return false;
  const Slot slot = DecodeSlot(word);
  if (!SlotNamesPlace(slot, retired.memory_size()) || slot.extent_bytes() > kMaxSmallExtent) return false;
  const std::uint64_t segment = SegmentGenerations::SegmentOf(slot);
  return !retired.IsRetired(segment) && generations.IsUnchangedSince(segment, retired.StampOf(segment));
}

}  // namespace

/// Holds a frame, if no other thread does (M7, M9).
class MirrorFrames::Hold {
 public:
  explicit Hold(Frame& frame) : version_(frame.version), before_(version_.load(std::memory_order_relaxed)) {
    holds_ =
        before_ % 2 == 0 && version_.compare_exchange_strong(before_, before_ + 1, std::memory_order_acquire,
                                                             std::memory_order_relaxed);
  }
  /// Holds it if it still has the version that the caller saw.
  Hold(Frame& frame, std::uint32_t version) : version_(frame.version), before_(version) {
    holds_ = version_.compare_exchange_strong(before_, version + 1, std::memory_order_acquire,
                                              std::memory_order_relaxed);
  }
  ~Hold() {
    if (holds_) version_.store(before_ + 2, std::memory_order_release);
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  explicit operator bool() const { return holds_; }

 private:
  const std::atomic_ref<std::uint32_t> version_;
  std::uint32_t before_;
  bool holds_;
};

MirrorFrames::MirrorFrames(std::size_t bytes) : capacity_(bytes / sizeof(Frame)) {
  if (capacity_ == 0) return;
  // The size comes from the caller of Connect. The system has zeros of its own, so pages that no frame uses
  // are not touched.
  frames_.reset(static_cast<Frame*>(std::calloc(capacity_, sizeof(Frame))));
  if (frames_ != nullptr) return;
  lacks_memory_ = true;
  capacity_ = 0;
}

std::uint64_t MirrorFrames::GroupAt(std::size_t frame) const {
  const std::uint32_t group = Load(frames_.get()[frame].group);
  return group == 0 ? kNoGroup : group - 1;
}

bool MirrorFrames::HasFrame(std::uint64_t group) const {
  return capacity_ > 0 && Load(FrameAt(group).group) == group + 1;
}

std::size_t MirrorFrames::CountSlots() const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < frame_count(); ++i) count += Load(frames_.get()[i].begin[kBuckets]);
  return count;
}

MirrorFrames::Serving MirrorFrames::FrameOf(std::uint64_t bucket) const {
  if (capacity_ == 0) return {};
  for (std::uint64_t from = bucket;; from ^= std::bit_floor(from)) {
    const std::uint64_t group = GroupOf(from);
    Frame& frame = FrameAt(group);
    const std::uint32_t version = Load(frame.version);
    if (Load(frame.group) == group + 1) {
      // When the frame was READ, the keys of `bucket` were in `from`.
      const bool serves = from == bucket || BucketAtDepth(bucket, Load(frame.depth)) == from;
      if (!serves || version % 2 != 0) return {};
      return {&frame, version};
    }
    if (from < kBuckets) return {};
  }
}

MirrorFrames::Found MirrorFrames::Find(std::uint64_t bucket, std::uint32_t fingerprint,
                                       const SegmentGenerations& generations) const {
  const auto [frame, version] = FrameOf(bucket);
  if (frame == nullptr) return {};
  if (Load(frame->is_asked_for) == 0) Store(frame->is_asked_for, 1);
  const Stamp stamp = Load(frame->stamp);
  const std::size_t end = std::min<std::size_t>(Load(frame->begin[bucket % kBuckets + 1]), kSlots);
  Found found;
  for (std::size_t i = Load(frame->begin[bucket % kBuckets]); i < end; ++i) {
    const std::uint64_t word = Load(frame->slots[i]);
    if (FingerprintOf(word) != fingerprint) continue;
    // Loaded once: a later number would have no proof.
    const SegmentGenerations::Number number = generations.NumberOf(SegmentOfWord(word));
    if (number == 0 || number > stamp) continue;
    found = {word, number};
    break;
  }
  return Load(frame->version) == version ? found : Found{};
}

void MirrorFrames::PrefetchHead(std::uint64_t bucket) const {
  if (capacity_ == 0) return;
  const Frame& frame = FrameAt(GroupOf(bucket));
  __builtin_prefetch(&frame.version);
  __builtin_prefetch(&frame.begin.back());
}

void MirrorFrames::PrefetchSlots(std::uint64_t bucket) const {
  if (capacity_ == 0) return;
  const Frame& frame = FrameAt(GroupOf(bucket));
  const std::size_t begin = std::min<std::size_t>(Load(frame.begin[bucket % kBuckets]), kSlots - 1);
  const std::size_t end = std::min<std::size_t>(Load(frame.begin[bucket % kBuckets + 1]), kSlots - 1);
  __builtin_prefetch(&frame.slots[begin]);
  __builtin_prefetch(&frame.slots[end]);
}

/// Drops the slots whose segments changed since the frame's stamp, which becomes the count now (M8).
/// REQUIRES: the caller holds the frame.
void MirrorFrames::Sweep(Frame& frame, const SegmentGenerations& generations) {
  const Stamp now = generations.count();
  if (frame.stamp < generations.last_change()) {
    std::size_t kept = 0;
    std::size_t i = 0;
    for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
      const std::size_t end = frame.begin[bucket + 1];
      Store(frame.begin[bucket], static_cast<std::uint16_t>(kept));
      for (; i < end; ++i) {
        const std::uint64_t word = frame.slots[i];
        if (generations.IsUnchangedSince(SegmentOfWord(word), frame.stamp)) Store(frame.slots[kept++], word);
      }
    }
    Store(frame.begin[kBuckets], static_cast<std::uint16_t>(kept));
  }
  Store(frame.stamp, now);
}

std::size_t MirrorFrames::FindWord(const Frame& frame, std::uint64_t bucket, std::uint64_t word) {
  const auto* const begin = frame.slots.data() + frame.begin[bucket % kBuckets];
  const auto* const end = frame.slots.data() + frame.begin[bucket % kBuckets + 1];
  const auto* const found = std::find(begin, end, word);
  return found == end ? kSlots : static_cast<std::size_t>(found - frame.slots.data());
}

bool MirrorFrames::Add(std::uint64_t bucket, std::uint64_t word, Same same, Stamp stamp,
                       const SegmentGenerations& generations) {
  const auto [frame, version] = FrameOf(bucket);
  if (frame == nullptr || DecodeSlot(word).extent_bytes() > kMaxSmallExtent) return true;
  const Hold hold(*frame, version);
  if (!hold) return true;
  Sweep(*frame, generations);
  if (!generations.IsUnchangedSince(SegmentOfWord(word), stamp)) return true;
  if (FindWord(*frame, bucket, word) != kSlots) return true;
  const std::size_t begin = frame->begin[bucket % kBuckets], end = frame->begin[bucket % kBuckets + 1];
  std::size_t alike = 0, last = 0;
  for (std::size_t i = begin; i < end; ++i) {
    if (FingerprintOf(frame->slots[i]) != FingerprintOf(word)) continue;
    ++alike;
    last = i;
  }
  const std::size_t used = frame->begin[kBuckets];
  if (alike > 0 && (used == kSlots || (alike == 1 && same == Same::kReplace))) {
    Store(frame->slots[last], word);
    return true;
  }
  if (used == kSlots) return false;
  // In front of the bucket's other slots: of two with one fingerprint, the newer one is the likelier.
  for (std::size_t i = used; i > begin; --i) Store(frame->slots[i], frame->slots[i - 1]);
  Store(frame->slots[begin], word);
  for (std::size_t i = bucket % kBuckets + 1; i <= kBuckets; ++i) {
    Store(frame->begin[i], static_cast<std::uint16_t>(frame->begin[i] + 1));
  }
  return true;
}

void MirrorFrames::Drop(std::uint64_t bucket, std::uint64_t word) {
  const auto [frame, version] = FrameOf(bucket);
  if (frame == nullptr) return;
  const Hold hold(*frame, version);
  if (!hold) return;
  const std::size_t found = FindWord(*frame, bucket, word);
  if (found == kSlots) return;
  for (std::size_t i = found + 1; i < frame->begin[kBuckets]; ++i)
    Store(frame->slots[i - 1], frame->slots[i]);
  for (std::size_t i = bucket % kBuckets + 1; i <= kBuckets; ++i) {
    Store(frame->begin[i], static_cast<std::uint16_t>(frame->begin[i] - 1));
  }
}

bool MirrorFrames::Fill(const Bulk& bulk, const RetiredSegments& retired,
                        const SegmentGenerations& generations) {
  if (capacity_ == 0) return false;
  Frame& frame = FrameAt(bulk.group);
  const Hold hold(frame);
  if (!hold) return true;
  if (!Assign(frame, bulk.group)) return false;
  Store(frame.stamp, generations.count());
  Store(frame.depth, bulk.depth);
  std::size_t used = 0;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    Store(frame.begin[bucket], static_cast<std::uint16_t>(used));
    if (bucket >= bulk.buckets.size()) continue;
    for (const std::uint64_t word : bulk.buckets[bucket].slots) {
      if (used < kSlots && IsOfUse(word, retired, generations)) Store(frame.slots[used++], word);
    }
  }
  Store(frame.begin[kBuckets], static_cast<std::uint16_t>(used));
  return true;
}

bool MirrorFrames::Assign(Frame& frame, std::uint64_t group) {
  const bool is_asked_for = Load(frame.is_asked_for) != 0;
  Store(frame.is_asked_for, 0);
  if (frame.group == group + 1) return true;
  if (group >= std::numeric_limits<std::uint32_t>::max() || (frame.group != 0 && is_asked_for)) return false;
  if (frame.group == 0) {
    used_.fetch_add(1, std::memory_order_relaxed);
    const std::size_t count = group % capacity_ + 1;
    if (frame_count() < count) frame_count_.store(count, std::memory_order_relaxed);
  }
  Store(frame.group, static_cast<std::uint32_t>(group + 1));
  return true;
}

}  // namespace remora
