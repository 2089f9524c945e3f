// Which segments are free, as stretches of segments next to each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace remora {

using SegmentNumber = std::uint32_t;

/// One at a time is taken from where the least is lost: the low end of the shortest stretch. A run is taken
/// from the shortest stretch that is long enough, at its high end. So long stretches stay long. Each call
/// takes logarithmic time; they come once for a megabyte written.
///
/// Thread Safety: none.
class FreeSegments {
 public:
  std::size_t count() const { return count_; }
  /// The longest run that could be taken.
  std::size_t longest() const { return by_length_.empty() ? 0 : by_length_.rbegin()->first; }

  /// REQUIRES: none of them is free.
  void Add(SegmentNumber first, std::size_t length);
  /// REQUIRES: all of them are free.
  void Remove(SegmentNumber first, std::size_t length);

  std::optional<SegmentNumber> TakeOne();
  std::optional<SegmentNumber> TakeRun(std::size_t length);

 private:
  using Stretches = std::map<SegmentNumber, std::size_t>;  // length by first

  void Insert(SegmentNumber first, std::size_t length);
  void Erase(Stretches::iterator stretch);

  Stretches stretches_;  // none is next to another
  std::set<std::pair<std::size_t, SegmentNumber>> by_length_;
  std::size_t count_ = 0;
};

}  // namespace remora
