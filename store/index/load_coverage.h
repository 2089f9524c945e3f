// Of which keys the index says whether they exist, while a store loads (store/recovery/index_loader.h). Of
// all others only the durable tier does.
//
// The load goes through each range of keys in order. So the index knows what is at or before a range's
// position, and beyond that those keys that somebody wrote, deleted or brought in, which are added one by one
// until the load gets there.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace remora {

/// Thread Safety: none; under the store's lock.
class LoadCoverage {
 public:
  /// From now on the index knows none. `begins`: the first key of each range, in order; that of the first
  /// comes before all keys.
  void Begin(const std::vector<std::string>& begins);

  /// From now on it knows all. So it does at first.
  void CoverAll() { ranges_.clear(); }

  /// Whether the index knows the key: it has an entry for it exactly when the key exists.
  bool Covers(std::string_view key) const { return ranges_.empty() || CoversWhileLoading(key); }

  /// The index knows this key from now on.
  void AddKey(std::string_view key);

  // --- For who loads. Ranges are counted from 0.

  /// The index knows all of a range up to this key from now on. REQUIRES: not before the last one.
  void Advance(std::size_t range, std::string_view key);
  /// The same of the whole range.
  void AdvanceToEnd(std::size_t range);

  /// Whether any key of a range beyond its position was added, and whether this one was.
  bool HasAdded(std::size_t range) const { return !ranges_[range].added.empty(); }
  bool IsAdded(std::size_t range, std::string_view key) const { return ranges_[range].added.contains(key); }

 private:
  struct Range {
    std::string begin;
    std::string position;  // all up to here are known
    bool all = false;      // all are
    std::set<std::string, std::less<>> added;

    bool Passed(std::string_view key) const { return all || key <= position; }
  };

  bool CoversWhileLoading(std::string_view key) const;
  const Range& RangeOf(std::string_view key) const;

  std::vector<Range> ranges_;  // empty: all keys are known
};

}  // namespace remora
