#include "client/mirror/index_mirror.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace remora {

void IndexMirror::Begin(const StoreShape& shape, Duration grace) {
  shape_ = shape;
  interval_ = grace;
  frames_.Clear();
  retired_ = RetiredSegments(shape.memory_size);
  changes_ = {};
  for_changes_ = kForChanges;
  for_groups_ = kForGroups;
  is_built_ = false;
  reading_ = Reading::kNothing;
  next_count_ = TimePoint::min();
  retired_chunk_ = 0;
  groups_ = {};
}

bool IndexMirror::TakeBuckets(std::uint64_t first, std::span<const Bucket> buckets,
                              const SegmentGenerations& generations) {
  for (; !buckets.empty(); first += MirrorFrames::kBuckets) {
    const auto some = buckets.first(std::min<std::size_t>(buckets.size(), MirrorFrames::kBuckets));
    std::uint32_t depth = shape_.base_depth;
    for (const Bucket& bucket : some) depth = std::max(depth, ControlDepth(bucket.control));
    // A torn control word may state a depth that no bucket has. Then the frame serves its own buckets alone.
    const MirrorFrames::Bulk bulk{MirrorFrames::GroupOf(first), some, std::min(depth, kMaxDepth)};
    if (!frames_.Fill(bulk, retired_, generations)) return false;
    buckets = buckets.subspan(some.size());
  }
  return true;
}

std::uint64_t IndexMirror::Find(std::uint64_t key_hash, std::uint64_t bucket,
                                const SegmentGenerations& generations) {
  const std::uint64_t word = frames_.Find(bucket, Fingerprint(key_hash), generations);
  // The frame may be that of the bucket from which this one was split: it lacks keys that came later.
  const std::uint64_t group = MirrorFrames::GroupOf(bucket);
  if (word == 0 && !frames_.HasFrame(group)) groups_.Want(group);
  return word;
}

// --- Upkeep ---------------------------------------------------------------------------------------------

std::optional<IndexMirror::Range> IndexMirror::NextRead(TimePoint now, const RegionReader& region,
                                                        const SegmentGenerations& generations) {
  if (!is_built_) return std::nullopt;
  posted_with_ = generations.count();
  if (changes_.has_changes()) {
    return Post(for_changes_, Reading::kChanges, ChangeOffset(shape_.memory_size, changes_.next()),
                changes_.changes_in_read() * sizeof(IndexChange));
  }
  if (now >= next_count_) {
    return Post(for_changes_, Reading::kCount, ChangesOffset(shape_.memory_size), sizeof(std::uint64_t));
  }
  return NextBulkRead(now, region);
}

std::optional<IndexMirror::Range> IndexMirror::NextBulkRead(TimePoint now, const RegionReader& region) {
  const std::uint64_t group = groups_.Next(now, interval_, frames_);
  // When all frames are in use, each group takes the place of another one.
  UpkeepBudget& budget = frames_.is_full() ? for_changes_ : for_groups_;
  if (group == GroupQueue::kNone || !budget.Covers(kMaxRead)) return std::nullopt;
  if (retired_chunk_ > 0 || now >= next_retired_) {
    return Post(budget, Reading::kRetired, retired_.OffsetOf(retired_chunk_),
                retired_.SizeOf(retired_chunk_));
  }
  const std::uint64_t offset = region.KnownOffsetOf({false, group * MirrorFrames::kBuckets});
  if (offset != 0) {
    group_ = group;
    return Post(budget, Reading::kGroup, offset, kMaxRead);
  }
  groups_.Pop();  // the search of the GET that asked READs the directory
  return std::nullopt;
}

std::optional<IndexMirror::Range> IndexMirror::Post(UpkeepBudget& budget, Reading reading,
                                                    std::uint64_t offset, std::size_t size) {
  if (!budget.Covers(size)) return std::nullopt;
  budget.Spend(size);
  reading_ = reading;
  return Range{offset, size};
}

void IndexMirror::Take(std::span<const std::byte> bytes, TimePoint now, const RegionReader& region,
                       const SegmentGenerations& generations) {
  switch (std::exchange(reading_, Reading::kNothing)) {
    case Reading::kNothing:
      return;
    case Reading::kCount: {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data(), sizeof(word));
      if (!changes_.TakeCount(word, posted_with_)) groups_.NoteLost();
      next_count_ = now + interval_;
      return;
    }
    case Reading::kChanges:
      return TakeChanges(bytes, region, generations);
    case Reading::kRetired:
      retired_.Take(retired_chunk_, bytes, posted_with_);
      retired_chunk_ = (retired_chunk_ + 1) % retired_.chunk_count();
      if (retired_chunk_ == 0) next_retired_ = now + kRetiredInterval;
      return;
    case Reading::kGroup: {
      std::array<Bucket, MirrorFrames::kBuckets> buckets;  // aligned
      std::memcpy(buckets.data(), bytes.data(), sizeof(buckets));
      TakeBuckets(group_ * MirrorFrames::kBuckets, buckets, generations);
      groups_.Pop();
      return;
    }
  }
}

void IndexMirror::TakeChanges(std::span<const std::byte> bytes, const RegionReader& region,
                              const SegmentGenerations& generations) {
  const bool is_whole = changes_.TakeChanges(bytes, [&](const IndexChange& change, Stamp stamp) {
    const std::optional<std::uint64_t> bucket = region.MainBucketAt(ChangePlaceOf(change));
    if (!bucket || !SlotNamesPlace(DecodeSlot(change.word), shape_.memory_size)) return;
    Add(*bucket, change.word, MirrorFrames::Same::kReplace, stamp, generations);
  });
  if (!is_whole) groups_.NoteLost();
}

}  // namespace remora
