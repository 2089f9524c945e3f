// Reports as one page: no file beside it, no network, no script.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/kvbench/charts.h"
#include "bench/kvbench/report.h"

namespace remora::bench {
namespace {

constexpr const char* kHead = R"(<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" lang="en">
<head>
<meta charset="utf-8"/>
<title>kvbench</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; color: #222; background: #fff; max-width: 75em; margin: 2em auto;
       padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2em .7em; border-bottom: 1px solid #ddd; text-align: right;
         white-space: nowrap; }
th:first-child, td:first-child, td.name, th.name { text-align: left; }
div.wide { overflow-x: auto; }
svg { max-width: 100%; height: auto; font: 12px system-ui, sans-serif; fill: #333; }
svg .rule { stroke: #e2e2e2; }
</style>
</head>
<body>
<h1>kvbench</h1>
)";

void Cell(std::string* html, const char* tag, std::string_view text, bool name = false) {
  absl::StrAppend(html, "<", tag, name ? " class=\"name\">" : ">", Escaped(text), "</", tag, ">");
}

// The phase that is shown in charts: the run, or what there is.
const PhaseResult* ShownPhase(const RunReport& report) {
  return report.phases.empty() ? nullptr : &report.phases.back();
}

std::string SettingsTable(const std::vector<NamedReport>& reports) {
  std::vector<std::string> names;
  for (const NamedReport& named : reports) {
    for (const auto& [name, value] : named.report.settings) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  std::string html = "<h2>Settings</h2>\n<div class=\"wide\"><table>\n<tr><th></th>";
  for (const NamedReport& named : reports) Cell(&html, "th", named.name);
  html += "</tr>\n";
  for (const std::string& name : names) {
    html += "<tr>";
    Cell(&html, "td", name);
    for (const NamedReport& named : reports) {
      const auto& settings = named.report.settings;
      const auto found = std::find_if(settings.begin(), settings.end(),
                                      [&name](const auto& setting) { return setting.first == name; });
      Cell(&html, "td", found == settings.end() ? "" : found->second);
    }
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string SummaryTable(const std::vector<NamedReport>& reports) {
  std::string html = "<h2>Summary</h2>\n<div class=\"wide\"><table>\n<tr>";
  for (const char* name : {"", "phase", "operation"}) Cell(&html, "th", name, true);
  for (const char* name : {"operations", "per second", "mean"}) Cell(&html, "th", name);
  for (const NamedQuantile& quantile : kQuantiles) Cell(&html, "th", quantile.name);
  Cell(&html, "th", "max");
  Cell(&html, "th", "errors");
  html += "</tr>\n";
  for (const NamedReport& named : reports) {
    for (const PhaseResult& phase : named.report.phases) {
      for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
        std::uint64_t errors = 0;
        for (const auto& [key, entry] : phase.errors.entries()) {
          if (key.first == static_cast<OperationKind>(kind)) errors += entry.count;
        }
        if (phase.operations[kind] + errors == 0) continue;
        const Histogram& latency = phase.latency[kind];
        html += "<tr>";
        Cell(&html, "td", named.name);
        Cell(&html, "td", absl::StrCat(phase.name, phase.cut_short ? ", cut short" : ""), true);
        Cell(&html, "td", kOperationNames[kind], true);
        Cell(&html, "td", Grouped(phase.operations[kind]));
        Cell(&html, "td", Grouped(static_cast<std::uint64_t>(phase.per_second(phase.operations[kind]))));
        Cell(&html, "td", TimeText(latency.mean()));
        for (const NamedQuantile& quantile : kQuantiles) {
          Cell(&html, "td", TimeText(static_cast<double>(latency.Quantile(quantile.fraction))));
        }
        Cell(&html, "td", TimeText(static_cast<double>(latency.max())));
        Cell(&html, "td", Grouped(errors));
        html += "</tr>\n";
      }
    }
  }
  return html + "</table></div>\n";
}

/// Returns the middle one of an odd number of values, else the lower of the two. REQUIRES: one at least.
double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Reports with the same settings, but for where random numbers began: runs of one thing.
struct Alike {
  std::string name;  // the first one's
  std::vector<const PhaseResult*> runs;
};

std::vector<Alike> RunsThatAreAlike(const std::vector<NamedReport>& reports) {
  std::map<std::vector<std::pair<std::string, std::string>>, Alike> by_settings;
  for (const NamedReport& named : reports) {
    const PhaseResult* const phase = ShownPhase(named.report);
    if (phase == nullptr) continue;
    auto settings = named.report.settings;
    std::erase_if(settings, [](const auto& setting) { return setting.first == "seed"; });
    Alike& alike = by_settings.try_emplace(std::move(settings), Alike{named.name, {}}).first->second;
    alike.runs.push_back(phase);
  }
  std::vector<Alike> all;
  for (auto& [settings, alike] : by_settings) all.push_back(std::move(alike));
  return all;
}

std::string MediansTable(const std::vector<NamedReport>& reports) {
  std::string rows;
  for (const Alike& alike : RunsThatAreAlike(reports)) {
    const std::vector<const PhaseResult*>& runs = alike.runs;
    if (runs.size() < 2) continue;
    for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
      const auto of_all = [&runs](const auto& value) {
        std::vector<double> values;
        for (const PhaseResult* const run : runs) values.push_back(value(*run));
        return values;
      };
      const std::vector<double> rates =
          of_all([kind](const PhaseResult& run) { return run.per_second(run.operations[kind]); });
      const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
      if (*most == 0) continue;
      rows += "<tr>";
      Cell(&rows, "td", absl::StrCat(alike.name, ", ..."), true);
      Cell(&rows, "td", kOperationNames[kind], true);
      Cell(&rows, "td", Grouped(runs.size()));
      for (const double rate : {Median(rates), *least, *most}) {
        Cell(&rows, "td", Grouped(static_cast<std::uint64_t>(rate)));
      }
      for (const NamedQuantile& quantile : kQuantiles) {
        Cell(&rows, "td", TimeText(Median(of_all([&](const PhaseResult& run) {
          return static_cast<double>(run.latency[kind].Quantile(quantile.fraction));
        }))));
      }
      rows += "</tr>\n";
    }
  }
  if (rows.empty()) return rows;
  std::string html = "<h2>Medians of runs with the same settings</h2>\n<div class=\"wide\"><table>\n<tr>";
  for (const char* heading : {"", "operation"}) Cell(&html, "th", heading, true);
  for (const char* heading : {"runs", "per second", "least", "most"}) Cell(&html, "th", heading);
  for (const NamedQuantile& quantile : kQuantiles) Cell(&html, "th", quantile.name);
  return html + "</tr>\n" + rows + "</table></div>\n";
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
  std::string html = "<h2>Operations per second</h2>\n" + BarChart(throughput);
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
    absl::StrAppend(&html, "<h2>Latency of ", kOperationNames[kind], "</h2>\n", BarChart(bars));
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
    longest = std::max(longest, begin);
    series.push_back(std::move(line));
  }
  if (series.empty()) return {};
  return "<h2>Throughput over time</h2>\n" +
         LineChart(LinearAxis("seconds", longest), LinearAxis("operations per second", most), series);
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
                    LineChart(LogTimeAxis("latency", low, high), y, series));
  }
  return html;
}

std::string Errors(const std::vector<NamedReport>& reports) {
  std::string html;
  for (const NamedReport& named : reports) {
    for (const PhaseResult& phase : named.report.phases) {
      for (const auto& [key, entry] : phase.errors.entries()) {
        absl::StrAppend(
            &html, "<li>",
            Escaped(std::string(absl::StrCat(
                named.name, ": ", phase.name, ": ", kOperationNames[static_cast<std::size_t>(key.first)],
                ": ", Grouped(entry.count), " x ", key.second, "; first: ", entry.first_message))),
            "</li>\n");
      }
    }
  }
  return html.empty() ? html : "<h2>Errors</h2>\n<ul>\n" + html + "</ul>\n";
}

}  // namespace

std::string ToHtml(const std::vector<NamedReport>& reports, const std::string& curves) {
  const std::string charts =
      !curves.empty() ? curves
                      : Comparison(reports) + ThroughputOverTime(reports) + LatencyDistributions(reports);
  return kHead + MediansTable(reports) + SummaryTable(reports) + Errors(reports) + charts +
         SettingsTable(reports) + "</body>\n</html>\n";
}

}  // namespace remora::bench
