// Runs of segments (store/region/segments.h): functions that take them, give them up, and make them.
#include <algorithm>
#include <limits>

#include "store/base/check.h"
#include "store/region/segments.h"

namespace remora {
namespace {

// Segments that stay free when a run is taken: the cleaner's, and one that the index may need for the
// record's key.
constexpr std::size_t kLeft = Segments::kReserve + 1;

}  // namespace

std::size_t Segments::max_run() const {
  // The index has at least one segment, and the head of the log is another.
  const std::size_t taken = FirstSegment(region_.size()) + 2 + kLeft;
  return segments_.size() > taken ? segments_.size() - taken : 0;
}

bool Segments::HasRun(std::size_t length) const {
  if (claim_ && claim_->ready == claim_->length && length <= claim_->length) {
    return free_.count() + claim_->length >= length + kLeft;
  }
  return free_.longest() >= length && free_.count() >= length + kLeft;
}

std::optional<SegmentNumber> Segments::TakeRun(std::size_t length, std::uint64_t bytes) {
  if (!HasRun(length)) return std::nullopt;
  // CancelRun makes a ready claim a free stretch, which is about the shortest that is long enough.
  if (claim_ && claim_->ready == claim_->length) CancelRun();
  const SegmentNumber first = free_.TakeRun(length).value();
  for (SegmentNumber i = first; i < first + length; ++i) {
    SetUse(i, Use::kRun);
    segments_[i].run = 0;
    segments_[i].live = 0;
    segments_[i].not_before_ms = 0;
  }
  segments_[first].run = length;
  segments_[first].end = segments_[first].begin + bytes;
  log_bytes_ += bytes;
  run_bytes_ += bytes;
  Append(queues_[static_cast<std::size_t>(Queue::kRuns)], &Segment::by_age, first);
  return first;
}

void Segments::EndRun(SegmentNumber first) {
  const Segment& segment = segments_[first];
  REMORA_CHECK(segment.use == Use::kRun && segment.run > 0 && segment.live == 0);
  Remove(queues_[static_cast<std::size_t>(Queue::kRuns)], &Segment::by_age, first);
  ForgetExpiry(first, 0);
  log_bytes_ -= segment.end - segment.begin;
  run_bytes_ -= segment.end - segment.begin;
}

void Segments::ReleaseRun(SegmentNumber first) {
  EndRun(first);
  Segment& segment = segments_[first];
  // A sweep that remembers this run must not take a later run here for the same one.
  ++segment.retired;
  AddFree(first, segment.run);
}

void Segments::RetireRun(SegmentNumber first) {
  EndRun(first);
  const Segment& segment = segments_[first];
  for (SegmentNumber i = first; i < first + segment.run; ++i) {
    ++segments_[i].retired;
    SetUse(i, Use::kRetired);
    ChangeGeneration(i);
  }
  // StartGracePeriod sets the time.
  retired_.push_back({TimePoint::max(), first, segment.run});
  retired_count_ += segment.run;
  ++just_retired_;
}

void Segments::Renew(SegmentNumber first) {
  List& runs = queues_[static_cast<std::size_t>(Queue::kRuns)];
  Remove(runs, &Segment::by_age, first);
  Append(runs, &Segment::by_age, first);
}

bool Segments::HasEnoughFor(std::size_t length) const {
  const std::size_t claimed = claim_ ? claim_->ready : 0;
  return free_.count() + claimed + retired_count_ >= length + kLeft;
}

bool Segments::MakeRun(std::size_t length, TimePoint now) {
  if (claim_) {
    if (length <= claim_->length) claim_->asked = now;
    return true;
  }
  if (length == searched_length_ && times_freed_ == searched_at_) return false;
  const std::optional<SegmentNumber> first = EasiestStretch(length);
  if (!first) {
    searched_length_ = length;
    searched_at_ = times_freed_;
    return false;
  }
  claim_ = {*first, length, 0, now};
  for (SegmentNumber i = *first; i < *first + length; ++i) {
    if (segments_[i].use != Use::kFree) continue;
    free_.Remove(i, 1);
    SetUse(i, Use::kClaimed);
    ++claim_->ready;
  }
  return true;
}

bool Segments::IsRunInUse() const {
  if (!claim_) return false;
  const auto begin = segments_.begin() + claim_->first;
  return std::any_of(begin, begin + static_cast<std::ptrdiff_t>(claim_->length),
                     [](const Segment& segment) { return segment.use == Use::kLog; });
}

void Segments::CancelRun() {
  if (!claim_) return;
  const Claim claim = *claim_;
  claim_.reset();
  for (SegmentNumber i = claim.first; i < claim.first + claim.length; ++i) {
    if (segments_[i].use == Use::kClaimed) AddFree(i, 1);
  }
}

// Slides a window of `length` segments over all segments. The cleaner must move the live records in the
// window to free segments outside it; the function returns the window with the fewest live bytes.
std::optional<SegmentNumber> Segments::EasiestStretch(std::size_t length) const {
  std::optional<SegmentNumber> best;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t live = 0;
  std::size_t free = 0;
  std::size_t good = 0;  // adjacent segments up to here that may be in a window
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const Segment& segment = segments_[i];
    const bool movable =
        segment.use == Use::kFree || segment.use == Use::kRetired || segment.use == Use::kLog;
    if (!movable) {
      good = live = free = 0;
      continue;
    }
    ++good;
    if (segment.use == Use::kLog) live += segment.live;
    if (segment.use == Use::kFree) ++free;
    if (good > length) {
      const Segment& left = segments_[i - length];
      if (left.use == Use::kLog) live -= left.live;
      if (left.use == Use::kFree) --free;
    }
    const std::size_t to_move = (live + kSegmentSize - 1) / kSegmentSize;
    if (good < length || free_.count() - free < to_move + kReserve || live >= least) continue;
    least = live;
    best = static_cast<SegmentNumber>(i + 1 - length);
  }
  return best;
}

}  // namespace remora
