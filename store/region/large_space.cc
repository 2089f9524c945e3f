#include "store/region/large_space.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "store/base/check.h"

namespace remora {
namespace {

SegmentNumber SegmentAt(std::uint64_t offset) { return static_cast<SegmentNumber>(offset / kSegmentSize); }

std::uint64_t BeginOf(SegmentNumber segment) { return std::uint64_t{segment} * kSegmentSize; }

/// Returns whether a stretch of memory has a byte in these segments.
bool Touches(std::uint64_t offset, std::uint64_t bytes, SegmentRange range) {
  return range.length > 0 && offset < BeginOf(range.first) + range.length * kSegmentSize &&
         offset + bytes > BeginOf(range.first);
}

/// Returns the parts of a hole below and above these segments.
std::array<LargeSpace::Stretch, 2> PartsOutside(LargeSpace::Stretch hole, SegmentRange range) {
  if (!Touches(hole.offset, hole.bytes, range)) return {{hole, {}}};
  const std::uint64_t begin = BeginOf(range.first);
  const std::uint64_t end = begin + range.length * kSegmentSize;
  const std::uint64_t below = begin - std::min(hole.offset, begin);
  const std::uint64_t above = hole.offset + hole.bytes - std::min(hole.offset + hole.bytes, end);
  return {{{hole.offset, below}, {hole.offset + hole.bytes - above, above}}};
}

}  // namespace

// --- Segments -------------------------------------------------------------------------------------------

void LargeSpace::Own(SegmentRange range) {
  owned_count_ += range.length;
  AddHole(BeginOf(range.first), range.length * kSegmentSize);
}

std::uint64_t LargeSpace::HoleAt(SegmentNumber segment) const {
  const auto hole = holes_.find(BeginOf(segment));
  return hole == holes_.end() ? 0 : hole->second;
}

std::uint64_t LargeSpace::HoleBefore(SegmentNumber segment) const {
  const auto behind = holes_.lower_bound(BeginOf(segment));
  if (behind == holes_.begin()) return 0;
  const auto& [offset, bytes] = *std::prev(behind);
  return offset + bytes == BeginOf(segment) ? bytes : 0;
}

// --- Places ---------------------------------------------------------------------------------------------

std::optional<LargeSpace::Fit> LargeSpace::FindHole(std::uint64_t bytes, SegmentRange avoid) const {
  for (auto found = by_bytes_.lower_bound({bytes, 0}); found != by_bytes_.end(); ++found) {
    const Stretch hole{found->second, found->first};
    for (const Stretch& part : PartsOutside(hole, avoid)) {
      if (part.bytes >= bytes) return Fit{hole, part};
    }
  }
  return std::nullopt;
}

bool LargeSpace::HasHole(std::uint64_t extent, SegmentRange avoid) const {
  return FindHole(RoundUp(extent), avoid).has_value();
}

std::optional<std::uint64_t> LargeSpace::Take(std::uint64_t extent, SegmentRange avoid) {
  const std::uint64_t bytes = RoundUp(extent);
  const std::optional<Fit> fit = FindHole(bytes, avoid);
  if (!fit) return std::nullopt;
  const std::uint64_t offset = fit->part.offset + fit->part.bytes - bytes;
  const std::uint64_t hole_end = fit->hole.offset + fit->hole.bytes;
  EraseHole(holes_.find(fit->hole.offset));
  if (offset > fit->hole.offset) AddHole(fit->hole.offset, offset - fit->hole.offset);
  if (hole_end > offset + bytes) AddHole(offset + bytes, hole_end - offset - bytes);
  const auto [place, is_new] =
      places_.emplace(offset, Place{bytes, extent, ++taken_, false, by_age_.insert(by_age_.end(), offset)});
  REMORA_CHECK(is_new);
  ++fixed_places_;
  Count(offset, place->second, 1);
  return offset;
}

void LargeSpace::Retire(std::uint64_t offset) {
  const auto place = places_.find(offset);
  REMORA_CHECK(place != places_.end());
  Count(offset, place->second, -1);
  if (!place->second.is_live) --fixed_places_;
  by_age_.erase(place->second.by_age);
  places_.erase(place);
}

void LargeSpace::Free(std::uint64_t offset, std::uint64_t bytes,
                      const std::function<void(SegmentNumber)>& give) {
  AddHole(offset, bytes);
  const auto hole = std::prev(holes_.upper_bound(offset));
  const auto [begin, size] = *hole;
  const SegmentNumber first = SegmentAt(begin + kSegmentSize - 1);
  const SegmentNumber end = SegmentAt(begin + size);
  if (first >= end) return;
  EraseHole(hole);
  if (BeginOf(first) > begin) AddHole(begin, BeginOf(first) - begin);
  if (begin + size > BeginOf(end)) AddHole(BeginOf(end), begin + size - BeginOf(end));
  owned_count_ -= end - first;
  for (SegmentNumber i = first; i < end; ++i) give(i);
}

std::vector<LargeSpace::Stretch> LargeSpace::Withhold(SegmentNumber segment) {
  std::vector<Stretch> withheld;
  const std::uint64_t begin = BeginOf(segment);
  auto hole = holes_.upper_bound(begin);
  if (hole != holes_.begin()) --hole;
  while (hole != holes_.end() && hole->first < begin + kSegmentSize) {
    const auto [offset, bytes] = *hole;
    const auto here = hole++;
    if (offset + bytes <= begin) continue;
    EraseHole(here);
    const std::uint64_t from = std::max(offset, begin);
    const std::uint64_t to = std::min(offset + bytes, begin + kSegmentSize);
    if (from > offset) AddHole(offset, from - offset);
    if (to < offset + bytes) AddHole(to, offset + bytes - to);
    withheld.push_back({from, to - from});
  }
  return withheld;
}

void LargeSpace::MakeLive(std::uint64_t offset) {
  Place& place = places_.find(offset)->second;
  REMORA_CHECK(!place.is_live);
  Count(offset, place, -1);
  place.is_live = true;
  --fixed_places_;
  Count(offset, place, 1);
}

const LargeSpace::Place* LargeSpace::Find(std::uint64_t offset) const {
  const auto place = places_.find(offset);
  return place == places_.end() ? nullptr : &place->second;
}

std::optional<std::uint64_t> LargeSpace::FirstFrom(std::uint64_t offset, std::uint64_t end) const {
  const auto place = places_.lower_bound(offset);
  if (place == places_.end() || place->first >= end) return std::nullopt;
  return place->first;
}

std::optional<std::uint64_t> LargeSpace::AnyIn(SegmentRange range) const {
  const auto place = FirstEndingBehind(BeginOf(range.first));
  if (place == places_.end() || !Touches(place->first, place->second.bytes, range)) return std::nullopt;
  return place->first;
}

LargeSpace::Places::const_iterator LargeSpace::FirstEndingBehind(std::uint64_t offset) const {
  const auto behind = places_.upper_bound(offset);
  if (behind == places_.begin()) return behind;
  const auto before = std::prev(behind);
  return before->first + before->second.bytes > offset ? before : behind;
}

void LargeSpace::Count(std::uint64_t offset, const Place& place, int sign) {
  const std::uint64_t end = offset + place.bytes;
  for (SegmentNumber i = SegmentAt(offset); BeginOf(i) < end; ++i) {
    const std::uint64_t bytes = std::min(end, BeginOf(i + 1)) - std::max(offset, BeginOf(i));
    used_[i] += static_cast<std::uint32_t>(sign) * static_cast<std::uint32_t>(bytes);
    if (!place.is_live) fixed_[i] = static_cast<std::uint8_t>(fixed_[i] + sign);
  }
}

void LargeSpace::AddHole(std::uint64_t offset, std::uint64_t bytes) {
  auto next = holes_.lower_bound(offset);
  if (next != holes_.end() && next->first == offset + bytes) {
    bytes += next->second;
    const auto behind = std::next(next);
    EraseHole(next);
    next = behind;
  }
  if (next != holes_.begin()) {
    const auto before = std::prev(next);
    REMORA_CHECK(before->first + before->second <= offset);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      EraseHole(before);
    }
  }
  holes_.emplace(offset, bytes);
  by_bytes_.emplace(bytes, offset);
  hole_bytes_ += bytes;
}

void LargeSpace::EraseHole(Holes::iterator hole) {
  by_bytes_.erase({hole->second, hole->first});
  hole_bytes_ -= hole->second;
  holes_.erase(hole);
}

// --- Ages -----------------------------------------------------------------------------------------------

void LargeSpace::Renew(std::uint64_t offset) {
  by_age_.splice(by_age_.end(), by_age_, places_.find(offset)->second.by_age);
}

// --- Compaction -----------------------------------------------------------------------------------------

// Puts the places into a copy of the holes, in the way and the order in which the cleaner moves them.
bool LargeSpace::CanEmpty(SegmentRange range, const std::vector<std::uint64_t>& more) const {
  std::multiset<std::uint64_t> holes(more.begin(), more.end());
  for (const auto& [offset, bytes] : holes_) {
    for (const Stretch& part : PartsOutside({offset, bytes}, range)) {
      if (part.bytes > 0) holes.insert(part.bytes);
    }
  }
  for (auto place = FirstEndingBehind(BeginOf(range.first));
       place != places_.end() && Touches(place->first, place->second.bytes, range); ++place) {
    if (!place->second.is_live) return false;
    const auto hole = holes.lower_bound(place->second.bytes);
    if (hole == holes.end()) return false;
    const std::uint64_t left = *hole - place->second.bytes;
    holes.erase(hole);
    if (left > 0) holes.insert(left);
  }
  return true;
}

std::optional<SegmentNumber> LargeSpace::Easiest(std::uint64_t most) const {
  // Only a segment with part of a hole: from another one, nothing is gained.
  std::set<std::pair<std::uint64_t, SegmentNumber>> candidates;
  SegmentNumber looked_at = 0;
  for (const auto& [offset, bytes] : holes_) {
    for (SegmentNumber i = std::max(looked_at, SegmentAt(offset)); BeginOf(i) < offset + bytes; ++i) {
      looked_at = i + 1;
      if (IsFixed(i) || used_[i] == 0) continue;
      std::uint64_t to_move = 0;
      for (auto place = FirstEndingBehind(BeginOf(i));
           place != places_.end() && place->first < BeginOf(i + 1) && to_move <= most; ++place) {
        to_move += place->second.bytes;
      }
      if (to_move <= most) candidates.emplace(to_move, i);
    }
  }
  // The first few: each costs a look at all holes.
  constexpr std::size_t kMostTried = 8;
  std::size_t tried = 0;
  for (const auto& [to_move, segment] : candidates) {
    if (CanEmpty({segment, 1})) return segment;
    if (++tried == kMostTried) break;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> LargeSpace::BestJoin(std::uint64_t most,
                                                  const FreeSegments::Stretches& free) const {
  const Holes rows = Rows(free);
  std::optional<std::uint64_t> best;
  double best_gain = 0;
  const auto consider = [&](Places::const_iterator place) {
    if (!place->second.is_live || place->second.bytes >= most) return;
    const double gain = GainOfMove(*place, rows) / static_cast<double>(place->second.bytes);
    if (gain <= best_gain) return;
    best_gain = gain;
    best = place->first;
  };
  for (const auto& [offset, bytes] : rows) {
    const auto above = places_.lower_bound(offset);
    if (above != places_.end() && above->first == offset + bytes) consider(above);
    if (above == places_.begin()) continue;
    const auto below = std::prev(above);
    if (below->first + below->second.bytes == offset) consider(below);
  }
  return best;
}

LargeSpace::Holes LargeSpace::Rows(const FreeSegments::Stretches& free) const {
  Holes all = holes_;
  for (const auto& [first, length] : free) all.emplace(BeginOf(first), length * kSegmentSize);
  Holes rows;
  for (const auto& [offset, bytes] : all) {
    const auto last = rows.empty() ? rows.end() : std::prev(rows.end());
    if (last != rows.end() && last->first + last->second == offset) {
      last->second += bytes;
    } else {
      rows.emplace_hint(rows.end(), offset, bytes);
    }
  }
  return rows;
}

// The move takes the high end of a hole, which is in some row. It leaves two parts of that row. The row below
// the place, the place and the row above it become one row.
double LargeSpace::GainOfMove(const Places::value_type& place, const Holes& rows) const {
  const auto& [offset, taken] = place;
  const auto to = by_bytes_.lower_bound({taken.bytes, 0});
  if (to == by_bytes_.end()) return 0;
  const std::uint64_t to_end = to->second + to->first;
  const auto square = [](std::uint64_t begin, std::uint64_t end) {
    const double length = static_cast<double>(end - begin);
    return length * length;
  };
  const auto row = std::prev(rows.upper_bound(to->second));
  const std::uint64_t row_end = row->first + row->second;
  std::uint64_t begin = offset;  // of what becomes one row
  std::uint64_t end = offset + taken.bytes;
  double gain = 0;
  if (row_end == begin) {
    gain -= square(row->first, row_end);
    gain += square(row->first, to_end - taken.bytes);
    begin = to_end;
  } else if (row->first == end) {
    gain -= square(row->first, row_end);
    gain += square(to_end, row_end);
    end = to_end - taken.bytes;
  } else {
    gain -= square(row->first, row_end);
    gain += square(row->first, to_end - taken.bytes) + square(to_end, row_end);
  }
  const auto above = rows.find(offset + taken.bytes);
  if (above != rows.end() && above != row) {
    gain -= square(above->first, above->first + above->second);
    end = above->first + above->second;
  }
  const auto behind = rows.lower_bound(offset);
  if (behind != rows.begin()) {
    const auto below = std::prev(behind);
    if (below != row && below->first + below->second == offset) {
      gain -= square(below->first, offset);
      begin = below->first;
    }
  }
  return gain + square(begin, end);
}

}  // namespace remora
