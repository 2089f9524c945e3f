#include "store/region/free_segments.h"

#include <iterator>

#include "store/base/check.h"

namespace remora {

void FreeSegments::Add(SegmentNumber first, std::size_t length) {
  const auto next = stretches_.lower_bound(first);
  REMORA_CHECK(next == stretches_.end() || first + length <= next->first);
  if (next != stretches_.begin()) {
    const auto previous = std::prev(next);
    const std::uint64_t end = previous->first + previous->second;
    REMORA_CHECK(end <= first);
    if (end == first) {
      first = previous->first;
      length += previous->second;
      Erase(previous);
    }
  }
  if (next != stretches_.end() && first + length == next->first) {
    length += next->second;
    Erase(next);
  }
  Insert(first, length);
}

void FreeSegments::Remove(SegmentNumber first, std::size_t length) {
  const auto behind = stretches_.upper_bound(first);
  REMORA_CHECK(behind != stretches_.begin());
  const auto stretch = std::prev(behind);
  const auto [begin, size] = *stretch;
  REMORA_CHECK(first + length <= begin + size);
  Erase(stretch);
  if (first > begin) Insert(begin, first - begin);
  const std::size_t rest = begin + size - (first + length);
  if (rest > 0) Insert(static_cast<SegmentNumber>(first + length), rest);
}

std::optional<SegmentNumber> FreeSegments::TakeOne() {
  if (by_length_.empty()) return std::nullopt;
  const SegmentNumber first = by_length_.begin()->second;
  Remove(first, 1);
  return first;
}

std::optional<SegmentNumber> FreeSegments::FindRun(std::size_t length) const {
  const auto found = by_length_.lower_bound({length, 0});
  if (found == by_length_.end()) return std::nullopt;
  return static_cast<SegmentNumber>(found->second + found->first - length);
}

std::optional<SegmentNumber> FreeSegments::TakeRun(std::size_t length) {
  const std::optional<SegmentNumber> first = FindRun(length);
  if (first) Remove(*first, length);
  return first;
}

void FreeSegments::Insert(SegmentNumber first, std::size_t length) {
  stretches_.emplace(first, length);
  by_length_.emplace(length, first);
  count_ += length;
}

void FreeSegments::Erase(Stretches::iterator stretch) {
  by_length_.erase({stretch->second, stretch->first});
  count_ -= stretch->second;
  stretches_.erase(stretch);
}

}  // namespace remora
