// An interval as a page of a terminal.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/kvctl/top/lines.h"
#include "tools/kvctl/top/sample.h"

namespace remora::top {

struct ScreenSize {
  int rows = 24;
  int columns = 80;
};

struct Page {
  std::string server;   // its address, in printable letters
  std::string trouble;  // why the numbers are old; empty: they are not
};

/// Returns the lines of the page, without newlines: no more than fit, none longer than fits. `last`: the last
/// interval. `all`: since the start.
std::vector<std::string> PageLines(const Page& page, const Interval& last, const Interval& all,
                                   ScreenSize size);

/// A page about the shards of a cluster.
struct ShardsPage {
  std::string topology;  // the file, in printable letters
  double seconds = 0;    // since the start
};

/// Returns the lines of the page, as PageLines does: the shards that are not ready, with the reason, before
/// the table of all.
std::vector<std::string> PageLines(const ShardsPage& page, std::span<const ShardInterval> shards,
                                   ScreenSize size);

}  // namespace remora::top
