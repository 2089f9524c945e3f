// An interval as a line, for files and for other programs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/kvctl/top/sample.h"

namespace remora::top {

/// The names of the columns of Line, with a newline.
std::string Header();
/// One line of columns: rates in a second, then numbers at the end of the interval.
std::string Line(const Interval& interval);
/// One object of JSON on a line: unix_ms, seconds, rates (of each counter), metrics (all of them).
std::string JsonLine(const Interval& interval);

/// An interval of a shard of a cluster.
struct ShardInterval {
  std::string name;
  std::optional<Interval> interval;  // nothing: its server does not answer
  std::string trouble;               // then: why
};

/// Returns the lines of a table, without newlines: titles, a line for each shard, and one for their sums.
/// A shard without an interval has dashes, and is no part of the sums.
std::vector<std::string> TableOf(std::span<const ShardInterval> shards);
/// One object of JSON on a line: unix_ms and shards, an object in which each shard's name has seconds, rates
/// and metrics, or error.
std::string JsonLine(std::uint64_t unix_ms, std::span<const ShardInterval> shards);

}  // namespace remora::top
