// kvbench as a whole, on a real store in this process.
#include "bench/kvbench/kvbench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sysexits.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "bench/kvbench/load/records.h"
#include "bench/kvbench/load/target.h"
#include "bench/kvbench/options.h"
#include "bench/kvbench/report/report.h"
#include "store/base/clock.h"
#include "tests/unit/bench/kvbench_fixture.h"

namespace remora::bench {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(KvbenchTest, EachWorkloadRunsAndEveryValueVerifies) {
  for (const char* workload :
       {"--workload=a", "--workload=b", "--workload=c", "--workload=d", "--workload=f"}) {
    for (const char* distribution :
         {"--distribution=zipfian", "--distribution=latest", "--distribution=uniform",
          "--distribution=hotspot", "--distribution=exponential", "--distribution=sequential"}) {
      EXPECT_EQ(Kvbench({"all", "--target=embedded", workload, distribution, "--records=1000",
                         "--operations=5000", "--threads=2", "--verify"}),
                0)
          << err_;
      EXPECT_EQ(err_, "");
      EXPECT_THAT(out_, ContainsRegex("load +insert +1,000 "));
      EXPECT_THAT(out_, ContainsRegex("run +all +5,000 "));
    }
  }
}

TEST_F(KvbenchTest, JsonSaysWhatWasDone) {
  const std::string json_flag = JsonFlag();
  ASSERT_EQ(Kvbench({"all", "--target=embedded", "--workload=a", "--records=500", "--operations=3000",
                     "--seed=7", json_flag.c_str()}),
            0);
  const RunReport report = Report();
  EXPECT_THAT(report.settings, Contains(std::make_pair("target", "embedded")));
  EXPECT_THAT(report.settings, Contains(std::make_pair("seed", "7")));
  ASSERT_EQ(report.phases.size(), 2u);
  EXPECT_EQ(report.phases[0].all_operations(), 500u);
  EXPECT_EQ(report.phases[1].all_operations(), 3000u);
  EXPECT_GT(report.phases[1].latency[kRead].Quantile(0.999), 0u);
  EXPECT_EQ(report.errors(), 0u);
  std::map<std::string, std::string> environment(report.environment.begin(), report.environment.end());
  EXPECT_THAT(environment["date"], MatchesRegex("20[0-9-]{8}T[0-9:]{8}Z"));
  EXPECT_THAT(environment["commit"], MatchesRegex("unknown|[0-9a-f]{12,40}(-dirty)?"));
  for (const char* name : {"host", "cpu", "cpus", "memory", "kernel", "kvbench", "rocksdb"}) {
    EXPECT_THAT(environment[name], Not(IsEmpty())) << name;
  }
}

TEST_F(KvbenchTest, PropertyFilesAndPropertiesDescribeARun) {
  Write("one", "recordcount=300\noperationcount=1000\nreadproportion=0\nupdateproportion=0\n");
  Write("two", "readmodifywriteproportion=1\nfieldlengthdistribution=uniform\nrecordcount=200\n");
  const std::string one = directory_ + "/one";
  const std::string two = directory_ + "/two";
  const std::string json_flag = JsonFlag();
  ASSERT_EQ(
      Kvbench({"all", "--target=embedded", "-P", one.c_str(), "-P", two.c_str(), "-p", "operationcount=700",
               "-p", "insertorder=ordered", "--verify", "--threads=2", json_flag.c_str()}),
      0)
      << err_;
  EXPECT_THAT(out_,
              AllOf(HasSubstr("10 x up to 100 bytes"), HasSubstr("uniform, seed"), HasSubstr("2 threads")));
  const RunReport report = Report();
  EXPECT_EQ(report.phases.at(0).all_operations(), 200u);
  EXPECT_EQ(report.phases.at(1).operations[kReadModifyWrite], 700u);
  EXPECT_EQ(report.phases.at(1).all_operations(), 700u);
  // Flags win over all.
  ASSERT_EQ(Kvbench({"all", "--target=embedded", "-P", one.c_str(), "-P", two.c_str(), "--value_size=64",
                     "--records=50", json_flag.c_str()}),
            0);
  EXPECT_EQ(Report().phases.at(0).all_operations(), 50u);
  EXPECT_THAT(out_, HasSubstr(" + 64 bytes"));
}

TEST_F(KvbenchTest, AnUpdateOfOneFieldKeepsTheValueWhole) {
  for (const char* all : {"writeallfields=true", "writeallfields=false"}) {
    EXPECT_EQ(Kvbench({"all", "--target=embedded", "--workload=a", "--records=100", "--operations=5000",
                       "--threads=3", "--verify", "-p", "fieldcount=10", "-p", "fieldlength=100", "-p", all}),
              0)
        << err_;
  }
}

TEST_F(KvbenchTest, FieldsThatAreNotThoseOfTheLoadAreNoticed) {
  const std::string data_dir = "--data_dir=" + directory_ + "/data";
  ASSERT_EQ(Kvbench({"load", "--target=embedded", "--durability=logged", data_dir.c_str(), "--records=10"}),
            0);
  EXPECT_EQ(Kvbench({"run", "--target=embedded", "--durability=logged", data_dir.c_str(), "--records=10",
                     "--operations=100", "--workload=a", "-p", "fieldcount=3"}),
            1);
  EXPECT_THAT(err_, AllOf(HasSubstr("update: "), HasSubstr("load with the same ones")));
}

TEST_F(KvbenchTest, InsertedRecordsAreRead) {
  const std::string json_flag = JsonFlag();
  // Half of the operations insert, and the rest read what is newest: it must be there.
  ASSERT_EQ(Kvbench({"all", "--target=embedded", "--workload=d", "--records=10", "--operations=20000", "-p",
                     "insertproportion=0.5", "-p", "readproportion=0.5", "--threads=4", "--verify",
                     json_flag.c_str()}),
            0)
      << err_;
  EXPECT_NEAR(static_cast<double>(Report().phases.at(1).operations[0]), 10'000, 500);
}

TEST_F(KvbenchTest, APartOfTheRecordsIsLoadedAndRunUpon) {
  const std::string json_flag = JsonFlag();
  ASSERT_EQ(Kvbench({"all", "--target=embedded", "--workload=a", "--records=1000", "-p", "insertstart=400",
                     "-p", "insertcount=100", "--operations=5000", "--verify", json_flag.c_str()}),
            0)
      << err_;
  EXPECT_EQ(Report().phases.at(0).all_operations(), 100u);
}

TEST_F(KvbenchTest, AWarmUpIsNotCounted) {
  const std::string json_flag = JsonFlag();
  ASSERT_EQ(Kvbench({"all", "--target=embedded", "--workload=d", "--records=100", "--operations=500",
                     "--warmup=0.02", json_flag.c_str()}),
            0)
      << err_;
  const RunReport report = Report();
  ASSERT_EQ(report.phases.size(), 2u);
  EXPECT_EQ(report.phases[1].all_operations(), 500u);
  EXPECT_THAT(out_, Not(HasSubstr("warm-up")));
}

TEST_F(KvbenchTest, AWarmUpThatFailsEndsTheRun) {
  const std::string data_dir = "--data_dir=" + directory_ + "/data";
  EXPECT_EQ(Kvbench({"run", "--target=embedded", "--durability=logged", data_dir.c_str(), "--workload=c",
                     "--records=10", "--operations=10", "--warmup=0.01"}),
            1);
  EXPECT_THAT(err_, HasSubstr("warm-up: read: "));
  EXPECT_THAT(out_, Not(ContainsRegex("\nrun ")));
}

TEST_F(KvbenchTest, ASeriesAddsUpToTheRun) {
  const std::string json_flag = JsonFlag();
  const std::string csv_flag = "--csv=" + directory_ + "/out.csv";
  ASSERT_EQ(Kvbench({"all", "--target=embedded", "--workload=a", "--records=100", "--operations=300",
                     "--threads=2", "--rate=3000", "--interval=0.02", json_flag.c_str(), csv_flag.c_str()}),
            0);
  const PhaseResult run = Report().phases.at(1);
  EXPECT_EQ(run.interval_seconds, 0.02);
  // The last of 300 operations is due after 299 / 3000 s.
  EXPECT_GE(run.series.size(), 5u);
  std::uint64_t operations = 0;
  Histogram latency;
  for (const Interval& interval : run.series) {
    operations += interval.operations;
    EXPECT_TRUE(latency.Merge(interval.latency));
  }
  EXPECT_EQ(operations, 300u);
  Histogram all;
  for (const Histogram& kind : run.latency) all.Merge(kind);
  EXPECT_EQ(latency.count(), all.count());
  EXPECT_EQ(latency.max(), all.max());
  const std::string csv = File("out.csv");
  EXPECT_THAT(csv, AllOf(HasSubstr("load,insert,"), HasSubstr("run,update,"),
                         HasSubstr("run,all,0.020000,0.040000,")));
}

TEST_F(KvbenchTest, UntimedOperationsCount) {
  const std::string json_flag = JsonFlag();
  for (const char* every : {"--time_every=16", "--time_every=17", "--time_every=1000"}) {
    for (const char* workload : {"--workload=a", "--workload=d"}) {
      ASSERT_EQ(Kvbench({"all", "--target=embedded", workload, "--records=100", "--operations=1001", every,
                         "--verify", "--interval=0.01", json_flag.c_str()}),
                0)
          << err_;
      const PhaseResult run = Report().phases.at(1);
      EXPECT_EQ(run.all_operations(), 1001u);
      std::uint64_t timed = 0;
      for (const Histogram& latency : run.latency) timed += latency.count();
      const std::uint64_t period = std::stoul(std::string(every).substr(13));
      EXPECT_EQ(timed, (1001 + period - 1) / period) << every;
      std::uint64_t operations = 0;
      for (const Interval& interval : run.series) operations += interval.operations;
      EXPECT_EQ(operations, 1001u);
    }
  }
}

TEST_F(KvbenchTest, YcsbsFormat) {
  ASSERT_EQ(Kvbench({"run", "--target=embedded", "--format=ycsb"}), EX_USAGE);
  ASSERT_EQ(Kvbench({"all", "--target=embedded", "--format=ycsb", "--workload=f", "--records=10",
                     "--operations=1000"}),
            0);
  EXPECT_THAT(out_, AllOf(StartsWith("[OVERALL], RunTime(ms), "), HasSubstr("[INSERT], Operations, 10\n"),
                          HasSubstr("[READ], 99thPercentileLatency(us), "),
                          ContainsRegex("READ-MODIFY-WRITE\\], Return=OK, [45]")));
}

TEST_F(KvbenchTest, ReportsAreShownAndCompared) {
  const std::string json_flag = JsonFlag();
  const std::string html_flag = "--html=" + directory_ + "/out.html";
  ASSERT_EQ(Kvbench({"all", "--target=embedded", "--records=123", "--operations=1000", "--workload=a",
                     json_flag.c_str(), html_flag.c_str()}),
            0);
  EXPECT_THAT(File("out.html"),
              AllOf(HasSubstr("<td>123</td>"), HasSubstr("latency of update"), HasSubstr("</html>")));
  const std::string json = directory_ + "/out.json";
  ASSERT_EQ(Kvbench({"report", json.c_str(), json.c_str(), html_flag.c_str()}), 0) << err_;
  EXPECT_THAT(File("out.html"), AllOf(HasSubstr("<h2>Operations per second"), HasSubstr("out, p99"),
                                      HasSubstr("Medians of runs with the same settings")));

  ASSERT_EQ(Kvbench({"report", json.c_str(), json.c_str(), "--by=recordcount", html_flag.c_str()}), 0)
      << err_;
  EXPECT_THAT(File("out.html"), AllOf(HasSubstr("recordcount"), HasSubstr("workload a, depth 1, p99")));
  EXPECT_EQ(Kvbench({"report", json.c_str(), "--by=mix", html_flag.c_str()}), EX_DATAERR);
  EXPECT_THAT(err_, HasSubstr("out has no run with a setting mix that is a number"));
  EXPECT_EQ(Kvbench({"all", "--target=embedded", "--by=recordcount"}), EX_USAGE);

  Write("wrong.json", "{}");
  const std::string wrong = directory_ + "/wrong.json";
  EXPECT_EQ(Kvbench({"report", wrong.c_str(), html_flag.c_str()}), EX_DATAERR);
  EXPECT_THAT(err_, HasSubstr("wrong.json: no JSON of kvbench"));
  Write("empty.json", "");
  const std::string empty = directory_ + "/empty.json";
  EXPECT_EQ(Kvbench({"report", empty.c_str(), html_flag.c_str()}), EX_DATAERR);
  EXPECT_EQ(Kvbench({"report", "/nowhere/a.json", html_flag.c_str()}), EX_NOINPUT);
  EXPECT_EQ(Kvbench({"report", "/", html_flag.c_str()}), EX_NOINPUT);
  EXPECT_EQ(Kvbench({"report", json.c_str(), "--html=/nowhere/out.html"}), EX_CANTCREAT);
  // Without a page, on the terminal.
  EXPECT_EQ(Kvbench({"report", json.c_str(), json.c_str()}), 0) << err_;
  EXPECT_THAT(out_, AllOf(StartsWith("Medians of runs with the same settings\n"), HasSubstr("\nSummary\n"),
                          HasSubstr("update"), Not(HasSubstr("<"))));
  EXPECT_EQ(Kvbench({"report", wrong.c_str()}), EX_DATAERR);
  EXPECT_EQ(Kvbench({"report", json.c_str(), "--by=recordcount"}), EX_USAGE);
  EXPECT_EQ(Kvbench({"report", html_flag.c_str()}), EX_USAGE);
  EXPECT_EQ(Kvbench({"all", json.c_str(), "--target=embedded"}), EX_USAGE);
}

TEST_F(KvbenchTest, AFileThatCannotBeWrittenIsAnError) {
  EXPECT_EQ(
      Kvbench({"all", "--target=embedded", "--records=10", "--operations=10", "--csv=/nowhere/out.csv"}),
      EX_CANTCREAT);
  EXPECT_THAT(err_, HasSubstr("/nowhere/out.csv"));
}

TEST_F(KvbenchTest, MoreThreadsThanRecordsAndOperations) {
  EXPECT_EQ(Kvbench({"all", "--target=embedded", "--records=3", "--operations=2", "--threads=8"}), 0) << err_;
  EXPECT_THAT(out_, ContainsRegex("load +all +3 "));
  EXPECT_THAT(out_, ContainsRegex("run +all +2 "));
}

TEST_F(KvbenchTest, ARunByTimeEnds) {
  EXPECT_EQ(Kvbench({"all", "--target=embedded", "--workload=c", "--records=100", "--seconds=0.05"}), 0);
  EXPECT_THAT(out_, ContainsRegex("run +read +[1-9]"));
}

TEST_F(KvbenchTest, WithARateOperationsAreDueAtTheirMoments) {
  const std::string json_flag = JsonFlag();
  // The last of 200 operations is due after 199 / 4000 s, so the run cannot be shorter.
  ASSERT_EQ(Kvbench({"all", "--target=embedded", "--workload=a", "--records=100", "--operations=200",
                     "--threads=2", "--rate=4000", json_flag.c_str()}),
            0);
  EXPECT_GE(Report().phases.at(1).seconds, 0.049);
}

TEST_F(KvbenchTest, MissingRecordsAreErrorsThatSayWhatToDo) {
  const std::string data_dir = "--data_dir=" + directory_ + "/data";
  ASSERT_EQ(Kvbench({"load", "--target=embedded", "--durability=logged", data_dir.c_str(), "--records=100"}),
            0)
      << err_;
  EXPECT_THAT(out_, Not(HasSubstr("run ")));
  // A later run finds what was loaded, in a store opened anew...
  EXPECT_EQ(Kvbench({"run", "--target=embedded", "--durability=logged", data_dir.c_str(), "--workload=c",
                     "--records=100", "--operations=1000", "--verify"}),
            0)
      << err_;
  // ... and misses what was not.
  EXPECT_EQ(Kvbench({"run", "--target=embedded", "--durability=logged", data_dir.c_str(), "--workload=c",
                     "--records=200", "--operations=1000", "--distribution=uniform"}),
            1);
  EXPECT_THAT(err_, AllOf(HasSubstr("not found"), HasSubstr("load first")));
}

TEST_F(KvbenchTest, UpdatesOfManyTimesTheMemoryGoOn) {
  EXPECT_EQ(Kvbench({"all", "--target=embedded", "--memory=16M", "--value_size=4096", "--records=100",
                     "--workload=a", "--operations=20000", "--threads=2", "--verify"}),
            0)
      << err_;
}

TEST_F(KvbenchTest, AFullMemoryEndsTheLoadAndSaysSoOnce) {
  EXPECT_EQ(Kvbench({"load", "--target=embedded", "--memory=16M", "--value_size=4096", "--records=10000",
                     "--threads=2"}),
            1);
  EXPECT_THAT(err_, AllOf(HasSubstr("RESOURCE_EXHAUSTED"), HasSubstr("--memory")));
  EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
}

TEST_F(KvbenchTest, ALoadThatFailsIsNotRunUpon) {
  EXPECT_EQ(Kvbench({"all", "--target=embedded", "--memory=16M", "--value_size=4096", "--records=10000"}), 1);
  EXPECT_THAT(out_, Not(ContainsRegex("\nrun ")));
}

TEST_F(KvbenchTest, OthersValuesDoNotVerify) {
  const std::string data_dir = directory_ + "/data";
  {
    TargetOptions options;
    options.address = kEmbeddedTarget;
    options.store.durability = Durability::kLogged;
    options.store.data_dir = data_dir;
    const SteadyClock clock;
    const auto target = OpenTarget(options, clock);
    ASSERT_TRUE(target.ok()) << target.status();
    const auto session = (*target)->NewSession(/*depth=*/1);
    ValueMaker values(64);
    // The value of record 1 under the key of record 0.
    ASSERT_TRUE((*session)->Put(KeyText(0).view(), values.Make(1, 1)).ok());
  }
  const std::string flag = "--data_dir=" + data_dir;
  EXPECT_EQ(Kvbench({"run", "--target=embedded", "--durability=logged", flag.c_str(), "--workload=c",
                     "--records=1", "--operations=10", "--verify"}),
            1);
  EXPECT_THAT(err_, HasSubstr("10 x wrong value"));
}

TEST_F(KvbenchTest, WrongCommandLines) {
  for (const std::vector<const char*>& flags : std::vector<std::vector<const char*>>{
           {},
           {"all"},
           {"frobnicate", "--target=embedded"},
           {"all", "--target=embedded", "--workload=z"},
           {"all", "--target=embedded", "--records=0"},
           {"all", "--target=embedded", "--value_size=15"},
           {"all", "--target=embedded", "--value_size=8K..4K"},
           {"all", "--target=embedded", "--value_size=8K..65M"},
           {"all", "--target=embedded", "--value_size_distribution=uniform"},
           {"all", "--target=embedded", "--value_size=8K", "--value_size_distribution=zipfian"},
           {"all", "--target=embedded", "--value_size=4K..8K", "--value_size_distribution=normal"},
           {"all", "--target=embedded", "-p", "minfieldlength=20"},
           {"all", "--target=embedded", "-p", "minfieldlength=65", "-p", "fieldlengthdistribution=uniform"},
           {"floor", "--target=local:///tmp/x", "--value_size=16..64"},
           {"all", "--target=embedded", "--workload=e"},  // scans, in memory
           {"all", "--target=embedded", "--workload=e", "--depth=2", "--durability=logged",
            "--data_dir=/tmp/x"},
           {"all", "--target=embedded", "--depth=0"},
           {"all", "--target=embedded", "--depth=1025"},
           {"all", "--target=embedded", "--depth=2", "--batch"},
           {"all", "--target=embedded", "--server_pid=1"},
           {"all", "--target=local:///tmp/x", "--batch"},
           {"all", "--target=local:///tmp/x", "--depth=2", "--data_dir=/tmp/x"},
           {"all", "--target=rocksdb"},
           {"floor", "--target=embedded"},
           {"floor", "--target=redis:///tmp/x"},
           {"floor", "--target=local:///tmp/x", "-p", "fieldcount=2"},
           {"floor", "--target=local:///tmp/x", "--value_size=1M"},
           {"floor", "--target=local:///tmp/x", "--rate=1"},
           {"all", "--target=embedded", "--interval=1"},
           {"all", "--target=embedded", "--time_every=2", "--depth=2"},
           {"all", "--target=embedded", "--token_file=/tmp/x"},
           {"report", "/tmp/x", "--html=/tmp/y", "--records=1"},
           {"all", "--target=rocksdb", "--data_dir=/tmp/x", "--eviction=none"},
           {"all", "--target=rocksdb", "--data_dir=/tmp/x", "--processes=2"},
           {"all", "--target=redis:///tmp/x", "--location_cache=1M"},
           {"all", "--target=redis:///tmp/x", "--durability=logged"},
           {"all", "--target=redis:///tmp/x", "--batch"},
           {"all", "--target=redis:///tmp/x", "--tls_ca=/tmp/x"},
           {"all", "--target=rediss://localhost:1"},
           {"all", "--target=memcached:///tmp/x", "--depth=2", "--batch"},
           {"all", "--target=embedded", "--seconds=-1"},
           {"all", "--target=embedded", "--operations=0"},
           {"all", "--target=embedded", "--threads=0"},
           {"all", "--target=embedded", "--distribution=gauss"},
           {"all", "--target=embedded", "--interval=0"},
           {"all", "--target=embedded", "--warmup=-1"},
           {"all", "--target=embedded", "--format=xml"},
           {"all", "--target=embedded", "--processes=2"},
           {"all", "--target=embedded", "--processes=0"},
           {"all", "--target=embedded", "-P", "/nowhere/workload"},
           {"all", "--target=embedded", "-P", "/dev/null", "--workload=a"},
           {"all", "--target=embedded", "-p", "recordscount=1"},
           {"all", "--target=embedded", "-p", "=1"},
           {"all", "--target=embedded", "-p", "readproportion=1"},
           {"all", "--target=embedded", "-p", "fieldlength=1"},
           {"all", "--target=embedded", "--durability=logged"},
           {"all", "--target=embedded", "--data_dir=/tmp/x"},
           {"all", "--target=embedded", "--memory=12"},
           {"run", "--target=embedded"},
           {"all", "--target=local:///tmp/x", "--memory=1G"},
           {"all", "--target=embedded", "--location_cache=1M"},
           {"all", "--target=carrier-pigeon://x"},
       }) {
    EXPECT_EQ(Kvbench(flags), EX_USAGE) << ::testing::PrintToString(flags);
  }
  EXPECT_EQ(Kvbench({"--help"}), 0);
}

TEST_F(KvbenchTest, AServerThatIsNotThere) {
  const std::string target = "--target=local://" + directory_ + "/nobody.sock";
  EXPECT_EQ(Kvbench({"all", target.c_str()}), EX_UNAVAILABLE);
  EXPECT_THAT(err_, HasSubstr("nobody.sock"));
}

}  // namespace
}  // namespace remora::bench
