// Large records and runs of segments (store/region/segments.h): functions that take their memory, give it up,
// and make runs.
#include <algorithm>
#include <atomic>
#include <limits>

#include "store/base/check.h"
#include "store/region/segments.h"

namespace remora {
namespace {

// Segments that stay free when a run is taken: the cleaner's, and one that the index may need for the
// record's key.
constexpr std::size_t kLeft = Segments::kReserve + 1;

// Stretches that MakeRun tries at most. Each costs a look at all holes.
constexpr std::size_t kMostTried = 32;

// Emptying a segment of large records moves at most so many bytes.
constexpr std::uint64_t kMostMoved = 8 * kSegmentSize;

std::size_t SegmentsFor(std::uint64_t bytes) { return (bytes + kSegmentSize - 1) / kSegmentSize; }

}  // namespace

// --- Large records --------------------------------------------------------------------------------------

std::optional<std::uint64_t> Segments::TakeLarge(std::uint64_t extent, Growth growth) {
  std::optional<std::uint64_t> offset = large_.Take(extent, claimed());
  if (!offset) {
    if (growth == Growth::kNone || !GrowLarge(extent)) return std::nullopt;
    offset = large_.Take(extent, claimed());
    REMORA_CHECK(offset.has_value());
  }
  ShowLargeUse(*offset, extent);
  log_bytes_ += extent;
  large_bytes_ += extent;
  return offset;
}

bool Segments::HasLarge(std::uint64_t bytes) const {
  return large_.HasHole(bytes, claimed()) || FindForHole(bytes) ||
         (IsRunReady() && HasRun(SegmentsFor(bytes)));
}

// Takes no segment that the hole does not need, or one would be left that is all hole, and owned.
bool Segments::GrowLarge(std::uint64_t bytes) {
  std::optional<SegmentRange> range = FindForHole(bytes);
  if (!range && IsRunReady() && HasRun(SegmentsFor(bytes))) {
    CancelRun();  // the claim becomes a free stretch
    range = FindForHole(bytes);
  }
  if (!range) return false;
  free_.Remove(range->first, range->length);
  for (std::size_t i = 0; i < range->length; ++i) {
    const auto number = static_cast<SegmentNumber>(range->first + i);
    SetUse(number, Use::kRetired);  // it has no record yet; ShowLargeUse counts it
    ++retired_count_;
    segments_[number].live = 0;
    segments_[number].not_before_ms = 0;
  }
  large_.Own(*range);
  return true;
}

// Segments between holes save a part of a segment, so they come first. Runs are taken from the high end of a
// stretch, and records from the high end of a hole. So records stand side by side.
std::optional<SegmentRange> Segments::FindForHole(std::uint64_t bytes) const {
  std::optional<SegmentRange> best;
  std::uint64_t largest = 0;
  for (const auto& [first, length] : free_.stretches()) {
    const auto end = static_cast<SegmentNumber>(first + length);
    if (claimed().Contains(end) || (first > 0 && claimed().Contains(first - 1))) continue;
    const std::uint64_t high = large_.HoleAt(end);
    std::uint64_t joined = high;
    std::size_t more = SegmentsFor(bytes - std::min(joined, bytes));
    if (more == length + 1) {
      joined += large_.HoleBefore(first);
      more = SegmentsFor(bytes - std::min(joined, bytes));
    }
    if (joined <= largest || more > length || free_.count() < more + kLeft) continue;
    largest = joined;
    best = {static_cast<SegmentNumber>(end - more), more};
  }
  if (best) return best;
  const std::size_t length = SegmentsFor(bytes);
  if (free_.longest() < length || free_.count() < length + kLeft) return std::nullopt;
  return SegmentRange{free_.FindRun(length).value(), length};
}

std::vector<std::uint64_t> Segments::SpareBytes(SegmentRange range) const {
  std::size_t left = free_.count();
  for (std::size_t i = 0; i < range.length; ++i) left -= segments_[range.first + i].use == Use::kFree;
  left -= std::min(left, kLeft);
  std::vector<std::uint64_t> spare;
  for (const auto& [first, length] : free_.stretches()) {
    std::size_t outside = 0;
    for (std::size_t i = 0; i < length; ++i) {
      outside = range.Contains(static_cast<SegmentNumber>(first + i)) ? 0 : outside + 1;
    }
    outside = std::min(outside, left);
    if (outside > 0) spare.push_back(outside * kSegmentSize);
    left -= outside;
  }
  return spare;
}

// Shows the use of all segments in which a place begins or ends: a segment without places is retired.
void Segments::ShowLargeUse(std::uint64_t offset, std::uint64_t bytes) {
  for (std::uint64_t i = offset / kSegmentSize; i * kSegmentSize < offset + bytes; ++i) {
    const auto number = static_cast<SegmentNumber>(i);
    const Use use = large_.used(number) > 0 ? Use::kRun : Use::kRetired;
    if (segments_[number].use == use) continue;
    SetUse(number, use);
    if (use == Use::kRetired) {
      ++retired_count_;
    } else {
      --retired_count_;
    }
  }
}

std::uint64_t Segments::EndLarge(std::uint64_t offset) {
  const LargeSpace::Place* const place = large_.Find(offset);
  REMORA_CHECK(place != nullptr);
  const std::uint64_t bytes = place->bytes;
  log_bytes_ -= place->extent;
  large_bytes_ -= place->extent;
  large_.Retire(offset);
  ShowLargeUse(offset, bytes);
  return bytes;
}

void Segments::ReleaseLarge(std::uint64_t offset) { FreeLarge(offset, EndLarge(offset)); }

void Segments::RetireLarge(std::uint64_t offset) {
  const std::uint64_t bytes = EndLarge(offset);
  // Release: a reader that sees the new byte sees that the record is dead, too (P2 of chunked_read.h).
  std::byte& beginning = region_[BeginningOffset(region_.size(), offset)];
  std::atomic_ref(beginning).store(std::byte(std::to_integer<unsigned>(beginning) + 1),
                                   std::memory_order_release);
  RetireLargeBytes(offset, bytes);
}

void Segments::RetireLargeBytes(std::uint64_t offset, std::uint64_t bytes) {
  retired_.push_back({TimePoint::max(), offset, bytes});
  ++retired_large_;
  retired_large_bytes_ += bytes;
  ++just_retired_;
}

void Segments::FreeLarge(std::uint64_t offset, std::uint64_t bytes) {
  ChangeReuseEpoch();
  large_.Free(offset, bytes, [this](SegmentNumber number) {
    ForgetExpiry(number, 0);
    // A sweep that remembers this segment must not take a later use of it for the same one.
    ++segments_[number].retired;
    --retired_count_;
    AddFree(number);
  });
}

std::optional<SegmentNumber> Segments::BeginToEmptyLarge() {
  if (times_freed_ == compacted_at_) return std::nullopt;
  const std::optional<SegmentNumber> easiest = large_.Easiest(kMostMoved);
  if (!easiest) {
    compacted_at_ = times_freed_;
    return std::nullopt;
  }
  WithholdLarge(*easiest);
  return easiest;
}

void Segments::WithholdLarge(SegmentNumber segment) {
  for (const LargeSpace::Stretch& hole : large_.Withhold(segment)) RetireLargeBytes(hole.offset, hole.bytes);
}

// --- Runs -----------------------------------------------------------------------------------------------

std::size_t Segments::max_run() const {
  // The index has at least one segment, and the head of the log is another.
  const std::size_t taken = FirstSegment(region_.size()) + 2 + kLeft;
  return segments_.size() > taken ? segments_.size() - taken : 0;
}

bool Segments::HasRun(std::size_t length) const {
  if (IsRunReady() && length <= claim_->range.length) {
    return free_.count() + claim_->range.length >= length + kLeft;
  }
  return free_.longest() >= length && free_.count() >= length + kLeft;
}

bool Segments::HasEnoughFor(std::size_t length) const {
  const std::size_t claimed = claim_ ? claim_->ready : 0;
  return free_.count() + claimed + retired_count_ >= length + kLeft;
}

bool Segments::MakeRun(std::size_t length, TimePoint now) {
  if (claim_) {
    if (length <= claim_->range.length) claim_->asked = now;
    return true;
  }
  if (times_freed_ != searched_at_) searched_length_ = std::numeric_limits<std::size_t>::max();
  if (length >= searched_length_) return false;
  for (const SegmentNumber first : EasyStretches(length)) {
    const SegmentRange range{first, length};
    if (!large_.CanEmpty(range, SpareBytes(range))) continue;
    BeginClaim(range, now);
    return true;
  }
  searched_length_ = length;
  searched_at_ = times_freed_;
  return false;
}

void Segments::BeginClaim(SegmentRange range, TimePoint now) {
  claim_ = {range, 0, now};
  for (std::size_t i = 0; i < range.length; ++i) {
    const auto number = static_cast<SegmentNumber>(range.first + i);
    if (segments_[number].use != Use::kFree) continue;
    free_.Remove(number, 1);
    SetUse(number, Use::kClaimed);
    ++claim_->ready;
  }
}

bool Segments::IsRunInUse() const {
  if (!claim_) return false;
  const auto begin = segments_.begin() + claim_->range.first;
  return std::any_of(
      begin, begin + static_cast<std::ptrdiff_t>(claim_->range.length),
      [](const Segment& segment) { return segment.use == Use::kLog || segment.use == Use::kRun; });
}

std::optional<std::uint64_t> Segments::LargeInWay() const {
  return claim_ ? large_.AnyIn(claim_->range) : std::nullopt;
}

void Segments::CancelRun() {
  if (!claim_) return;
  const SegmentRange range = claim_->range;
  claim_.reset();
  for (std::size_t i = 0; i < range.length; ++i) {
    const auto number = static_cast<SegmentNumber>(range.first + i);
    if (segments_[number].use == Use::kClaimed) AddFree(number);
  }
}

// Slides a window of `length` segments over all segments. The cleaner must move the live records in the
// window to free segments outside it, and the large ones to holes. The function returns the windows with the
// fewest live bytes, as far as a sum of bytes can tell. Half of a segment of large records counts as live,
// since its holes are of use as they are.
std::vector<SegmentNumber> Segments::EasyStretches(std::size_t length) const {
  std::vector<std::pair<std::uint64_t, SegmentNumber>> found;  // the cost, and the first segment
  WindowSums window;
  const std::uint64_t most_large = large_.hole_bytes() + free_.count() * kSegmentSize;
  std::size_t good = 0;  // adjacent segments up to here that may be in a window
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const auto number = static_cast<SegmentNumber>(i);
    if (!IsMovable(number)) {
      good = 0;
      window = {};
      continue;
    }
    ++good;
    AddTo(&window, number, 1);
    if (good > length) AddTo(&window, static_cast<SegmentNumber>(i - length), -1);
    const std::size_t to_move = SegmentsFor(window.live);
    if (good < length || free_.count() - window.free < to_move + kReserve || window.large > most_large) {
      continue;
    }
    const std::uint64_t cost = window.live + window.large / 2 + window.runs * (kSegmentSize / 2);
    found.emplace_back(cost, static_cast<SegmentNumber>(i + 1 - length));
  }
  const std::size_t count = std::min(found.size(), kMostTried);
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count), found.end());
  std::vector<SegmentNumber> stretches;
  for (std::size_t i = 0; i < count; ++i) stretches.push_back(found[i].second);
  return stretches;
}

bool Segments::IsMovable(SegmentNumber number) const {
  const Use use = segments_[number].use;
  return use == Use::kFree || use == Use::kRetired || use == Use::kLog ||
         (use == Use::kRun && !large_.IsFixed(number));
}

void Segments::AddTo(WindowSums* window, SegmentNumber number, int sign) const {
  const auto change = static_cast<std::uint64_t>(sign);
  const Segment& segment = segments_[number];
  if (segment.use == Use::kLog) window->live += change * segment.live;
  if (segment.use == Use::kRun) {
    window->large += change * large_.used(number);
    window->runs += change;
  }
  if (segment.use == Use::kFree) window->free += change;
}

}  // namespace remora
