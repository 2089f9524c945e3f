#include "client/mirror/mirror_frames.h"

#include <algorithm>
#include <bit>
#include <new>

namespace remora {
namespace {

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

MirrorFrames::MirrorFrames(std::size_t bytes) : capacity_(bytes / kBytesPerFrame) {
  if (capacity_ == 0) return;
  // The size comes from the caller of Connect. Pages that no frame uses are not touched.
  frames_.reset(new (std::nothrow) Frame[capacity_]);
  if (frames_ != nullptr) return;
  lacks_memory_ = true;
  capacity_ = 0;
}

std::size_t MirrorFrames::CountSlots() const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < used_; ++i) count += frames_[i].begin[kBuckets];
  return count;
}

void MirrorFrames::Clear() {
  frame_of_.clear();
  used_ = 0;
  hand_ = 0;
}

MirrorFrames::Frame* MirrorFrames::FrameOf(std::uint64_t bucket) const {
  for (std::uint64_t from = bucket;; from ^= std::bit_floor(from)) {
    const std::uint64_t group = GroupOf(from);
    if (HasFrame(group)) {
      Frame& frame = frames_[frame_of_[group]];
      // When the frame was READ, the keys of `bucket` were in `from`.
      if (from == bucket || BucketAtDepth(bucket, frame.depth) == from) return &frame;
      return nullptr;
    }
    if (from < kBuckets) return nullptr;
  }
}

std::uint64_t MirrorFrames::Find(std::uint64_t bucket, std::uint32_t fingerprint,
                                 const SegmentGenerations& generations) {
  Frame* const frame = FrameOf(bucket);
  if (frame == nullptr) return 0;
  frame->is_asked_for = true;
  Sweep(*frame, generations);
  for (std::size_t i = frame->begin[bucket % kBuckets]; i < frame->begin[bucket % kBuckets + 1]; ++i) {
    if (FingerprintOf(frame->slots[i]) == fingerprint) return frame->slots[i];
  }
  return 0;
}

void MirrorFrames::Sweep(Frame& frame, const SegmentGenerations& generations) {
  if (frame.stamp < generations.last_change()) {
    std::size_t kept = 0;
    std::size_t i = 0;
    for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
      const std::size_t end = frame.begin[bucket + 1];
      frame.begin[bucket] = static_cast<std::uint16_t>(kept);
      for (; i < end; ++i) {
        const std::uint64_t word = frame.slots[i];
        if (generations.IsUnchangedSince(SegmentOfWord(word), frame.stamp)) frame.slots[kept++] = word;
      }
    }
    frame.begin[kBuckets] = static_cast<std::uint16_t>(kept);
  }
  frame.stamp = generations.count();
}

std::size_t MirrorFrames::FindWord(const Frame& frame, std::uint64_t bucket, std::uint64_t word) {
  const auto* const begin = frame.slots.data() + frame.begin[bucket % kBuckets];
  const auto* const end = frame.slots.data() + frame.begin[bucket % kBuckets + 1];
  const auto* const found = std::find(begin, end, word);
  return found == end ? kSlots : static_cast<std::size_t>(found - frame.slots.data());
}

bool MirrorFrames::Add(std::uint64_t bucket, std::uint64_t word, Same same, Stamp stamp,
                       const SegmentGenerations& generations) {
  Frame* const frame = FrameOf(bucket);
  if (frame == nullptr || DecodeSlot(word).extent_bytes() > kMaxSmallExtent) return true;
  if (!generations.IsUnchangedSince(SegmentOfWord(word), stamp)) return true;
  Sweep(*frame, generations);
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
    frame->slots[last] = word;
    return true;
  }
  if (used == kSlots) return false;
  // In front of the bucket's other slots: of two with one fingerprint, the newer one is the likelier.
  auto* const slots = frame->slots.data();
  std::copy_backward(slots + begin, slots + used, slots + used + 1);
  slots[begin] = word;
  for (std::size_t i = bucket % kBuckets + 1; i <= kBuckets; ++i) ++frame->begin[i];
  return true;
}

void MirrorFrames::Drop(std::uint64_t bucket, std::uint64_t word) {
  Frame* const frame = FrameOf(bucket);
  if (frame == nullptr) return;
  const std::size_t found = FindWord(*frame, bucket, word);
  if (found == kSlots) return;
  auto* const slots = frame->slots.data();
  std::copy(slots + found + 1, slots + frame->begin[kBuckets], slots + found);
  for (std::size_t i = bucket % kBuckets + 1; i <= kBuckets; ++i) --frame->begin[i];
}

bool MirrorFrames::Fill(const Bulk& bulk, const RetiredSegments& retired,
                        const SegmentGenerations& generations) {
  Frame* const frame = FrameFor(bulk.group);
  if (frame == nullptr) return false;
  frame->group = static_cast<std::uint32_t>(bulk.group);
  frame->depth = bulk.depth;
  frame->is_asked_for = false;
  std::size_t used = 0;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    frame->begin[bucket] = static_cast<std::uint16_t>(used);
    if (bucket >= bulk.buckets.size()) continue;
    for (const std::uint64_t word : bulk.buckets[bucket].slots) {
      if (used < kSlots && IsOfUse(word, retired, generations)) frame->slots[used++] = word;
    }
  }
  frame->begin[kBuckets] = static_cast<std::uint16_t>(used);
  frame->stamp = generations.count();
  return true;
}

MirrorFrames::Frame* MirrorFrames::FrameFor(std::uint64_t group) {
  if (group >= std::min<std::uint64_t>(kMaxGroupsPerFrame * capacity_, kNone)) return nullptr;
  if (HasFrame(group)) return &frames_[frame_of_[group]];
  Frame* const frame = is_full() ? Evict() : &frames_[used_++];
  if (frame == nullptr) return nullptr;
  if (group >= frame_of_.size()) frame_of_.resize(group + 1, kNone);
  frame_of_[group] = static_cast<std::uint32_t>(frame - frames_.get());
  return frame;
}

MirrorFrames::Frame* MirrorFrames::Evict() {
  constexpr std::size_t kMaxSteps = 16;
  for (std::size_t step = 0; step < std::min(kMaxSteps, capacity_); ++step) {
    Frame& frame = frames_[hand_];
    hand_ = (hand_ + 1) % capacity_;
    if (!frame.is_asked_for) {
      frame_of_[frame.group] = kNone;
      return &frame;
    }
    frame.is_asked_for = false;
  }
  return nullptr;
}

}  // namespace remora
