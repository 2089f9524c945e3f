// Texts of reports, for a result whose numbers are known.
#include "bench/kvbench/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/unit/bench/kvbench_fixture.h"

namespace remora::bench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// 1000 reads of 1, 2, ... 1000 us in 2 s, one update of 5 us, three errors, two intervals.
RunReport Known() {
  PhaseResult phase;
  phase.name = "run";
  phase.seconds = 2;
  phase.cpu_seconds = 0.5;
  phase.interval_seconds = 1.5;
  phase.series.resize(2);
  for (std::uint64_t us = 1; us <= 1000; ++us) phase.latency[kRead].Add(us * 1000);
  phase.latency[kUpdate].Add(5000);
  phase.operations[kRead] = 1000;
  phase.operations[kUpdate] = 1;
  phase.series[0] = {900, {}, phase.latency[kRead].ToSparse()};
  phase.series[1] = {101, {}, phase.latency[kUpdate].ToSparse()};
  phase.errors.Add(OperationKind::kRead, "not found", "user1 is \"missing\" \xff", 2);
  phase.errors.Add(OperationKind::kUpdate, "wrong value", "bytes <&>", 1);
  phase.client.reads = 2002;
  phase.server["wakeups"] = 3;
  return {{{"target", "local:///x <&> \"y\""}, {"recordcount", "1000"}},
          {phase},
          {{"date", "2026-01-02T03:04:05Z"}, {"host", "one"}, {"cpu", "A & B"}}};
}

TEST(Json, ComesBackAsItWent) {
  const RunReport known = Known();
  const std::string json = ToJson(known);
  const auto parsed = ParseReport(json);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->settings, known.settings);
  EXPECT_EQ(parsed->environment, known.environment);
  ASSERT_EQ(parsed->phases.size(), 1u);
  const PhaseResult& phase = parsed->phases[0];
  EXPECT_EQ(phase.operations, known.phases[0].operations);
  EXPECT_EQ(phase.seconds, 2);
  EXPECT_EQ(phase.cpu_seconds, 0.5);
  EXPECT_EQ(phase.latency[kRead].Quantile(0.99), known.phases[0].latency[kRead].Quantile(0.99));
  EXPECT_EQ(phase.latency[kRead].mean(), 500'500);
  EXPECT_EQ(phase.latency[kRead].min(), 1000u);
  EXPECT_EQ(phase.latency[kRead].max(), 1'000'000u);
  EXPECT_EQ(phase.latency[kUpdate].count(), 1u);
  ASSERT_EQ(phase.series.size(), 2u);
  EXPECT_EQ(phase.series[0].operations, 900u);
  EXPECT_EQ(phase.series[1].latency.max, 5000u);
  EXPECT_EQ(phase.client.reads, 2002u);
  EXPECT_EQ(phase.server.at("wakeups"), 3u);
  EXPECT_EQ(parsed->errors(), 3u);
  // Once more: text that could not be kept the first time (a byte that is no UTF-8) is replaced for good.
  EXPECT_EQ(ToJson(*parsed), json);
}

TEST(Json, HoldsTheNumbersByName) {
  EXPECT_THAT(ToJson(Known()),
              AllOf(HasSubstr("\"operations\": 1001,"), HasSubstr("\"operations_per_second\": 500.5,"),
                    HasSubstr("\"p50_ns\": "), HasSubstr("\"p9999_ns\": "), HasSubstr("\"errors\": 3\n}")));
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Json, MalformedReportsAreRejected) {
  const std::string json = ToJson(Known());
  for (const std::string& wrong : std::vector<std::string>{
           "",
           "{",
           "{}",
           "[]",
           "3",
           json.substr(0, json.size() / 2),
           Replaced(json, "\"format\": 1", "\"format\": 2"),
           Replaced(json, "\"seconds\": 2.0", "\"seconds\": -2.0"),
           Replaced(json, "\"seconds\": 2.0", "\"seconds\": \"2\""),
           Replaced(json, "\"interval_seconds\": 1.5", "\"interval_seconds\": 0"),
           Replaced(json, "\"read\": {", "\"raed\": {"),
           Replaced(json, "\"min_ns\": 1000,\n      \"max_ns\"", "\"min_ns\": 1,\n      \"max_ns\""),
       }) {
    const auto parsed = ParseReport(wrong);
    EXPECT_TRUE(absl::IsInvalidArgument(parsed.status())) << wrong.substr(0, 100);
  }
}

TEST(Csv, HasARowForEachOperationAndInterval) {
  const std::string csv = ToCsv(Known());
  EXPECT_THAT(csv, AllOf(HasSubstr("phase,operation,begin_seconds,end_seconds,operations,"),
                         HasSubstr("\nrun,read,0.000000,2.000000,1000,500,500500,1000,"),
                         HasSubstr("\nrun,update,0.000000,2.000000,1,0.5,5000,5000,5000,"),
                         HasSubstr("\nrun,all,0.000000,1.500000,900,600,"),
                         HasSubstr("\nrun,all,1.500000,2.000000,101,202,"), Not(HasSubstr("insert"))));
}

TEST(Ycsb, SaysItInItsWords) {
  const std::string text = ToYcsb(Known().phases[0]);
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("[OVERALL], RunTime(ms), 2000\n"),
            HasSubstr("[OVERALL], Throughput(ops/sec), 500.500000\n"),
            HasSubstr("[READ], Operations, 1000\n"), HasSubstr("[READ], AverageLatency(us), 500.500\n"),
            HasSubstr("[READ], MinLatency(us), 1.000\n"), HasSubstr("[READ], MaxLatency(us), 1000.000\n"),
            HasSubstr("[READ], 99thPercentileLatency(us), 99"),
            HasSubstr("[READ], 99.9PercentileLatency(us), "), HasSubstr("[READ], Return=OK, 1000\n"),
            HasSubstr("[READ], Return=NOT_FOUND, 2\n"), HasSubstr("[UPDATE], Return=WRONG_VALUE, 1\n")));
}

TEST(Html, HoldsTheNumbersAndEscapesTexts) {
  RunReport report = Known();
  report.phases[0].interval_seconds = 1;  // two of them
  const std::string page = ToHtml({{"one <run>", report}});
  EXPECT_THAT(page,
              AllOf(StartsWith("<!DOCTYPE html>"),
                    HasSubstr("<td class=\"name\">read</td><td>1,000</td><td>500</td>"),
                    HasSubstr("<th>mean, us</th>"), HasSubstr("one &lt;run&gt;"), Not(HasSubstr("<run>")),
                    HasSubstr("local:///x &lt;&amp;&gt; &quot;y&quot;"), HasSubstr("2 x not found")));
  EXPECT_THAT(page, AllOf(HasSubstr("Throughput over time"), HasSubstr("latency of read"),
                          HasSubstr("latency of update"), Not(HasSubstr("latency of insert"))));
  // Nothing to load, and nothing to run.
  EXPECT_THAT(page, AllOf(Not(HasSubstr("<script")), Not(HasSubstr("src=")), Not(HasSubstr("href="))));
  // One report is compared with nothing.
  EXPECT_THAT(page, Not(HasSubstr("<h2>Operations per second")));
}

// A line of one point would be a chart without a line.
TEST(Html, ARunOfOneIntervalHasNoChartOverTime) {
  RunReport report = Known();
  for (PhaseResult& phase : report.phases) phase.series.resize(std::min<std::size_t>(phase.series.size(), 1));
  EXPECT_THAT(ToHtml({{"one", report}}), Not(HasSubstr("Throughput over time")));
}

TEST(Html, AColumnHasOneUnit) {
  // Reads of 1 us to 1 ms, and an update of 5 us: the smallest mean is the update's.
  const std::string page = ToHtml({{"one", Known()}});
  EXPECT_THAT(page, AllOf(HasSubstr("<td>500</td><td>501</td>"), HasSubstr("<td>0</td><td>5.00</td>"),
                          HasSubstr("<th>max, us</th>"), Not(HasSubstr(" us</td>"))));
}

TEST(Html, RunsThatDifferInRecordsValuesOrPlacementAreMarked) {
  RunReport other = Known();
  other.settings[1].second = "2000";
  EXPECT_THAT(ToHtml({{"a", Known()}, {"b", other}}), HasSubstr("value size or placement: recordcount."));
  other.settings.emplace_back("fieldlength", "64");
  EXPECT_THAT(ToHtml({{"a", Known()}, {"b", other}}), HasSubstr("placement: recordcount, fieldlength."));
  EXPECT_THAT(ToHtml({{"a", Known()}, {"b", Known()}}), Not(HasSubstr("The runs differ")));
  EXPECT_THAT(ToHtml({{"a", other}}), Not(HasSubstr("The runs differ")));
}

TEST(Html, MachinesAndVersionsAreShownAndCompared) {
  RunReport other = Known();
  EXPECT_THAT(ToHtml({{"a", other}}), AllOf(HasSubstr("<h2>Machine and versions</h2>"),
                                            HasSubstr("A &amp; B"), HasSubstr("2026-01-02T03:04:05Z")));
  other.environment = {{"date", "2026-01-03T00:00:00Z"}, {"host", "two"}, {"cpu", "A & B"}, {"cpus", "2"}};
  EXPECT_THAT(ToHtml({{"a", Known()}, {"b", other}}),
              AllOf(HasSubstr("on different machines: host, cpus."), Not(HasSubstr("Medians"))));
  EXPECT_THAT(ToHtml({{"a", Known()}, {"b", Known()}}), Not(HasSubstr("different machines")));
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

TEST(Text, HoldsTheNumbersOfThePage) {
  const std::string text = ToText({{"one \x1b[31m", Known()}});
  const std::vector<std::string> lines = LinesOf(text);
  ASSERT_EQ(lines.size(), 8u) << text;
  EXPECT_EQ(lines[0], "Summary");
  EXPECT_THAT(lines[1],
              ::testing::MatchesRegex(" +phase +operation +operations +per second +mean, us .* errors"));
  EXPECT_THAT(lines[2], ::testing::MatchesRegex("one .*run +read +1,000 +500 +501 .* +2"));
  EXPECT_THAT(lines[3], ::testing::MatchesRegex("one .*run +update +1 +0 +5.00 .* +1"));
  // All columns end at one place.
  EXPECT_EQ(lines[1].size(), lines[2].size());
  EXPECT_EQ(lines[2].size(), lines[3].size());
  EXPECT_EQ(lines[5], "Errors");
  EXPECT_THAT(lines[6], HasSubstr("run: read: 2 x not found; first: user1 is \"missing\" "));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("  ratio"))));
}

TEST(Text, ComparesAndWarns) {
  RunReport slow = Known();
  slow.phases[0].seconds = 4;
  slow.settings[1].second = "2000";
  slow.environment[1].second = "two";
  const std::string text = ToText({{"fast", Known()}, {"slow", slow}});
  EXPECT_THAT(text, StartsWith("The runs differ in records, value size or placement: recordcount. "));
  EXPECT_THAT(text, AllOf(HasSubstr("\nThe runs were made on different machines: host. "),
                          ::testing::ContainsRegex("fast +run +read +1,000 +500 +1\\.00 "),
                          ::testing::ContainsRegex("slow +run +read +1,000 +250 +0\\.50 "),
                          ::testing::ContainsRegex("\nrecordcount +1000 +2000\n"),
                          ::testing::ContainsRegex("\nhost +one +two\n")));
  RunReport pinned = Known();
  pinned.environment.emplace_back("client_cpus", "0");
  RunReport elsewhere = Known();
  elsewhere.environment.emplace_back("client_cpus", "1");
  EXPECT_THAT(ToText({{"pinned", pinned}, {"elsewhere", elsewhere}}),
              StartsWith("The runs differ in records, value size or placement: client_cpus. "));
  EXPECT_THAT(ToText({{"a", Known()}, {"b", Known()}}),
              StartsWith("Medians of runs with the same settings\n"));
  EXPECT_EQ(ToText({{"none", RunReport()}}), ToText({{"other", RunReport()}}));
}

TEST(Json, AReportOfAnEarlierVersionHasNoEnvironment) {
  RunReport known = Known();
  known.environment.clear();
  const auto parsed = ParseReport(Replaced(ToJson(known), "\"environment\": {}", "\"later\": {}"));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(parsed->environment.empty());
  EXPECT_THAT(ToHtml({{"one", *parsed}}), Not(HasSubstr("<h2>Machine")));
}

TEST(Html, TheRatioIsToTheFirstReport) {
  RunReport slow = Known();
  slow.phases[0].seconds = 4;
  const std::string page = ToHtml({{"fast", Known()}, {"slow", slow}});
  EXPECT_THAT(page, AllOf(HasSubstr("<th>ratio</th>"), HasSubstr("<td>500</td><td>1.00</td>"),
                          HasSubstr("<td>250</td><td>0.50</td>")));
  EXPECT_THAT(ToHtml({{"one", Known()}}), Not(HasSubstr(">ratio<")));
}

TEST(Html, ComparesSeveral) {
  RunReport slow = Known();
  slow.phases[0].seconds = 4;
  const std::string page = ToHtml({{"fast", Known()}, {"slow", slow}});
  EXPECT_THAT(
      page, AllOf(HasSubstr("<h2>Operations per second"), HasSubstr(">500</text>"), HasSubstr(">250</text>"),
                  HasSubstr(">fast, p99</text>"), HasSubstr(">slow, p99</text>")));
}

// Of a second, of two, of four.
std::vector<NamedReport> ThreeRuns() {
  std::vector<NamedReport> runs;
  for (const double seconds : {4.0, 1.0, 2.0}) {
    RunReport run = Known();
    run.phases[0].seconds = seconds;
    run.settings.emplace_back("seed", std::to_string(seconds));
    runs.push_back({"of " + std::to_string(runs.size()), run});
  }
  return runs;
}

TEST(Html, HasTheMediansOfRunsThatAreAlike) {
  std::vector<NamedReport> reports = ThreeRuns();
  RunReport other = Known();
  other.settings.emplace_back("depth", "7");
  reports.push_back({"other", other});
  const std::string page = ToHtml(reports);
  EXPECT_THAT(page,
              HasSubstr("<td class=\"name\">of 0, ...</td><td class=\"name\">read</td><td>3</td><td>500</td>"
                        "<td>250</td><td>1,000</td>"));
  EXPECT_THAT(page, Not(HasSubstr("other, ...")));
  EXPECT_THAT(ToHtml({{"one", Known()}}), Not(HasSubstr("Medians")));
}

TEST(Html, CurvesGoThroughTheMedianOfEachPoint) {
  std::vector<NamedReport> reports = ThreeRuns();
  for (NamedReport& named : reports) named.report.settings.emplace_back("points", "5");
  const absl::StatusOr<std::string> all = Curves(reports, "points");
  ASSERT_TRUE(all.ok()) << all.status();
  const absl::StatusOr<std::string> median = Curves({reports[2]}, "points");
  ASSERT_TRUE(median.ok()) << median.status();
  EXPECT_EQ(*all, *median);
  EXPECT_NE(*all, *Curves({reports[0]}, "points"));
}

TEST(Html, ThePageOmitsMissingFigures) {
  RunReport empty = Known();
  empty.phases[0] = PhaseResult();
  empty.phases[0].name = "run";
  const std::string page = ToHtml({{"empty", empty}, {"none", RunReport()}});
  EXPECT_THAT(page, AllOf(HasSubstr("Settings"), Not(HasSubstr("over time")), Not(HasSubstr("latency of")),
                          Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
}

TEST(PhaseResult, MergedIsTheSum) {
  PhaseResult sum = Known().phases[0];
  PhaseResult other = Known().phases[0];
  other.seconds = 3;
  other.series.resize(3);
  other.series[2].operations = 7;
  sum.Merge(other);
  EXPECT_EQ(sum.seconds, 3);
  EXPECT_EQ(sum.cpu_seconds, 1);
  EXPECT_EQ(sum.all_operations(), 2002u);
  EXPECT_EQ(sum.latency[kRead].count(), 2000u);
  ASSERT_EQ(sum.series.size(), 3u);
  EXPECT_EQ(sum.series[0].operations, 1800u);
  EXPECT_EQ(sum.series[1].operations, 202u);
  EXPECT_EQ(sum.series[2].operations, 7u);
  EXPECT_EQ(sum.errors.total(), 6u);
  EXPECT_EQ(sum.client.reads, 4004u);
  EXPECT_EQ(sum.server.at("wakeups"), 6u);
}

}  // namespace
}  // namespace remora::bench
