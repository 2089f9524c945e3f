// The entries of a range that are in the commit log, and not yet in RocksDB: a cursor lays them over the
// entries of a snapshot (C7 of tier_log.h).
//
//   O1  The overlay has the last entry of each key, as the groups were added.
//   O2  A key of the overlay hides the same key of RocksDB. A deleted key is not shown.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "store/durable/commit_log/group_codec.h"
#include "store/durable/commit_log/log_reader.h"
#include "store/format/types/scan_range.h"

namespace remora {

/// An ordered copy of the entries of a range that RocksDB does not have yet.
///
/// Thread safety: none.
class ScanOverlay {
 public:
  /// Reads the groups of the log in `dir` behind `from` up to `until`, and copies the entries in the range.
  /// Errors are those of CommitLogReader.
  static absl::StatusOr<std::unique_ptr<ScanOverlay>> Read(const std::string& dir, const LogPosition& from,
                                                           Lsn until, const ScanRange& range);
  ScanOverlay(const ScanOverlay&) = delete;
  ScanOverlay& operator=(const ScanOverlay&) = delete;

  /// Returns the next entry in the order of the range, or nullptr at the end. It is valid as long as the
  /// overlay.
  const LogEntry* front() const { return next_ < entries_.size() ? &entries_[next_] : nullptr; }
  void Pop() { ++next_; }
  /// Returns whether the range shows key `a` before key `b`.
  bool IsBefore(std::string_view a, std::string_view b) const { return range_.reverse ? a > b : a < b; }

 private:
  explicit ScanOverlay(ScanRange range) : range_(std::move(range)) {}

  /// REQUIRES: the group is behind all groups that were added.
  void Add(const LogGroup& group);
  /// Sorts the entries, in the order of the range, and drops those that a later one replaces (O1).
  void Sort();

  const ScanRange range_;
  std::deque<std::string> bytes_;  // the entries point to these
  std::vector<LogEntry> entries_;
  std::size_t next_ = 0;
};

}  // namespace remora
