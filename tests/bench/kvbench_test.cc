// kvbench as a whole, on a real store in this process.
#include "bench/kvbench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sysexits.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "bench/options.h"
#include "bench/target.h"
#include "bench/workload.h"
#include "store/base/clock.h"

namespace remora::bench {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class KvbenchTest : public ::testing::Test {
 protected:
  KvbenchTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "kvbench_test-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  ~KvbenchTest() override { std::filesystem::remove_all(directory_); }

  /// Runs `kvbench FLAGS...`; returns its exit status.
  int Kvbench(std::vector<const char*> flags) {
    flags.insert(flags.begin(), "kvbench");
    const auto parsed = ParseCommandLine(static_cast<int>(flags.size()), flags.data());
    if (const int* status = std::get_if<int>(&parsed)) return *status;
    std::ostringstream out;
    std::ostringstream err;
    const SteadyClock clock;
    const int status = RunBench(std::get<BenchOptions>(parsed), clock, /*err_is_terminal=*/false, out, err);
    out_ = out.str();
    err_ = err.str();
    return status;
  }

  std::string JsonFlag() const { return "--json=" + directory_ + "/out.json"; }
  std::string Json() const {
    std::ifstream file(directory_ + "/out.json");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string directory_;
  std::string out_;
  std::string err_;
};

TEST_F(KvbenchTest, EachWorkloadRunsAndEveryValueVerifies) {
  for (const char* workload : {"--workload=a", "--workload=b", "--workload=c"}) {
    for (const char* distribution : {"--distribution=zipfian", "--distribution=uniform"}) {
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
  EXPECT_THAT(Json(), AllOf(HasSubstr("\"target\": \"embedded\""), HasSubstr("\"seed\": 7"),
                            HasSubstr("\"load_operations\": 500,"), HasSubstr("\"run_operations\": 3000,"),
                            HasSubstr("\"run_read_p999_ns\": "), HasSubstr("\"errors\": 0\n}")));
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
  const std::string json = Json();
  const std::size_t at = json.find("\"run_seconds\": ");
  ASSERT_NE(at, std::string::npos);
  EXPECT_GE(std::stod(json.substr(at + 15)), 0.049);
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
    const auto session = (*target)->NewSession();
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
           {"all", "--target=embedded", "--seconds=1", "--operations=1"},
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
