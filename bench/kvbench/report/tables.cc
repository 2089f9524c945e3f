#include "bench/kvbench/report/tables.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/kvbench/report/units.h"

namespace remora::bench {
namespace {

/// One row of the summary: one kind of operation in one phase.
struct SummaryRow {
  const std::string* report;
  const PhaseResult* phase;
  std::size_t kind;
  std::uint64_t errors;
  std::vector<double> times_ns;  // the mean, the quantiles, the maximum
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

/// Rates of one column: operations, or bytes of values, per second.
using RateOf = double (*)(const SummaryRow& row);

double OperationRate(const SummaryRow& row) { return row.phase->per_second(row.phase->operations[row.kind]); }
double ReadRate(const SummaryRow& row) { return row.phase->per_second(row.phase->bytes[row.kind].read); }
double WrittenRate(const SummaryRow& row) {
  return row.phase->per_second(row.phase->bytes[row.kind].written);
}

/// Returns the rate as a multiple of the first report's in the same phase and kind of operation.
std::string RatioText(const std::vector<SummaryRow>& rows, const SummaryRow& row, RateOf rate) {
  const auto first = std::find_if(rows.begin(), rows.end(), [&row](const SummaryRow& other) {
    return other.phase->name == row.phase->name && other.kind == row.kind;
  });
  if (first->report != rows.front().report || rate(*first) <= 0) return "";
  return absl::StrFormat("%.2f", rate(row) / rate(*first));
}

/// A column of bytes per second. Cells without any are empty.
struct BandwidthColumn {
  const char* name;
  RateOf rate;
  ColumnUnit unit{kByteRateUnits};
};

/// Returns the columns that have a number in some row.
std::vector<BandwidthColumn> BandwidthColumns(const std::vector<SummaryRow>& rows) {
  std::vector<BandwidthColumn> columns;
  for (BandwidthColumn column : {BandwidthColumn{"read", ReadRate}, {"written", WrittenRate}}) {
    bool is_empty = true;
    for (const SummaryRow& row : rows) {
      column.unit.Add(column.rate(row));
      is_empty &= column.rate(row) <= 0;
    }
    if (!is_empty) columns.push_back(column);
  }
  return columns;
}

std::vector<ColumnUnit> TimeColumns(const std::vector<SummaryRow>& rows, std::size_t columns) {
  std::vector<ColumnUnit> units(columns, ColumnUnit(kTimeUnits));
  for (const SummaryRow& row : rows) {
    for (std::size_t i = 0; i < columns; ++i) units[i].Add(row.times_ns[i]);
  }
  return units;
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
  std::vector<double> rates;  // the median, the least, the most
  double read = 0;            // medians of bytes per second
  double written = 0;
  std::vector<double> times_ns{};  // the median of each quantile
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
      MedianRow row{absl::StrCat(alike.name, ", ..."), kind, runs.size(), {Median(rates), *least, *most}};
      row.read =
          Median(of_all([kind](const PhaseResult& run) { return run.per_second(run.bytes[kind].read); }));
      row.written =
          Median(of_all([kind](const PhaseResult& run) { return run.per_second(run.bytes[kind].written); }));
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

}  // namespace

const PhaseResult* ShownPhase(const RunReport& report) {
  return report.phases.empty() ? nullptr : &report.phases.back();
}

Table SummaryTable(const std::vector<NamedReport>& reports) {
  const std::vector<SummaryRow> rows = SummaryRows(reports);
  std::vector<const char*> times = {"mean"};
  for (const NamedQuantile& quantile : kQuantiles) times.push_back(quantile.name);
  times.push_back("max");
  const std::vector<ColumnUnit> units = TimeColumns(rows, times.size());
  const std::vector<BandwidthColumn> bandwidths = BandwidthColumns(rows);
  const bool compares = reports.size() > 1;
  Table table{.title = "Summary"};
  for (const char* name : {"", "phase", "operation"}) table.columns.push_back({name, Table::Kind::kName});
  for (const char* name : {"operations", "per second"}) table.columns.push_back({name});
  if (compares) table.columns.push_back({"ratio"});
  for (const BandwidthColumn& column : bandwidths) {
    table.columns.push_back({absl::StrCat(column.name, ", ", column.unit.name())});
    if (compares) table.columns.push_back({"ratio"});
  }
  for (std::size_t i = 0; i < times.size(); ++i) {
    table.columns.push_back({absl::StrCat(times[i], ", ", units[i].name())});
  }
  table.columns.push_back({"errors"});
  for (const SummaryRow& row : rows) {
    std::vector<std::string> cells = {
        *row.report, std::string(absl::StrCat(row.phase->name, row.phase->cut_short ? ", cut short" : "")),
        kOperationNames[row.kind], Grouped(row.phase->operations[row.kind]),
        Grouped(static_cast<std::uint64_t>(OperationRate(row)))};
    if (compares) cells.push_back(RatioText(rows, row, OperationRate));
    for (const BandwidthColumn& column : bandwidths) {
      const double rate = column.rate(row);
      cells.push_back(rate > 0 ? column.unit.Text(rate) : "");
      if (compares) cells.push_back(rate > 0 ? RatioText(rows, row, column.rate) : "");
    }
    for (std::size_t i = 0; i < times.size(); ++i) cells.push_back(units[i].Text(row.times_ns[i]));
    cells.push_back(Grouped(row.errors));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

Table MediansTable(const std::vector<NamedReport>& reports) {
  const std::vector<MedianRow> rows = MedianRows(reports);
  if (rows.empty()) return {};
  std::vector<ColumnUnit> units(std::size(kQuantiles), ColumnUnit(kTimeUnits));
  ColumnUnit read(kByteRateUnits);
  ColumnUnit written(kByteRateUnits);
  for (const MedianRow& row : rows) {
    read.Add(row.read);
    written.Add(row.written);
    for (std::size_t i = 0; i < units.size(); ++i) units[i].Add(row.times_ns[i]);
  }
  Table table{.title = "Medians of runs with the same settings"};
  for (const char* heading : {"", "operation"}) table.columns.push_back({heading, Table::Kind::kName});
  for (const char* heading : {"runs", "per second", "least", "most"}) table.columns.push_back({heading});
  table.columns.push_back({absl::StrCat("read, ", read.name())});
  table.columns.push_back({absl::StrCat("written, ", written.name())});
  for (std::size_t i = 0; i < units.size(); ++i) {
    table.columns.push_back({absl::StrCat(kQuantiles[i].name, ", ", units[i].name())});
  }
  for (const MedianRow& row : rows) {
    std::vector<std::string> cells = {row.name, kOperationNames[row.kind], Grouped(row.runs)};
    for (const double rate : row.rates) cells.push_back(Grouped(static_cast<std::uint64_t>(rate)));
    cells.push_back(row.read > 0 ? read.Text(row.read) : "");
    cells.push_back(row.written > 0 ? written.Text(row.written) : "");
    for (std::size_t i = 0; i < units.size(); ++i) cells.push_back(units[i].Text(row.times_ns[i]));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

Table TextsTable(const char* heading, const std::vector<NamedReport>& reports, Texts RunReport::*texts) {
  std::vector<std::string> names;
  for (const NamedReport& named : reports) {
    for (const auto& [name, value] : named.report.*texts) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  if (names.empty()) return {};
  Table table{.title = heading, .columns = {{"", Table::Kind::kName}}};
  for (const NamedReport& named : reports) table.columns.push_back({named.name, Table::Kind::kLong});
  for (const std::string& name : names) {
    std::vector<std::string> cells = {name};
    for (const NamedReport& named : reports) {
      const auto found = std::find_if((named.report.*texts).begin(), (named.report.*texts).end(),
                                      [&name](const auto& text) { return text.first == name; });
      cells.push_back(found == (named.report.*texts).end() ? "" : found->second);
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::vector<std::string> Warnings(const std::vector<NamedReport>& reports) {
  std::string settings;
  for (const char* name : {"recordcount", "fieldcount", "minfieldlength", "fieldlength",
                           "fieldlengthdistribution", "target", "memory_bytes", "processes"}) {
    if (Differs(reports, name, &RunReport::settings)) {
      absl::StrAppend(&settings, settings.empty() ? "" : ", ", name);
    }
  }
  for (const char* name : {"client_cpus", "server_cpus"}) {
    if (Differs(reports, name, &RunReport::environment)) {
      absl::StrAppend(&settings, settings.empty() ? "" : ", ", name);
    }
  }
  std::string machines;
  for (const char* name : {"host", "cpu", "cpus", "memory", "kernel"}) {
    if (Differs(reports, name, &RunReport::environment)) {
      absl::StrAppend(&machines, machines.empty() ? "" : ", ", name);
    }
  }
  std::vector<std::string> warnings;
  if (!settings.empty()) {
    warnings.push_back(
        "The runs differ in records, value size or placement: " + settings +
        ". Compare their numbers with care; the tables of settings and machines have the values.");
  }
  if (!machines.empty()) {
    warnings.push_back("The runs were made on different machines: " + machines +
                       ". Compare their numbers with care; the table of the machines has the values.");
  }
  return warnings;
}

std::vector<std::string> ErrorLines(const std::vector<NamedReport>& reports) {
  std::vector<std::string> lines;
  for (const NamedReport& named : reports) {
    for (const PhaseResult& phase : named.report.phases) {
      for (const auto& [key, entry] : phase.errors.entries()) {
        lines.emplace_back(absl::StrCat(
            named.name, ": ", phase.name, ": ", kOperationNames[static_cast<std::size_t>(key.first)], ": ",
            Grouped(entry.count), " x ", key.second, "; first: ", entry.first_message));
      }
    }
  }
  return lines;
}

}  // namespace remora::bench
