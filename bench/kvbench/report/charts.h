// Charts as SVG, to stand in a page. Texts are escaped; all is well-formed XML.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace remora::bench {

/// A text as XML has it: & < > and quotes escaped.
std::string Escaped(std::string_view text);

/// One end to the other, and where marks stand, in the units of the points.
struct Axis {
  std::string title;
  double low = 0;
  double high = 1;
  std::vector<std::pair<double, std::string>> marks;
};

/// From 0 to at least `high`, in steps of 1, 2 or 5 times a power of ten; `text` says a mark.
Axis LinearAxis(std::string title, double high);
/// Powers of ten from below `low` to above `high` (ns, both positive); points are their logarithms.
Axis LogTimeAxis(std::string title, double low, double high);

struct Series {
  std::string label;
  std::size_t colour = 0;                         // one of a few that differ; more begin again
  std::vector<std::pair<double, double>> points;  // x ascending
};

/// Series as lines, with a legend.
std::string LineChart(const Axis& x, const Axis& y, const std::vector<Series>& series);

struct Bar {
  std::string label;
  double value = 0;
  std::string text;  // the value, as people read it
  std::size_t colour = 0;
};

/// Horizontal bars from 0, one below the other.
std::string BarChart(const std::vector<Bar>& bars);

}  // namespace remora::bench
