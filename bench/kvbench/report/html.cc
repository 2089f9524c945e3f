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

// Classes of cells: numbers have none.
constexpr const char* kName = " class=\"name\"";
constexpr const char* kLong = " class=\"long\"";

void Cell(std::string* html, const char* tag, std::string_view text, const char* kind = "") {
  absl::StrAppend(html, "<", tag, kind, ">", Escaped(text), "</", tag, ">");
}

/// A chart that scrolls where the window is narrower than its texts need.
std::string Wide(const std::string& chart) { return "<div class=\"wide\">" + chart + "</div>\n"; }

/// Unit of all times in one column of a table: that of the smallest one, so no time is rounded to nothing.
class TimeUnit {
 public:
  void Add(double ns) {
    if (ns > 0) least_ns_ = std::min(least_ns_, ns);
  }
  const char* name() const { return kUnits[Number()].name; }
  std::string Text(double ns) const {
    const double time = ns / kUnits[Number()].ns;
    if (time >= 100) return Grouped(static_cast<std::uint64_t>(std::llround(time)));
    return absl::StrFormat("%.*f", time >= 10 ? 1 : 2, time);
  }

 private:
  struct Unit {
    const char* name;
    double ns;
  };
  static constexpr Unit kUnits[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  std::size_t Number() const {
    std::size_t number = 0;
    while (number + 1 < std::size(kUnits) && least_ns_ < 1e18 && least_ns_ >= kUnits[number + 1].ns) ++number;
    return number;
  }

  double least_ns_ = 1e18;
};

// The phase that is shown in charts: the run, or what there is.
const PhaseResult* ShownPhase(const RunReport& report) {
  return report.phases.empty() ? nullptr : &report.phases.back();
}

/// A row for each name that a report has in `texts`, and a column for each report.
std::string TextsTable(const char* heading, const std::vector<NamedReport>& reports,
                       Texts RunReport::*texts) {
  std::vector<std::string> names;
  for (const NamedReport& named : reports) {
    for (const auto& [name, value] : named.report.*texts) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  if (names.empty()) return {};
  std::string html = absl::StrCat("<h2>", heading, "</h2>\n<div class=\"wide\"><table>\n<tr><th></th>");
  for (const NamedReport& named : reports) Cell(&html, "th", named.name);
  html += "</tr>\n";
  for (const std::string& name : names) {
    html += "<tr>";
    Cell(&html, "td", name);
    for (const NamedReport& named : reports) {
      const auto found = std::find_if((named.report.*texts).begin(), (named.report.*texts).end(),
                                      [&name](const auto& text) { return text.first == name; });
      Cell(&html, "td", found == (named.report.*texts).end() ? "" : found->second, kLong);
    }
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

/// One row of the summary: one kind of operation in one phase.
struct SummaryRow {
  const std::string* report;
  const PhaseResult* phase;
  std::size_t kind;
  std::uint64_t errors;
  std::vector<double> times_ns;  // the mean, the quantiles, the maximum

  double rate() const { return phase->per_second(phase->operations[kind]); }
};

std::vector<SummaryRow> SummaryRows(const std::vector<NamedReport>& reports) {
  std::vector<SummaryRow> rows;
  for (const NamedReport& named : reports) {
    for (const PhaseResult& phase : named.report.phases) {
      for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
        std::uint64_t errors = 0;
        for (const auto& [key, entry] : phase.errors.entries()) {
          if (key.first == static_cast<OperationKind>(kind)) errors += entry.count;
        }
        if (phase.operations[kind] + errors == 0) continue;
        const Histogram& latency = phase.latency[kind];
        SummaryRow row{&named.name, &phase, kind, errors, {latency.mean()}};
        for (const NamedQuantile& quantile : kQuantiles) {
          row.times_ns.push_back(static_cast<double>(latency.Quantile(quantile.fraction)));
        }
        row.times_ns.push_back(static_cast<double>(latency.max()));
        rows.push_back(std::move(row));
      }
    }
  }
  return rows;
}

/// Returns the throughput as a multiple of the first report's in the same phase and kind of operation.
std::string RatioText(const std::vector<SummaryRow>& rows, const SummaryRow& row) {
  const auto first = std::find_if(rows.begin(), rows.end(), [&row](const SummaryRow& other) {
    return other.phase->name == row.phase->name && other.kind == row.kind;
  });
  if (first->report != rows.front().report || first->rate() <= 0) return "";
  return absl::StrFormat("%.2f", row.rate() / first->rate());
}

std::string SummaryTable(const std::vector<NamedReport>& reports) {
  const std::vector<SummaryRow> rows = SummaryRows(reports);
  std::vector<const char*> times = {"mean"};
  for (const NamedQuantile& quantile : kQuantiles) times.push_back(quantile.name);
  times.push_back("max");
  std::vector<TimeUnit> units(times.size());
  for (const SummaryRow& row : rows) {
    for (std::size_t i = 0; i < times.size(); ++i) units[i].Add(row.times_ns[i]);
  }
  const bool compares = reports.size() > 1;
  std::string html = "<h2>Summary</h2>\n<div class=\"wide\"><table>\n<tr>";
  for (const char* name : {"", "phase", "operation"}) Cell(&html, "th", name, kName);
  for (const char* name : {"operations", "per second"}) Cell(&html, "th", name);
  if (compares) Cell(&html, "th", "ratio");
  for (std::size_t i = 0; i < times.size(); ++i) {
    Cell(&html, "th", absl::StrCat(times[i], ", ", units[i].name()));
  }
  Cell(&html, "th", "errors");
  html += "</tr>\n";
  for (const SummaryRow& row : rows) {
    html += "<tr>";
    Cell(&html, "td", *row.report);
    Cell(&html, "td", absl::StrCat(row.phase->name, row.phase->cut_short ? ", cut short" : ""), kName);
    Cell(&html, "td", kOperationNames[row.kind], kName);
    Cell(&html, "td", Grouped(row.phase->operations[row.kind]));
    Cell(&html, "td", Grouped(static_cast<std::uint64_t>(row.rate())));
    if (compares) Cell(&html, "td", RatioText(rows, row));
    for (std::size_t i = 0; i < times.size(); ++i) Cell(&html, "td", units[i].Text(row.times_ns[i]));
    Cell(&html, "td", Grouped(row.errors));
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

/// Returns whether the reports differ in this text. A text that some reports lack differs, too.
bool Differs(const std::vector<NamedReport>& reports, std::string_view name, Texts RunReport::*texts) {
  std::vector<std::string> values;
  for (const NamedReport& named : reports) {
    for (const auto& [text, value] : named.report.*texts) {
      if (text == name) values.push_back(value);
    }
  }
  return !values.empty() &&
         (values.size() != reports.size() ||
          std::count(values.begin(), values.end(), values[0]) != static_cast<std::ptrdiff_t>(values.size()));
}

/// Names the settings of records, values and placement in which the reports differ, and the properties of
/// the machines: their numbers then say little about each other. Empty: they do not differ.
std::string Warning(const std::vector<NamedReport>& reports) {
  std::string settings;
  for (const char* name :
       {"recordcount", "fieldcount", "fieldlength", "target", "memory_bytes", "processes"}) {
    if (Differs(reports, name, &RunReport::settings)) {
      absl::StrAppend(&settings, settings.empty() ? "" : ", ", name);
    }
  }
  std::string machines;
  for (const char* name : {"host", "cpu", "cpus", "memory", "kernel"}) {
    if (Differs(reports, name, &RunReport::environment)) {
      absl::StrAppend(&machines, machines.empty() ? "" : ", ", name);
    }
  }
  std::string html;
  if (!settings.empty()) {
    html += "<p class=\"warning\">The runs differ in records, value size or placement: " + settings +
            ". Compare their numbers with care; the table of settings has the values.</p>\n";
  }
  if (!machines.empty()) {
    html += "<p class=\"warning\">The runs were made on different machines: " + machines +
            ". Compare their numbers with care; the table of the machines has the values.</p>\n";
  }
  return html;
}

/// Returns the middle one of an odd number of values, else the lower of the two. REQUIRES: one at least.
double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Reports with the same settings, apart from the seed, from the same machine and versions.
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
    const Texts& environment = named.report.environment;
    settings.insert(settings.end(), environment.begin(), environment.end());
    std::erase_if(settings, [](const auto& setting) {
      return setting.first == "seed" || setting.first == "date" || setting.first == "load_average";
    });
    Alike& alike = by_settings.try_emplace(std::move(settings), Alike{named.name, {}}).first->second;
    alike.runs.push_back(phase);
  }
  std::vector<Alike> all;
  for (auto& [settings, alike] : by_settings) all.push_back(std::move(alike));
  return all;
}

/// One row of the table of medians: one kind of operation in runs that are alike.
struct MedianRow {
  std::string name;
  std::size_t kind;
  std::size_t runs;
  std::vector<double> rates;     // the median, the least, the most
  std::vector<double> times_ns;  // the median of each quantile
};

std::vector<MedianRow> MedianRows(const std::vector<NamedReport>& reports) {
  std::vector<MedianRow> rows;
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
      MedianRow row{absl::StrCat(alike.name, ", ..."), kind, runs.size(), {Median(rates), *least, *most}, {}};
      for (const NamedQuantile& quantile : kQuantiles) {
        row.times_ns.push_back(Median(of_all([&](const PhaseResult& run) {
          return static_cast<double>(run.latency[kind].Quantile(quantile.fraction));
        })));
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::string MediansTable(const std::vector<NamedReport>& reports) {
  const std::vector<MedianRow> rows = MedianRows(reports);
  if (rows.empty()) return {};
  std::vector<TimeUnit> units(std::size(kQuantiles));
  for (const MedianRow& row : rows) {
    for (std::size_t i = 0; i < units.size(); ++i) units[i].Add(row.times_ns[i]);
  }
  std::string html = "<h2>Medians of runs with the same settings</h2>\n<div class=\"wide\"><table>\n<tr>";
  for (const char* heading : {"", "operation"}) Cell(&html, "th", heading, kName);
  for (const char* heading : {"runs", "per second", "least", "most"}) Cell(&html, "th", heading);
  for (std::size_t i = 0; i < units.size(); ++i) {
    Cell(&html, "th", absl::StrCat(kQuantiles[i].name, ", ", units[i].name()));
  }
  html += "</tr>\n";
  for (const MedianRow& row : rows) {
    html += "<tr>";
    Cell(&html, "td", row.name, kName);
    Cell(&html, "td", kOperationNames[row.kind], kName);
    Cell(&html, "td", Grouped(row.runs));
    for (const double rate : row.rates) Cell(&html, "td", Grouped(static_cast<std::uint64_t>(rate)));
    for (std::size_t i = 0; i < units.size(); ++i) Cell(&html, "td", units[i].Text(row.times_ns[i]));
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
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
      !curves.empty() ? Wide(curves)
                      : Comparison(reports) + ThroughputOverTime(reports) + LatencyDistributions(reports);
  return kHead + Warning(reports) + MediansTable(reports) + SummaryTable(reports) + Errors(reports) + charts +
         TextsTable("Machine and versions", reports, &RunReport::environment) +
         TextsTable("Settings", reports, &RunReport::settings) + "</body>\n</html>\n";
}

}  // namespace remora::bench
