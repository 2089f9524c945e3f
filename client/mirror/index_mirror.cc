#include "client/mirror/index_mirror.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace remora {

IndexMirror::IndexMirror(const StoreShape& shape, Duration grace, std::size_t bytes)
    : shape_(shape),
      interval_(grace),
      generations_(shape.memory_size, grace),
      frames_(bytes),
      retired_(shape.memory_size) {}

// --- The first READs ------------------------------------------------------------------------------------

bool IndexMirror::LacksBasis() const {
  const MutexLock lock(mutex_);
  return !has_basis_;
}

void IndexMirror::TakeBasis(std::uint64_t word, Stamp refreshes, const RetiredSegments& retired,
                            TimePoint now) {
  const MutexLock lock(mutex_);
  if (std::exchange(has_basis_, true)) return;
  retired_ = retired;
  changes_.TakeCount(word, refreshes);
  next_count_ = now + interval_;
  next_retired_ = now + kRetiredInterval;
  due_.store(next_count_, std::memory_order_relaxed);
}

std::optional<IndexMirror::Buckets> IndexMirror::Claim(std::uint64_t most, std::uint64_t end) {
  const MutexLock lock(mutex_);
  // Groups beyond the frames would take those of the first ones.
  const std::uint64_t last = std::min<std::uint64_t>(end, frames_.capacity() * MirrorFrames::kBuckets);
  if (unread_ >= last) return std::nullopt;
  const Buckets buckets{unread_, std::min(most - unread_ % most, last - unread_)};
  // Ends with a group, so that the next buckets begin one.
  unread_ += (buckets.count + MirrorFrames::kBuckets - 1) / MirrorFrames::kBuckets * MirrorFrames::kBuckets;
  return buckets;
}

void IndexMirror::GiveBack(std::uint64_t first) {
  const MutexLock lock(mutex_);
  unread_ = std::min(unread_, first);
}

void IndexMirror::TakeBuckets(std::uint64_t first, std::span<const Bucket> buckets,
                              const RetiredSegments& retired) {
  const MutexLock lock(mutex_);
  Fill(first, buckets, retired);
}

void IndexMirror::Fill(std::uint64_t first, std::span<const Bucket> buckets, const RetiredSegments& retired) {
  for (; !buckets.empty(); first += MirrorFrames::kBuckets) {
    const auto some = buckets.first(std::min<std::size_t>(buckets.size(), MirrorFrames::kBuckets));
    std::uint32_t depth = shape_.base_depth;
    for (std::size_t i = 0; i < some.size(); ++i) {
      const std::uint32_t own = ControlDepth(some[i].control);
      depth = std::max(depth, own);
      if (own <= kMaxDepth) view_.Saw(first + i, own);
    }
    // A torn control word may state a depth that no bucket has. Then the frame serves its own buckets alone.
    frames_.Fill({MirrorFrames::GroupOf(first), some, std::min(depth, kMaxDepth)}, retired, generations_);
    buckets = buckets.subspan(some.size());
  }
}

IndexView IndexMirror::view() const {
  const MutexLock lock(mutex_);
  return view_;
}

// --- Places ---------------------------------------------------------------------------------------------

MirrorFrames::Found IndexMirror::Find(std::uint64_t key_hash, std::uint64_t bucket) {
  const MirrorFrames::Found found = frames_.Find(bucket, Fingerprint(key_hash), generations_);
  if (found.word != 0) return found;
  // The frame may be that of the bucket from which this one was split: it lacks keys that came later.
  const std::uint64_t group = MirrorFrames::GroupOf(bucket);
  if (frames_.HasFrame(group)) return {};
  std::uint64_t none = GroupQueue::kNone;
  if (wanted_.load(std::memory_order_relaxed) == none &&
      wanted_.compare_exchange_strong(none, group, std::memory_order_relaxed)) {
    due_.store(TimePoint::min(), std::memory_order_relaxed);
  }
  return {};
}

void IndexMirror::Add(std::uint64_t bucket, std::uint64_t word, MirrorFrames::Same same, Stamp stamp) {
  if (!frames_.Add(bucket, word, same, stamp, generations_)) {
    full_.store(MirrorFrames::GroupOf(bucket), std::memory_order_relaxed);
  }
}

// --- Upkeep ---------------------------------------------------------------------------------------------

std::optional<IndexMirror::Range> IndexMirror::NextRead(User& user, TimePoint now,
                                                        const RegionReader& region) {
  // With a ticket, it has given up the READ that it was to make.
  if (user.ticket == 0 && now < due_.load(std::memory_order_relaxed)) return std::nullopt;
  if (user.earned < user.lacked) return std::nullopt;
  const MutexLock lock(mutex_);
  const std::uint64_t earned = std::exchange(user.earned, 0);
  for_changes_.Earn(earned);
  for_groups_.Earn(earned);
  user.lacked = 0;
  const bool is_own = std::exchange(user.ticket, 0) == posted_.ticket;
  if (!has_basis_) return std::nullopt;
  if (posted_.reading != Reading::kNothing && !is_own && now < posted_.lost_after) {
    due_.store(posted_.lost_after, std::memory_order_relaxed);
    return std::nullopt;
  }
  posted_.reading = Reading::kNothing;
  due_.store(TimePoint::min(), std::memory_order_relaxed);
  const std::optional<Range> range = Choose(user, now, region);
  if (!range) return std::nullopt;
  user.ticket = ++posted_.ticket;
  posted_.lost_after = now + interval_;
  due_.store(posted_.lost_after, std::memory_order_relaxed);
  return range;
}

std::optional<IndexMirror::Range> IndexMirror::Choose(User& user, TimePoint now, const RegionReader& region) {
  posted_.refreshes = generations_.count();
  if (changes_.has_changes()) {
    return Post(user, for_changes_, Reading::kChanges,
                {ChangeOffset(shape_.memory_size, changes_.next()),
                 changes_.changes_in_read() * sizeof(IndexChange)});
  }
  if (now >= next_count_) {
    return Post(user, for_changes_, Reading::kCount,
                {ChangesOffset(shape_.memory_size), sizeof(std::uint64_t)});
  }
  return ChooseGroup(user, now, region);
}

std::optional<IndexMirror::Range> IndexMirror::ChooseGroup(User& user, TimePoint now,
                                                           const RegionReader& region) {
  const std::uint64_t full = full_.exchange(GroupQueue::kNone, std::memory_order_relaxed);
  if (full != GroupQueue::kNone) groups_.NoteFull(full);
  groups_.Want(wanted_.exchange(GroupQueue::kNone, std::memory_order_relaxed));
  const std::uint64_t group = groups_.Next(now, interval_, frames_);
  if (group == GroupQueue::kNone) {
    due_.store(next_count_, std::memory_order_relaxed);
    return std::nullopt;
  }
  // When all frames are in use, each group takes the place of another one.
  UpkeepBudget& budget = frames_.is_full() ? for_changes_ : for_groups_;
  if (retired_chunk_ > 0 || now >= next_retired_) {
    return Post(user, budget, Reading::kRetired, RetiredRange(retired_chunk_));
  }
  const std::uint64_t offset = region.KnownOffsetOf({false, group * MirrorFrames::kBuckets});
  if (offset != 0) {
    posted_.group = group;
    return Post(user, budget, Reading::kGroup, {offset, kMaxRead});
  }
  groups_.Pop();  // the search of the GET that asked READs the directory
  return std::nullopt;
}

std::optional<IndexMirror::Range> IndexMirror::Post(User& user, UpkeepBudget& budget, Reading reading,
                                                    const Range& range) {
  if (!budget.Covers(range.size)) {
    user.lacked = std::min(budget.Lacks(range.size), kMostLacked);
    return std::nullopt;
  }
  budget.Spend(range.size);
  posted_.reading = reading;
  return range;
}

void IndexMirror::Take(User& user, std::span<const std::byte> bytes, TimePoint now,
                       const RegionReader& region) {
  const MutexLock lock(mutex_);
  if (std::exchange(user.ticket, 0) != posted_.ticket) return;
  due_.store(TimePoint::min(), std::memory_order_relaxed);
  switch (std::exchange(posted_.reading, Reading::kNothing)) {
    case Reading::kNothing:
      return;
    case Reading::kCount: {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data(), sizeof(word));
      if (!changes_.TakeCount(word, posted_.refreshes)) groups_.NoteLost();
      next_count_ = now + interval_;
      return;
    }
    case Reading::kChanges:
      return TakeChanges(bytes, region);
    case Reading::kRetired:
      retired_.Take(retired_chunk_, bytes, posted_.refreshes);
      retired_chunk_ = (retired_chunk_ + 1) % retired_chunk_count();
      if (retired_chunk_ == 0) next_retired_ = now + kRetiredInterval;
      return;
    case Reading::kGroup: {
      std::array<Bucket, MirrorFrames::kBuckets> buckets;  // aligned
      std::memcpy(buckets.data(), bytes.data(), sizeof(buckets));
      Fill(posted_.group * MirrorFrames::kBuckets, buckets, retired_);
      groups_.Pop();
      return;
    }
  }
}

void IndexMirror::TakeChanges(std::span<const std::byte> bytes, const RegionReader& region) {
  const bool is_whole = changes_.TakeChanges(bytes, [&](const IndexChange& change, Stamp stamp) {
    const std::optional<std::uint64_t> bucket = region.MainBucketAt(ChangePlaceOf(change));
    if (!bucket || !SlotNamesPlace(DecodeSlot(change.word), shape_.memory_size)) return;
    Add(*bucket, change.word, MirrorFrames::Same::kReplace, stamp);
  });
  if (!is_whole) groups_.NoteLost();
}

}  // namespace remora
