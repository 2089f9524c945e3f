// Reports as one page: no file beside it, no network, no script.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/kvbench/report/charts.h"
#include "bench/kvbench/report/report.h"
#include "bench/kvbench/report/table.h"
#include "bench/kvbench/report/tables.h"
#include "bench/kvbench/report/units.h"

namespace remora::bench {
namespace {

constexpr const char* kHead = R"(<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="color-scheme" content="light dark"/>
<title>kvbench</title>
<style>
:root { --text: #222; --page: #fff; --line: #ddd; --rule: #e2e2e2; --warn: #7a4d00; --warn_back: #fff1cc; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e9ed; --page: #0e1116; --line: #2d333d; --rule: #2d333d; --warn: #f3cd72; --warn_back: #3b2c07; }
}
body { font: 15px/1.45 system-ui, sans-serif; color: var(--text); background: var(--page); max-width: 80em;
       margin: 1.5em auto; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { padding: .2em .4em; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child, td.name, th.name { text-align: left; }
td.long { white-space: normal; overflow-wrap: anywhere; min-width: 8em; }
div.wide { overflow-x: auto; }
p.warning { color: var(--warn); background: var(--warn_back); padding: .6em .8em; border-radius: 6px; }
svg { width: 100%; min-width: 560px; height: auto; font: 11px system-ui, sans-serif; fill: var(--text); }
svg .rule { stroke: var(--rule); }
</style>
</head>
<body>
<h1>kvbench</h1>
)";

/// A chart that scrolls where the window is narrower than its texts need.
std::string Wide(const std::string& chart) { return "<div class=\"wide\">" + chart + "</div>\n"; }

std::string WarningsOf(const std::vector<NamedReport>& reports) {
  std::string html;
  for (const std::string& warning : Warnings(reports)) {
    absl::StrAppend(&html, "<p class=\"warning\">", warning, "</p>\n");
  }
  return html;
}

/// Empty: the values of no report have such bytes.
std::string BandwidthBars(const std::vector<NamedReport>& reports, const char* name,
                          std::uint64_t ValueBytes::*bytes) {
  std::vector<Bar> bars;
  ColumnUnit unit(kByteRateUnits);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const PhaseResult* const phase = ShownPhase(reports[i].report);
    if (phase == nullptr || phase->all_bytes().*bytes == 0) continue;
    bars.push_back({reports[i].name, phase->per_second(phase->all_bytes().*bytes), "", i});
    unit.Add(bars.back().value);
  }
  if (bars.empty()) return {};
  for (Bar& bar : bars) bar.text = unit.Text(bar.value);
  return std::string(absl::StrCat("<h2>Values ", name, ", ", unit.name(), "</h2>\n")) + Wide(BarChart(bars));
}

std::string Comparison(const std::vector<NamedReport>& reports) {
  if (reports.size() < 2) return {};
  std::vector<Bar> throughput;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const PhaseResult* const phase = ShownPhase(reports[i].report);
    if (phase == nullptr) continue;
    const double rate = phase->per_second(phase->all_operations());
    throughput.push_back({reports[i].name, rate, Grouped(static_cast<std::uint64_t>(rate)), i});
  }
  std::string html = "<h2>Operations per second</h2>\n" + Wide(BarChart(throughput));
  html += BandwidthBars(reports, "read", &ValueBytes::read);
  html += BandwidthBars(reports, "written", &ValueBytes::written);
  for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
    std::vector<Bar> bars;
    for (const double fraction : {0.5, 0.99}) {
      for (std::size_t i = 0; i < reports.size(); ++i) {
        const PhaseResult* const phase = ShownPhase(reports[i].report);
        if (phase == nullptr || phase->operations[kind] == 0) continue;
        const auto ns = static_cast<double>(phase->latency[kind].Quantile(fraction));
        bars.push_back(
            {absl::StrCat(reports[i].name, fraction < 0.9 ? ", p50" : ", p99"), ns, TimeText(ns), i});
      }
    }
    if (bars.empty()) continue;
    absl::StrAppend(&html, "<h2>Latency of ", kOperationNames[kind], "</h2>\n", Wide(BarChart(bars)));
  }
  return html;
}

std::string ThroughputOverTime(const std::vector<NamedReport>& reports) {
  std::vector<Series> series;
  double longest = 0;
  double most = 0;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const PhaseResult* const phase = ShownPhase(reports[i].report);
    if (phase == nullptr || phase->series.empty()) continue;
    Series line{reports[i].name, i, {}};
    double begin = 0;
    for (const Interval& interval : phase->series) {
      const double end = std::min(begin + phase->interval_seconds, phase->seconds);
      // The last one may be too short to say a rate.
      if (end - begin < phase->interval_seconds / 2 && begin > 0) break;
      if (end <= begin) break;
      const double rate = static_cast<double>(interval.operations) / (end - begin);
      line.points.emplace_back((begin + end) / 2, rate);
      most = std::max(most, rate);
      begin = end;
    }
    if (line.points.size() < 2) continue;  // no line
    longest = std::max(longest, begin);
    series.push_back(std::move(line));
  }
  if (series.empty()) return {};
  return "<h2>Throughput over time</h2>\n" +
         Wide(LineChart(LinearAxis("seconds", longest), LinearAxis("operations per second", most), series));
}

// How many nines a share has: 1 for 90 %, 2 for 99 %. So a cumulative distribution shows its tail.
double Nines(double share) { return -std::log10(1 - share); }

std::string LatencyDistributions(const std::vector<NamedReport>& reports) {
  std::string html;
  for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
    std::vector<Series> series;
    double low = 1e18;
    double high = 1;
    double most_nines = 1;
    for (std::size_t i = 0; i < reports.size(); ++i) {
      const PhaseResult* const phase = ShownPhase(reports[i].report);
      if (phase == nullptr || phase->latency[kind].count() == 0) continue;
      const Histogram& latency = phase->latency[kind];
      Series line{reports[i].name, i, {}};
      std::uint64_t seen = 0;
      for (const Histogram::Sparse::Cell& cell : latency.ToSparse().cells) {
        const double ns =
            std::max(1.0, static_cast<double>(std::min(Histogram::CellTop(cell.number), latency.max())));
        seen += cell.count;
        // The largest would have infinitely many: it stands where half of it is.
        const double share = (static_cast<double>(seen) - (seen == latency.count() ? 0.5 : 0)) /
                             static_cast<double>(latency.count());
        line.points.emplace_back(std::log10(ns), Nines(share));
        most_nines = std::max(most_nines, Nines(share));
        low = std::min(low, ns);
        high = std::max(high, ns);
      }
      series.push_back(std::move(line));
    }
    if (series.empty()) continue;
    Axis y{"of operations, no slower", 0, std::ceil(most_nines), {{0, "0 %"}}};
    for (int nines = 1; nines <= static_cast<int>(y.high); ++nines) {
      y.marks.emplace_back(
          nines, nines == 1 ? "90 %" : absl::StrFormat("%.*f %%", nines - 2, 100 - std::pow(10, 2 - nines)));
    }
    absl::StrAppend(&html, "<h2>Distribution of the latency of ", kOperationNames[kind], "</h2>\n",
                    Wide(LineChart(LogTimeAxis("latency", low, high), y, series)));
  }
  return html;
}

std::string Errors(const std::vector<NamedReport>& reports) {
  std::string html;
  for (const std::string& line : ErrorLines(reports))
    absl::StrAppend(&html, "<li>", Escaped(line), "</li>\n");
  return html.empty() ? html : "<h2>Errors</h2>\n<ul>\n" + html + "</ul>\n";
}

}  // namespace

std::string ToHtml(const std::vector<NamedReport>& reports, const std::string& curves) {
  const std::string charts =
      !curves.empty() ? Wide(curves)
                      : Comparison(reports) + ThroughputOverTime(reports) + LatencyDistributions(reports);
  return kHead + WarningsOf(reports) + HtmlOf(MediansTable(reports)) + HtmlOf(SummaryTable(reports)) +
         Errors(reports) + charts +
         HtmlOf(TextsTable("Machine and versions", reports, &RunReport::environment)) +
         HtmlOf(TextsTable("Settings", reports, &RunReport::settings)) + "</body>\n</html>\n";
}

}  // namespace remora::bench
