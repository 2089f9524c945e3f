// The set of keys that the index knows while a store loads (store/recovery/index_loader.h). For a key that
// the index knows, it says whether the key exists. For all others, only the durable tier does.
//
// The load goes through each range of keys in order. So the index knows the keys of a range up to the load's
// position. Beyond the position, it knows those keys that were written, deleted or promoted meanwhile. The
// writer adds these one by one, until the load passes them.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace remora {

/// The set of keys that the index knows. At first, it has all keys.
///
/// Thread safety: none; callers hold the store's lock.
class LoadCoverage {
 public:
  /// Empties the set. `begins`: the beginnings of all ranges, in order. The first one comes before all keys.
  void Begin(const std::vector<std::string>& begins);

  /// Adds all keys.
  void CoverAll() { ranges_.clear(); }

  /// Returns whether the index knows the key: then it has an entry for the key exactly if the key exists.
  bool Covers(std::string_view key) const { return ranges_.empty() || CoversWhileLoading(key); }

  /// Adds this key.
  void AddKey(std::string_view key);

  // --- For the loader. Ranges are counted from 0.

  /// Adds all keys of a range up to this one, its new position. REQUIRES: `key` is not before the old one.
  void Advance(std::size_t range, std::string_view key);
  /// Adds all keys of a range.
  void AdvanceToEnd(std::size_t range);

  /// Return whether the set has any key of a range beyond the range's position, and whether it has this one.
  bool HasAdded(std::size_t range) const { return !ranges_[range].added.empty(); }
  bool IsAdded(std::size_t range, std::string_view key) const { return ranges_[range].added.contains(key); }

 private:
  struct Range {
    std::string begin;
    std::string position;  // the index knows all keys up to here
    bool all = false;      // the index knows all keys of the range
    std::set<std::string, std::less<>> added;

    bool Passed(std::string_view key) const { return all || key <= position; }
  };

  bool CoversWhileLoading(std::string_view key) const;
  const Range& RangeOf(std::string_view key) const;

  std::vector<Range> ranges_;  // empty: the index knows all keys
};

}  // namespace remora
