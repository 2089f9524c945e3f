// The set of free segments, kept as stretches of adjacent segments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace remora {

using SegmentNumber = std::uint32_t;

/// Set of free segments. A single segment is taken from the low end of the shortest stretch, and a run from
/// the high end of the shortest stretch that is long enough. So long stretches stay long.
///
/// Thread safety: none. Cost: logarithmic time for each call; the store makes about one for each MiB written.
class FreeSegments {
 public:
  using Stretches = std::map<SegmentNumber, std::size_t>;  // from the first segment to the length

  std::size_t count() const { return count_; }
  /// Returns the length of the longest run that can be taken.
  std::size_t longest() const { return by_length_.empty() ? 0 : by_length_.rbegin()->first; }

  /// Returns all stretches. No two of them are adjacent.
  const Stretches& stretches() const { return stretches_; }

  /// Adds `length` segments from `first` on. REQUIRES: none of them is free.
  void Add(SegmentNumber first, std::size_t length);
  /// Removes `length` segments from `first` on. REQUIRES: all of them are free.
  void Remove(SegmentNumber first, std::size_t length);

  /// Returns the first segment of the run that TakeRun would take. Nothing: there is none.
  std::optional<SegmentNumber> FindRun(std::size_t length) const;

  /// Removes a segment, or a run of segments, and returns its first one. Nothing: there is none.
  std::optional<SegmentNumber> TakeOne();
  std::optional<SegmentNumber> TakeRun(std::size_t length);

 private:
  void Insert(SegmentNumber first, std::size_t length);
  void Erase(Stretches::iterator stretch);

  Stretches stretches_;
  std::set<std::pair<std::size_t, SegmentNumber>> by_length_;
  std::size_t count_ = 0;
};

}  // namespace remora
