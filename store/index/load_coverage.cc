#include "store/index/load_coverage.h"

#include <algorithm>

#include "store/base/check.h"

namespace remora {

void LoadCoverage::Begin(const std::vector<std::string>& begins) {
  REMORA_CHECK(!begins.empty() && begins.front().empty() && std::is_sorted(begins.begin(), begins.end()));
  ranges_.clear();
  // All positions are empty strings, and no key is empty: all keys come after them.
  for (const std::string& begin : begins) ranges_.emplace_back().begin = begin;
}

const LoadCoverage::Range& LoadCoverage::RangeOf(std::string_view key) const {
  const auto next = std::upper_bound(ranges_.begin(), ranges_.end(), key,
                                     [](std::string_view k, const Range& range) { return k < range.begin; });
  return *std::prev(next);
}

bool LoadCoverage::CoversWhileLoading(std::string_view key) const {
  const Range& range = RangeOf(key);
  return range.Passed(key) || range.added.contains(key);
}

void LoadCoverage::AddKey(std::string_view key) {
  if (ranges_.empty()) return;
  const Range& range = RangeOf(key);
  if (range.Passed(key)) return;
  ranges_[static_cast<std::size_t>(&range - ranges_.data())].added.emplace(key);
}

void LoadCoverage::Advance(std::size_t number, std::string_view key) {
  Range& range = ranges_[number];
  REMORA_CHECK(range.position <= key);
  range.position = key;
  range.added.erase(range.added.begin(), range.added.upper_bound(key));
}

void LoadCoverage::AdvanceToEnd(std::size_t number) {
  ranges_[number].all = true;
  ranges_[number].added.clear();
}

}  // namespace remora
