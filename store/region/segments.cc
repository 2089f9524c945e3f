#include "store/region/segments.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "store/base/check.h"
#include "store/region/atomic_word.h"

namespace remora {
namespace {

// The parts of an entry of shown_.
constexpr int kShownUseBits = 3;
constexpr std::int32_t kMaxShownList = (1 << (8 - kShownUseBits)) - 1;

std::uint8_t Shown(SegmentUse use, std::int32_t list) {
  return static_cast<std::uint8_t>(static_cast<int>(use) | std::min(list, kMaxShownList) << kShownUseBits);
}

}  // namespace

Segments::Segments(std::span<std::byte> region, Duration reuse_delay,
                   std::function<void(std::uint64_t end)> on_first_use)
    : region_(region),
      delay_(reuse_delay),
      on_first_use_(std::move(on_first_use)),
      segments_(SegmentCount(region.size())),
      shown_(segments_.size()),
      large_(segments_.size()) {
  const std::size_t first = FirstSegment(region.size());
  for (std::size_t i = first; i < segments_.size(); ++i) {
    segments_[i].begin = i * kSegmentSize;
    SetUse(static_cast<SegmentNumber>(i), Use::kFree);
  }
  if (first < segments_.size()) free_.Add(static_cast<SegmentNumber>(first), segments_.size() - first);
}

void Segments::SetUse(SegmentNumber number, Use use) {
  segments_[number].use = use;
  shown_[number].store(Shown(use, 0), std::memory_order_relaxed);
}

std::vector<MappedSegment> Segments::Map() const {
  std::vector<MappedSegment> map;
  map.reserve(shown_.size());
  for (const std::atomic<std::uint8_t>& entry : shown_) {
    const std::uint8_t shown = entry.load(std::memory_order_relaxed);
    map.push_back({static_cast<Use>(shown & ((1 << kShownUseBits) - 1)),
                   static_cast<std::uint8_t>(shown >> kShownUseBits)});
  }
  return map;
}

std::optional<SegmentNumber> Segments::Take(Use use, std::size_t keep) {
  if (free_.count() <= keep) return std::nullopt;
  const SegmentNumber number = free_.TakeOne().value();
  Segment& segment = segments_[number];
  SetUse(number, use);
  segment.end = segment.begin;
  segment.live = 0;
  segment.not_before_ms = 0;
  if (number >= reached_) {
    reached_ = number + 1;
    if (on_first_use_) on_first_use_(EndOf(number));
  }
  return number;
}

void Segments::Extend(SegmentNumber number, std::uint64_t end) {
  Segment& segment = segments_[number];
  REMORA_CHECK(segment.use == Use::kLogHead && segment.end <= end && end <= EndOf(number));
  AddLive(segment.begin, end - segment.end);
  log_bytes_ += end - segment.end;
  segment.end = end;
}

void Segments::Seal(SegmentNumber number, std::uint64_t end, TimePoint now, Queue queue) {
  Segment& segment = segments_[number];
  REMORA_CHECK(segment.use == Use::kLogHead);
  SetUse(number, Use::kLog);
  log_bytes_ += end - segment.end;
  segment.end = end;
  segment.sealed = now;
  segment.queue = queue;
  Append(queues_[static_cast<std::size_t>(queue)], &Segment::by_age, number);
  Link(number);
}

void Segments::Retire(SegmentNumber number, TimePoint now) {
  Segment& segment = segments_[number];
  REMORA_CHECK(segment.use == Use::kLog && segment.live == 0);
  Unlink(number);
  Remove(queues_[static_cast<std::size_t>(segment.queue)], &Segment::by_age, number);
  ForgetExpiry(number, 0);
  ++segment.retired;
  log_bytes_ -= segment.end - segment.begin;
  SetUse(number, Use::kRetired);
  ChangeGeneration(number);
  retired_.push_back({now + delay_, segment.begin, 0});
  ++retired_count_;
  ++just_retired_;
}

void Segments::ChangeGeneration(SegmentNumber number) {
  std::byte& generation = region_[GenerationsOffset(region_.size()) + number];
  ShowRetired(number, true);
  // Release: a reader that sees the new generation sees that the segment is retired, too. The store itself
  // only has to come before the segment is used again, and that is much later.
  std::atomic_ref(generation)
      .store(std::byte(std::to_integer<unsigned>(generation) + 1), std::memory_order_release);
}

void Segments::ShowRetired(SegmentNumber number, bool is_retired) {
  // Release: a reader that sees that a segment is not retired any more sees the index without the slots that
  // led there (M2 of client/mirror/mirror_frames.h).
  std::atomic_ref(region_[RetiredOffset(region_.size()) + number])
      .store(std::byte(is_retired), std::memory_order_release);
}

void Segments::StartGracePeriod(TimePoint now) {
  for (auto last = retired_.rbegin(); just_retired_ > 0; ++last, --just_retired_) last->until = now + delay_;
}

void Segments::Release(TimePoint now) {
  while (!retired_.empty() && retired_.front().until <= now) {
    const Retired first = retired_.front();
    retired_.pop_front();
    just_retired_ = std::min(just_retired_, retired_.size());
    if (first.large > 0) {
      --retired_large_;
      retired_large_bytes_ -= first.large;
      FreeLarge(first.offset, first.large);
    } else {
      --retired_count_;
      AddFree(static_cast<SegmentNumber>(first.offset / kSegmentSize));
    }
  }
  if (claim_ && now - claim_->asked > kPatience) CancelRun();
}

void Segments::ChangeReuseEpoch() {
  // By I6, a reader that sees any byte written there from now on must see the new `reuse_epoch`, too. The
  // fence orders this store before all those writes.
  auto& superblock = *reinterpret_cast<Superblock*>(region_.data());
  StoreWord(superblock.reuse_epoch, ++times_freed_, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
}

void Segments::AddFree(SegmentNumber number) {
  ChangeReuseEpoch();
  ShowRetired(number, false);
  if (claimed().Contains(number)) {
    SetUse(number, Use::kClaimed);
    ++claim_->ready;
  } else {
    SetUse(number, Use::kFree);
    free_.Add(number, 1);
  }
}

std::optional<TimePoint> Segments::next_release() const {
  std::optional<TimePoint> next;
  if (!retired_.empty()) next = retired_.front().until;
  if (claim_) {
    const TimePoint given_up = claim_->asked + kPatience + Duration(1);
    next = next ? std::min(*next, given_up) : given_up;
  }
  return next;
}

void Segments::Drop(std::uint64_t offset, std::uint64_t bytes) {
  Segment& segment = At(offset);
  REMORA_CHECK(segment.live >= bytes);
  segment.live -= bytes;
  live_bytes_ -= bytes;
  if (segment.use != Use::kLog || ListOf(segment) == segment.list) return;
  const auto number = static_cast<SegmentNumber>(offset / kSegmentSize);
  Unlink(number);
  Link(number);
}

std::optional<SegmentNumber> Segments::Oldest(Queue queue) const {
  const List& list = queues_[static_cast<std::size_t>(queue)];
  if (list.size == 0) return std::nullopt;
  return list.first;
}

std::optional<SegmentNumber> Segments::Best(TimePoint now, std::uint64_t min_dead) const {
  // Cost-benefit policy of log-structured file systems (Rosenblum and Ousterhout, 1992). The score is the
  // space that cleaning frees, times the time for which it will probably stay free, over the work. The first
  // segment of each list is about its oldest.
  if (claim_) {
    for (std::size_t i = 0; i < claim_->range.length; ++i) {
      const auto number = static_cast<SegmentNumber>(claim_->range.first + i);
      if (segments_[number].use == Use::kLog) return number;
    }
  }
  std::optional<SegmentNumber> best;
  double best_score = 0;
  for (const List& list : lists_) {
    if (list.size == 0) continue;
    const Segment& segment = segments_[list.first];
    const double size = static_cast<double>(kSegmentSize);
    const double live = static_cast<double>(segment.live) / size;
    const double dead = static_cast<double>(segment.dead()) / size;
    if (segment.dead() < min_dead) continue;
    const double age = std::chrono::duration<double>(now - segment.sealed).count() + 1e-3;
    const double score = dead * age / (1 + live);
    if (score > best_score) {
      best_score = score;
      best = list.first;
    }
  }
  return best;
}

void Segments::NoteExpiry(std::uint64_t offset, std::int64_t expiry_ms) {
  Segment& segment = At(offset);
  if (expiry_ms >= segment.expiry_ms) return;
  const auto number = static_cast<SegmentNumber>(offset / kSegmentSize);
  if (segment.expiry_ms != kNoExpiry) due_.erase({DueOf(segment), number});
  segment.expiry_ms = expiry_ms;
  due_.insert({DueOf(segment), number});
}

void Segments::ForgetExpiry(SegmentNumber number, std::int64_t not_before_ms) {
  Segment& segment = segments_[number];
  if (segment.expiry_ms != kNoExpiry) due_.erase({DueOf(segment), number});
  segment.expiry_ms = kNoExpiry;
  segment.not_before_ms = not_before_ms;
}

std::optional<std::pair<std::int64_t, SegmentNumber>> Segments::first_due() const {
  if (due_.empty()) return std::nullopt;
  return *due_.begin();
}

std::optional<SegmentNumber> Segments::AnyExpired(std::int64_t unix_ms) const {
  for (const auto& [due, number] : due_) {
    if (segments_[number].expiry_ms <= unix_ms) return number;
  }
  return std::nullopt;
}

std::int32_t Segments::ListOf(const Segment& segment) {
  return static_cast<std::int32_t>(segment.dead() * (kLists - 1) / kSegmentSize);
}

void Segments::Link(SegmentNumber number) {
  Segment& segment = segments_[number];
  segment.list = ListOf(segment);
  shown_[number].store(Shown(segment.use, segment.list), std::memory_order_relaxed);
  Append(lists_[segment.list], &Segment::by_dead, number);
}

void Segments::Unlink(SegmentNumber number) {
  Segment& segment = segments_[number];
  Remove(lists_[segment.list], &Segment::by_dead, number);
  segment.list = -1;
}

void Segments::Append(List& list, Links Segment::*links, SegmentNumber number) {
  if (list.size++ == 0) {
    list.first = number;
  } else {
    (segments_[list.last].*links).next = number;
    (segments_[number].*links).previous = list.last;
  }
  list.last = number;
}

void Segments::Remove(List& list, Links Segment::*links, SegmentNumber number) {
  const Links& own = segments_[number].*links;
  if (list.first == number) {
    list.first = own.next;
  } else {
    (segments_[own.previous].*links).next = own.next;
  }
  if (list.last == number) {
    list.last = own.previous;
  } else {
    (segments_[own.next].*links).previous = own.previous;
  }
  --list.size;
}

}  // namespace remora
