// Bytes of values that are read and written: their count, and what reports say of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/kvbench/load/records.h"
#include "bench/kvbench/load/result.h"
#include "bench/kvbench/report/report.h"
#include "tests/unit/bench/kvbench_fixture.h"

namespace remora::bench {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// In `seconds`: 1000 reads of 64,000 bytes each, 10 read-modify-writes of 2,000,000; two intervals of equal
/// length.
RunReport Moving(double seconds) {
  PhaseResult phase;
  phase.name = "run";
  phase.seconds = seconds;
  phase.operations[kRead] = 1000;
  phase.bytes[kRead] = {.read = 64'000'000};
  phase.operations[kReadModifyWrite] = 10;
  phase.bytes[kReadModifyWrite] = {.read = 20'000'000, .written = 20'000'000};
  phase.latency[kRead].Add(1000, 1000);
  phase.latency[kReadModifyWrite].Add(2000, 10);
  phase.interval_seconds = seconds / 2;
  phase.series = {{600, {48'000'000, 0}, phase.latency[kRead].ToSparse()},
                  {410, {36'000'000, 20'000'000}, phase.latency[kRead].ToSparse()}};
  return {{{"target", "local:///x"}}, {phase}, {}};
}

TEST(Bandwidth, IsTheBytesOfValuesByTheDuration) {
  const PhaseResult phase = Moving(2).phases[0];
  EXPECT_EQ(phase.per_second(phase.bytes[kRead].read), 32e6);
  EXPECT_EQ(phase.per_second(phase.bytes[kReadModifyWrite].written), 10e6);
  EXPECT_EQ(phase.all_bytes(), (ValueBytes{84'000'000, 20'000'000}));
  EXPECT_EQ(PhaseResult().per_second(5), 0);
}

TEST(Bandwidth, OfProcessesAddsUp) {
  PhaseResult sum = Moving(2).phases[0];
  sum.Merge(Moving(2).phases[0]);
  EXPECT_EQ(sum.all_bytes(), (ValueBytes{168'000'000, 40'000'000}));
  EXPECT_EQ(sum.bytes[kRead], (ValueBytes{128'000'000, 0}));
  ASSERT_EQ(sum.series.size(), 2u);
  EXPECT_EQ(sum.series[1].bytes, (ValueBytes{72'000'000, 40'000'000}));
  EXPECT_EQ(sum.per_second(sum.all_bytes().read), 84e6);
}

TEST(Bandwidth, StandsInJsonAndComesBack) {
  const std::string json = ToJson(Moving(2));
  EXPECT_THAT(json, AllOf(HasSubstr("\"value_bytes_read\": 64000000,"),
                          HasSubstr("\"value_bytes_read_per_second\": 32000000.0,"),
                          HasSubstr("\"value_bytes_read\": 84000000,"),
                          HasSubstr("\"value_bytes_read_per_second\": 42000000.0,"),
                          HasSubstr("\"value_bytes_written_per_second\": 10000000.0")));
  const auto parsed = ParseReport(json);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->phases[0].bytes, Moving(2).phases[0].bytes);
  EXPECT_EQ(parsed->phases[0].series[0].bytes, (ValueBytes{48'000'000, 0}));
  EXPECT_EQ(parsed->phases[0].series[1].bytes, (ValueBytes{36'000'000, 20'000'000}));
  EXPECT_EQ(ToJson(*parsed), json);
}

TEST(Bandwidth, ACountThatIsNoneIsRejected) {
  std::string json = ToJson(Moving(2));
  const std::string good = "\"value_bytes_read\": 64000000";
  const std::size_t at = json.find(good);
  ASSERT_NE(at, std::string::npos);
  for (const char* wrong :
       {"\"value_bytes_read\": -1", "\"value_bytes_read\": \"64\"", "\"value_bytes_read\": 1.5"}) {
    EXPECT_TRUE(
        absl::IsInvalidArgument(ParseReport(std::string(json).replace(at, good.size(), wrong)).status()));
  }
}

/// Returns the report as an earlier version wrote it.
RunReport Earlier() {
  std::string json = ToJson(Moving(2));
  for (std::size_t at = 0; (at = json.find("value_bytes_", at)) != std::string::npos;) {
    json.replace(at, 12, "other_bytes_");
  }
  const auto parsed = ParseReport(json);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return *parsed;
}

TEST(Bandwidth, AReportOfAnEarlierVersionHasNone) {
  EXPECT_EQ(Earlier().phases[0].all_bytes(), ValueBytes());
  EXPECT_THAT(ToHtml({{"one", Earlier()}}), Not(HasSubstr("B/s")));
  // Beside one that has it, the cells of the earlier one are empty, and there is no ratio to it.
  EXPECT_THAT(ToHtml({{"old", Earlier()}, {"new", Moving(2)}}),
              AllOf(HasSubstr("<td>500</td><td>1.00</td><td></td><td></td><td></td><td></td>"),
                    HasSubstr("<td>500</td><td>1.00</td><td>32.0</td><td></td><td></td><td></td>")));
  EXPECT_THAT(ToHtml({{"new", Moving(2)}, {"old", Earlier()}}),
              HasSubstr("<td>500</td><td>1.00</td><td></td><td></td><td></td><td></td>"));
}

TEST(Bandwidth, StandsInCsvForOperationsAndIntervals) {
  const std::string csv = ToCsv(Moving(2));
  EXPECT_THAT(
      csv, AllOf(HasSubstr(",max_ns,value_bytes_read,value_bytes_written,value_bytes_read_per_second,"
                           "value_bytes_written_per_second\n"),
                 ContainsRegex("\nrun,read,[^\n]*,64000000,0,3.2e\\+07,0\n"),
                 ContainsRegex("\nrun,rmw,[^\n]*,20000000,20000000,1e\\+07,1e\\+07\n"),
                 ContainsRegex("\nrun,all,0.000000,1.000000,[^\n]*,48000000,0,4.8e\\+07,0\n"),
                 ContainsRegex("\nrun,all,1.000000,2.000000,[^\n]*,36000000,20000000,3.6e\\+07,2e\\+07\n")));
}

TEST(Bandwidth, StandsOnTheTerminalInMegabytes) {
  const BenchOptions options;
  EXPECT_THAT(TableHeading(), ContainsRegex("per second +read MB/s +written MB/s +mean"));
  EXPECT_THAT(TableRows(options, Moving(2).phases[0]),
              AllOf(ContainsRegex("run +read +1,000 +500 +32.0 +- +1000 ns"),
                    ContainsRegex("run +rmw +10 +5 +10.0 +10.0 +2000 ns"),
                    ContainsRegex("run +all +1,010 +505 +42.0 +10.0 in 2.000 s")));
}

TEST(Bandwidth, AColumnOfThePageHasOneUnit) {
  // Of 32 and 10 MB/s, and of 1000 times as much.
  EXPECT_THAT(ToHtml({{"one", Moving(2)}}),
              AllOf(HasSubstr("<th>read, MB/s</th><th>written, MB/s</th><th>mean, us</th>"),
                    HasSubstr("<td>500</td><td>32.0</td><td></td><td>1.00</td>"),
                    HasSubstr("<td>5</td><td>10.0</td><td>10.0</td><td>2.00</td>")));
  EXPECT_THAT(ToHtml({{"one", Moving(0.002)}}), AllOf(HasSubstr("<th>read, GB/s</th><th>written, GB/s</th>"),
                                                      HasSubstr("<td>500,000</td><td>32.0</td><td></td>")));
  // One slow run keeps the whole column in MB/s.
  EXPECT_THAT(ToHtml({{"fast", Moving(0.002)}, {"slow", Moving(2)}}),
              AllOf(HasSubstr("<th>read, MB/s</th><th>ratio</th><th>written, MB/s</th><th>ratio</th>"),
                    HasSubstr("<td>32,000</td><td>1.00</td>"), HasSubstr("<td>32.0</td><td>0.00</td>")));
}

TEST(Bandwidth, IsComparedWithTheFirstReport) {
  RunReport larger = Moving(2);
  larger.phases[0].bytes[kRead].read *= 3;
  const std::string page = ToHtml({{"one", Moving(2)}, {"three", larger}});
  EXPECT_THAT(page, AllOf(HasSubstr("<td>500</td><td>1.00</td><td>96.0</td><td>3.00</td><td></td><td></td>"),
                          HasSubstr("<h2>Values read, MB/s</h2>"), HasSubstr(">106</text>"),
                          HasSubstr("<h2>Values written, MB/s</h2>"), HasSubstr(">10.0</text>")));
  // (192 + 20) MB in 2 s. Medians of two: the lower one.
  EXPECT_THAT(page, ContainsRegex("<td class=\"name\">read</td><td>2</td><td>500</td><td>500</td><td>500</td>"
                                  "<td>32.0</td><td></td>"));
}

TEST(Bandwidth, HasCurvesOverASetting) {
  std::vector<NamedReport> reports = {{"one", Moving(2)}, {"two", Moving(0.002)}};
  for (NamedReport& named : reports) {
    named.report.settings.emplace_back("fieldlength", std::to_string(64 * named.name.size()));
  }
  const auto curves = Curves(reports, "fieldlength");
  ASSERT_TRUE(curves.ok()) << curves.status();
  EXPECT_THAT(*curves, AllOf(HasSubstr("<h2>Values read, "), HasSubstr("<h2>Values written, ")));
  const auto earlier = Curves({{"old", Earlier()}}, "target");
  EXPECT_FALSE(earlier.ok());  // no number
  reports = {{"old", Earlier()}};
  reports[0].report.settings.emplace_back("fieldlength", "64");
  EXPECT_THAT(*Curves(reports, "fieldlength"), Not(HasSubstr("<h2>Values")));
}

// --- What a run counts --------------------------------------------------------------------------------

class BandwidthTest : public KvbenchTest {
 protected:
  static constexpr std::uint64_t kRecords = 100;

  /// Loads values of 1K to 64K, then runs one operation on each record. Returns the phases.
  std::vector<PhaseResult> LoadAndRun(std::vector<const char*> flags) {
    json_flag_ = JsonFlag();
    flags.insert(flags.begin(),
                 {"all", "--target=embedded", "--value_size=1K..64K", "--records=100", "--operations=100",
                  "--distribution=sequential", "--verify", "--interval=0.01", json_flag_.c_str()});
    EXPECT_EQ(Kvbench(flags), 0) << err_;
    const RunReport report = Report();
    EXPECT_EQ(report.phases.size(), 2u);
    return report.phases;
  }

  /// Returns the bytes of all values.
  static std::uint64_t Stored(Fields::Lengths lengths = Fields::Lengths::kUniform) {
    const FieldLayout layout({.count = 1, .least = 1 << 10, .length = 64 << 10, .lengths = lengths});
    std::uint64_t sum = 0;
    for (std::uint64_t record = 0; record < kRecords; ++record) sum += layout.ValueSize(record);
    return sum;
  }

  std::string json_flag_;
};

constexpr const char* kDepths[] = {"--depth=1", "--depth=16"};

TEST_F(BandwidthTest, ReadsCountWhatTheyFound) {
  for (const char* depth : kDepths) {
    const auto phases = LoadAndRun({"--workload=c", depth, "--threads=2"});
    EXPECT_EQ(phases.at(0).bytes[kInsert], (ValueBytes{0, Stored()})) << depth;
    EXPECT_EQ(phases.at(1).bytes[kRead], (ValueBytes{Stored(), 0})) << depth;
    EXPECT_EQ(phases.at(1).all_bytes(), (ValueBytes{Stored(), 0})) << depth;
    ValueBytes of_intervals;
    for (const Interval& interval : phases.at(1).series) of_intervals += interval.bytes;
    EXPECT_EQ(of_intervals, phases.at(1).all_bytes()) << depth;
  }
}

TEST_F(BandwidthTest, OperationsThatAreNotTimedCountToo) {
  EXPECT_EQ(LoadAndRun({"--workload=c", "--time_every=7"}).at(1).bytes[kRead], (ValueBytes{Stored(), 0}));
}

TEST_F(BandwidthTest, UpdatesCountWhatTheyWrote) {
  for (const char* depth : kDepths) {
    const auto phases =
        LoadAndRun({"--workload=a", depth, "-p", "readproportion=0", "-p", "updateproportion=1"});
    EXPECT_EQ(phases.at(1).bytes[kUpdate], (ValueBytes{0, Stored()})) << depth;
  }
}

TEST_F(BandwidthTest, AReadModifyWriteCountsBoth) {
  for (const char* depth : kDepths) {
    const auto phases =
        LoadAndRun({"--workload=f", depth, "-p", "readproportion=0", "-p", "readmodifywriteproportion=1"});
    EXPECT_EQ(phases.at(1).bytes[kReadModifyWrite], (ValueBytes{Stored(), Stored()})) << depth;
  }
}

TEST_F(BandwidthTest, AnUpdateOfOneFieldCountsTheWholeValueTwice) {
  json_flag_ = JsonFlag();
  for (const char* depth : kDepths) {
    ASSERT_EQ(Kvbench({"all", "--target=embedded", "--workload=a", "-p", "fieldcount=4", "-p",
                       "fieldlength=100", "-p", "readproportion=0", "-p", "updateproportion=1",
                       "--records=10", "--operations=30", depth, json_flag_.c_str()}),
              0)
        << err_;
    EXPECT_EQ(Report().phases.at(1).bytes[kUpdate], (ValueBytes{12'000, 12'000})) << depth;
  }
}

TEST_F(BandwidthTest, ScansCountEachValue) {
  json_flag_ = JsonFlag();
  const std::string data_dir = "--data_dir=" + directory_ + "/data";
  ASSERT_EQ(Kvbench({"all", "--target=embedded", "--durability=logged", data_dir.c_str(), "--workload=e",
                     "-p", "insertproportion=0", "-p", "scanproportion=1", "-p", "maxscanlength=1",
                     "--records=10", "--operations=30", "--value_size=5000", json_flag_.c_str()}),
            0)
      << err_;
  EXPECT_EQ(Report().phases.at(1).bytes[kScan], (ValueBytes{150'000, 0}));
}

TEST_F(BandwidthTest, OperationsThatFailCountNothing) {
  json_flag_ = JsonFlag();
  const std::string data_dir = "--data_dir=" + directory_ + "/data";
  const auto kvbench = [&](const char* command, const char* records, const char* depth) {
    return Kvbench({command, "--target=embedded", "--durability=logged", data_dir.c_str(), "--workload=c",
                    records, "--operations=20", "--distribution=sequential", "--value_size=5000", depth,
                    json_flag_.c_str()});
  };
  ASSERT_EQ(kvbench("load", "--records=10", "--depth=1"), 0) << err_;
  for (const char* depth : kDepths) {
    EXPECT_EQ(kvbench("run", "--records=20", depth), 1);
    EXPECT_EQ(Report().phases.at(0).operations[kRead], 10u);
    EXPECT_EQ(Report().phases.at(0).bytes[kRead], (ValueBytes{50'000, 0}));
  }
}

TEST_F(BandwidthTest, TheReportStatesTheDistributionOfSizes) {
  LoadAndRun({"--workload=c", "--value_size_distribution=zipfian"});
  const RunReport zipfian = Report();
  EXPECT_THAT(zipfian.settings, AllOf(Contains(std::pair("fieldlengthdistribution", "zipfian")),
                                      Contains(std::pair("minfieldlength", "1024")),
                                      Contains(std::pair("fieldlength", "65536"))));
  EXPECT_THAT(out_, HasSubstr(" + 1024 to 65536 bytes (zipfian), "));
  EXPECT_EQ(zipfian.phases.at(0).bytes[kInsert].written, Stored(Fields::Lengths::kZipfian));
  LoadAndRun({"--workload=c"});
  const RunReport uniform = Report();
  EXPECT_THAT(out_, HasSubstr("(uniform), "));
  EXPECT_THAT(ToHtml({{"a", zipfian}, {"b", uniform}}),
              HasSubstr("value size or placement: fieldlengthdistribution."));
  EXPECT_THAT(ToHtml({{"a", uniform}, {"b", uniform}}), Not(HasSubstr("The runs differ")));
}

}  // namespace
}  // namespace remora::bench
