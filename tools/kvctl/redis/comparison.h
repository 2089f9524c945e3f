// The comparison of what a transfer has copied: counts, and a hash over keys and values of each side.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tools/kvctl/kvctl.h"

namespace remora::kvctl {

/// The number of records, and the sum of their hashes, in which their order does not matter.
class RecordSum {
 public:
  void Add(std::string_view key, std::string_view value);
  std::uint64_t records() const { return records_; }
  std::uint64_t hash() const { return hash_; }

 private:
  std::uint64_t records_ = 0;
  std::uint64_t hash_ = 0;
};

/// Compares records of a source with those of a target, and sums up both sides.
///
/// Thread safety: none.
class Comparison {
 public:
  /// Compares a record of the source with the value that the target has for its key, if any. Adds a line
  /// about a difference to `lines`.
  void Add(std::string_view key, std::string_view source, std::optional<std::string_view> target,
           std::string* lines);
  /// Prints the counts and the hashes. The outcome is kExitProblem if there is a difference.
  Outcome Report() const;

 private:
  RecordSum source_;
  RecordSum target_;
  std::uint64_t different_ = 0;
};

}  // namespace remora::kvctl
