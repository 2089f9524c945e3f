// How runs change with one of their settings, as charts.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "bench/kvbench/report/charts.h"
#include "bench/kvbench/report/report.h"
#include "bench/kvbench/report/units.h"
#include "store/base/absl_view.h"

namespace remora::bench {
namespace {

const std::string* SettingOf(const RunReport& report, std::string_view name) {
  for (const auto& [setting, value] : report.settings) {
    if (setting == name) return &value;
  }
  return nullptr;
}

struct Point {
  double x = 0;
  const PhaseResult* run = nullptr;
};

/// Lines of points, by what they are called: runs of one workload at one depth.
using Lines = std::map<std::string, std::vector<Point>>;

/// In the order of x, at each the run of the median throughput; of two, the slower one.
std::vector<Point> MedianRuns(std::vector<Point> points) {
  const auto rate = [](const Point& point) { return point.run->per_second(point.run->all_operations()); };
  std::sort(points.begin(), points.end(), [&rate](const Point& a, const Point& b) {
    return std::pair(a.x, rate(a)) < std::pair(b.x, rate(b));
  });
  std::vector<Point> medians;
  for (auto begin = points.begin(); begin != points.end();) {
    const auto end =
        std::find_if(begin, points.end(), [&](const Point& point) { return point.x != begin->x; });
    medians.push_back(begin[(end - begin - 1) / 2]);
    begin = end;
  }
  return medians;
}

/// Where a value of the setting stands. Logarithms, unless one of them has none.
class Scale {
 public:
  Scale(std::string_view setting, const Lines& lines) {
    double least = 1e300, most = 0;
    for (const auto& [label, points] : lines) {
      least = std::min(least, points.front().x);
      most = std::max(most, points.back().x);
    }
    is_log_ = least > 0 && most >= 8 * least;
    if (!is_log_) {
      axis_ = LinearAxis(std::string(setting), most);
      return;
    }
    axis_.title = setting;
    axis_.low = std::floor(std::log10(least));
    axis_.high = std::ceil(std::log10(most));
    for (int power = static_cast<int>(axis_.low); power <= static_cast<int>(axis_.high); ++power) {
      axis_.marks.emplace_back(power, Grouped(static_cast<std::uint64_t>(std::pow(10, std::max(0, power)))));
    }
  }
  const Axis& axis() const { return axis_; }
  double Place(double x) const { return is_log_ ? std::log10(x) : x; }

 private:
  bool is_log_ = false;
  Axis axis_;
};

using RunRate = double (*)(const PhaseResult& run);

std::string Rates(const Lines& lines, const Scale& scale, const char* title, const Unit& unit, RunRate rate) {
  std::vector<Series> series;
  double most = 0;
  for (const auto& [label, points] : lines) {
    Series line{label, series.size(), {}};
    for (const Point& point : points) {
      line.points.emplace_back(scale.Place(point.x), rate(*point.run) / unit.size);
      most = std::max(most, line.points.back().second);
    }
    series.push_back(std::move(line));
  }
  return LineChart(scale.axis(), LinearAxis(title, most), series);
}

std::string Throughput(const Lines& lines, const Scale& scale) {
  return "<h2>Operations per second</h2>\n" +
         Rates(lines, scale, "operations per second", {"", 1},
               [](const PhaseResult& run) { return run.per_second(run.all_operations()); });
}

/// Empty: no run has such bytes.
std::string Bandwidth(const Lines& lines, const Scale& scale, const char* name, RunRate rate) {
  double most = 0;
  for (const auto& [label, points] : lines) {
    for (const Point& point : points) most = std::max(most, rate(*point.run));
  }
  if (most <= 0) return {};
  ColumnUnit unit(kByteRateUnits);
  unit.Add(most);
  return std::string(absl::StrCat("<h2>Values ", name, ", ", unit.unit().name, "</h2>\n")) +
         Rates(lines, scale, unit.unit().name, unit.unit(), rate);
}

std::string Latencies(const Lines& lines, const Scale& scale, std::size_t kind) {
  std::vector<Series> series;
  double low = 1e18;
  double high = 1;
  for (const auto& [label, points] : lines) {
    for (const NamedQuantile& quantile : {kQuantiles[0], kQuantiles[3]}) {
      Series line{std::string(absl::StrCat(label, ", ", quantile.name)), series.size(), {}};
      for (const Point& point : points) {
        const Histogram& latency = point.run->latency[kind];
        if (latency.count() == 0) continue;
        const double ns = std::max(1.0, static_cast<double>(latency.Quantile(quantile.fraction)));
        line.points.emplace_back(scale.Place(point.x), std::log10(ns));
        low = std::min(low, ns);
        high = std::max(high, ns);
      }
      if (!line.points.empty()) series.push_back(std::move(line));
    }
  }
  if (series.empty()) return {};
  return std::string(absl::StrCat("<h2>Latency of ", kOperationNames[kind], "</h2>\n")) +
         LineChart(scale.axis(), LogTimeAxis("latency", low, high), series);
}

}  // namespace

absl::StatusOr<std::string> Curves(const std::vector<NamedReport>& reports, std::string_view setting) {
  Lines lines;
  for (const NamedReport& named : reports) {
    const std::string* const value = SettingOf(named.report, setting);
    double x = 0;
    if (value == nullptr || !absl::SimpleAtod(*value, &x) || !(x >= 0) || named.report.phases.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("curves: ", named.name, " has no run with a setting ",
                                                     AbslView(setting), " that is a number"));
    }
    std::string label;
    for (const char* part : {"workload", "depth"}) {
      if (const std::string* const text = SettingOf(named.report, part); text != nullptr && part != setting) {
        absl::StrAppend(&label, label.empty() ? "" : ", ", part, " ", *text);
      }
    }
    lines[label].push_back({x, &named.report.phases.back()});
  }
  for (auto& [label, points] : lines) points = MedianRuns(std::move(points));
  const Scale scale(setting, lines);
  std::string html = Throughput(lines, scale);
  html += Bandwidth(lines, scale, "read",
                    [](const PhaseResult& run) { return run.per_second(run.all_bytes().read); });
  html += Bandwidth(lines, scale, "written",
                    [](const PhaseResult& run) { return run.per_second(run.all_bytes().written); });
  for (std::size_t kind = 0; kind < kOperationKinds; ++kind) html += Latencies(lines, scale, kind);
  return html;
}

}  // namespace remora::bench
