// The memory of large records, within segments that hold nothing else.
//
//   segment a             segment b             segment c
//   ┌──────┬──────────────┬─────────────────────┬────────────┬────────┐
//   │ hole │ record 1     │ record 1, goes on   │ record 2   │ hole   │
//   └──────┴──────────────┴─────────────────────┴────────────┴────────┘
//
// A record takes whole pages, so it takes little more memory than it has bytes. A record that is replaced
// leaves a hole that fits the next one of its size, so updates of one size need not move others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "store/format/memory/layout.h"
#include "store/region/free_segments.h"

namespace remora {

/// Segments adjacent to each other.
struct SegmentRange {
  SegmentNumber first = 0;
  std::size_t length = 0;

  bool Contains(SegmentNumber number) const { return number >= first && number - first < length; }
};

/// Set of the places and holes of large records. It changes no byte of the region.
///
/// A *place* is the memory of a record. Each byte of an owned segment is in a place, in a hole, or retired:
/// its record is dead, and readers may still be there. All numbers of bytes are whole pages.
///
/// The class has more than 25 methods, because places, holes and the segments of both change together.
///
/// Thread safety: none. Cost: logarithmic time in the number of places and holes for Take, Retire, Free.
class LargeSpace {
 public:
  /// Makes an empty set for a region with so many segments.
  explicit LargeSpace(std::size_t segment_count) : used_(segment_count), fixed_(segment_count) {}

  /// A place of a record.
  struct Place {
    std::uint64_t bytes = 0;  // of memory
    std::uint64_t extent = 0;
    std::uint64_t number = 0;                   // no other place has had it
    bool is_live = false;                       // MakeLive
    std::list<std::uint64_t>::iterator by_age;  // its entry of by_age_
  };

  // --- Segments

  /// Takes over segments, as a hole. REQUIRES: they hold nothing, and are not owned.
  void Own(SegmentRange range);
  /// Return the bytes of the hole that begins where a segment begins, and of the one that ends there, or 0.
  std::uint64_t HoleAt(SegmentNumber segment) const;
  std::uint64_t HoleBefore(SegmentNumber segment) const;
  /// Returns the bytes of a segment that are in places.
  std::uint64_t used(SegmentNumber segment) const { return used_[segment]; }
  /// Returns whether a segment has part of a place whose record is not live, and so cannot be moved.
  bool IsFixed(SegmentNumber segment) const { return fixed_[segment] > 0; }
  /// Returns the bytes of all holes.
  std::uint64_t hole_bytes() const { return hole_bytes_; }
  std::size_t owned_count() const { return owned_count_; }

  // --- Places

  /// Takes a place at the high end of the smallest hole that is large enough, and returns its offset. It
  /// leaves the segments of `avoid` alone. Nothing: there is no such hole.
  std::optional<std::uint64_t> Take(std::uint64_t extent, SegmentRange avoid);
  /// Returns whether Take would find a place.
  bool HasHole(std::uint64_t extent, SegmentRange avoid) const;
  /// Ends a place. Its memory is retired until Free.
  void Retire(std::uint64_t offset);
  /// Makes retired memory a hole, and gives up the segments that are all hole: it calls `give` for each.
  void Free(std::uint64_t offset, std::uint64_t bytes, const std::function<void(SegmentNumber)>& give);
  /// Notes that the record of a place is live, so that it may be moved.
  void MakeLive(std::uint64_t offset);
  /// Returns the place at this offset, or null.
  const Place* Find(std::uint64_t offset) const;
  /// Returns the first place that begins at `offset` or behind it, and before `end`.
  std::optional<std::uint64_t> FirstFrom(std::uint64_t offset, std::uint64_t end) const;
  /// Returns a place that has a byte in these segments.
  std::optional<std::uint64_t> AnyIn(SegmentRange range) const;
  /// Returns whether a place has a record that is not live: reserved, or staged.
  bool AnyFixed() const { return fixed_places_ > 0; }

  /// Stretch of memory.
  struct Stretch {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  /// Makes the holes in a segment retired memory, and returns them: no place is taken there until Free.
  std::vector<Stretch> Withhold(SegmentNumber segment);

  // --- Ages

  std::size_t count() const { return places_.size(); }
  /// Returns the place that was taken or renewed first. REQUIRES: there is one.
  std::uint64_t Oldest() const { return by_age_.front(); }
  void Renew(std::uint64_t offset);

  // --- Compaction

  /// Returns whether Take would find places outside `range` for all that have a byte in it. `more`: bytes of
  /// holes that can be made of free segments.
  bool CanEmpty(SegmentRange range, const std::vector<std::uint64_t>& more = {}) const;
  /// Returns the segment that is emptied with the fewest bytes to move, at most `most`. Nothing: there is
  /// none that CanEmpty.
  std::optional<SegmentNumber> Easiest(std::uint64_t most) const;
  /// Returns the live place, of fewer than `most` bytes, whose move to the hole that Take finds joins most
  /// for the bytes moved. Holes and `free` segments side by side are a row. A move must raise the sum of the
  /// squares of all rows, so these moves end. Nothing: no move does.
  std::optional<std::uint64_t> BestJoin(std::uint64_t most, const FreeSegments::Stretches& free) const;

 private:
  /// A hole that is large enough, and the part of it that Take uses.
  struct Fit {
    Stretch hole;
    Stretch part;
  };
  std::optional<Fit> FindHole(std::uint64_t bytes, SegmentRange avoid) const;

  using Places = std::map<std::uint64_t, Place>;
  using Holes = std::map<std::uint64_t, std::uint64_t>;  // from the offset to the bytes

  /// Returns all holes and free segments, as rows.
  Holes Rows(const FreeSegments::Stretches& free) const;
  /// Returns what a move of a place adds to the sum of squares; 0 if there is no hole for it.
  double GainOfMove(const Places::value_type& place, const Holes& rows) const;

  static std::uint64_t RoundUp(std::uint64_t extent) {
    return (extent + kPageSize - 1) / kPageSize * kPageSize;
  }
  /// Returns the first place that ends behind `offset`.
  Places::const_iterator FirstEndingBehind(std::uint64_t offset) const;
  /// Adds to used_ and fixed_ of all segments that a place has a byte in; `sign` is 1 or -1.
  void Count(std::uint64_t offset, const Place& place, int sign);
  void AddHole(std::uint64_t offset, std::uint64_t bytes);
  void EraseHole(Holes::iterator hole);

  Places places_;
  std::list<std::uint64_t> by_age_;
  Holes holes_;  // no two of them are adjacent
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_bytes_;
  std::vector<std::uint32_t> used_;  // by segment
  std::vector<std::uint8_t> fixed_;  // places that are not live, by segment
  std::size_t fixed_places_ = 0;
  std::uint64_t taken_ = 0;  // places that were taken so far
  std::uint64_t hole_bytes_ = 0;
  std::size_t owned_count_ = 0;
};

}  // namespace remora
