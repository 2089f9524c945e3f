// Several operations of a thread in flight at once, scans, and the stores that are compared with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sysexits.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/kvbench/load/driver.h"
#include "bench/kvbench/load/records.h"
#include "bench/kvbench/load/shared.h"
#include "bench/kvbench/load/target.h"
#include "tests/unit/bench/kvbench_fixture.h"

namespace remora::bench {
namespace {

using ::testing::HasSubstr;

class DepthTest : public KvbenchTest {};

TEST_F(DepthTest, EachWorkloadRunsAndEveryValueVerifies) {
  const std::string json_flag = JsonFlag();
  for (const char* workload : {"--workload=a", "--workload=c", "--workload=d", "--workload=f"}) {
    for (const char* depth : {"--depth=2", "--depth=16", "--depth=1024"}) {
      for (const char* fields : {"fieldcount=1", "fieldcount=4"}) {
        ASSERT_EQ(Kvbench({"all", "--target=embedded", workload, depth, "-p", fields, "--records=1000",
                           "--operations=5001", "--threads=2", "--verify", json_flag.c_str()}),
                  0)
            << err_;
        const RunReport report = Report();
        EXPECT_EQ(report.phases.at(0).all_operations(), 1000u);
        EXPECT_EQ(report.phases.at(1).all_operations(), 5001u);
      }
    }
  }
}

TEST_F(DepthTest, ATimeEndsIt) {
  const std::string json_flag = JsonFlag();
  ASSERT_EQ(Kvbench({"all", "--target=embedded", "--workload=a", "--depth=16", "--records=100",
                     "--seconds=0.05", "--warmup=0.01", "--interval=0.01", json_flag.c_str()}),
            0);
  const PhaseResult run = Report().phases.at(1);
  EXPECT_GE(run.seconds, 0.05);
  std::uint64_t operations = 0;
  for (const Interval& interval : run.series) operations += interval.operations;
  EXPECT_EQ(operations, run.all_operations());
}

TEST_F(DepthTest, WithARateOperationsAreDueAtTheirMoments) {
  const std::string json_flag = JsonFlag();
  ASSERT_EQ(Kvbench({"all", "--target=embedded", "--workload=a", "--records=100", "--operations=200",
                     "--threads=2", "--rate=4000", "--depth=8", json_flag.c_str()}),
            0);
  EXPECT_GE(Report().phases.at(1).seconds, 0.049);
}

TEST_F(DepthTest, EachMissingKeyIsAnError) {
  const std::string data_dir = "--data_dir=" + directory_ + "/data";
  ASSERT_EQ(Kvbench({"load", "--target=embedded", "--durability=logged", data_dir.c_str(), "--records=1"}),
            0);
  EXPECT_EQ(Kvbench({"run", "--target=embedded", "--durability=logged", data_dir.c_str(), "--workload=c",
                     "--records=10", "--operations=100", "--distribution=sequential", "--depth=16"}),
            1);
  EXPECT_THAT(err_, HasSubstr("90 x not found"));
}

// --- A store that is a map, and slow ------------------------------------------------------------------

class TestClock final : public Clock {
 public:
  TimePoint Now() const override { return now_; }
  std::int64_t UnixMillis() const override { return 0; }
  void Advance(Duration duration) { now_ += duration; }

 private:
  TimePoint now_{};
};

/// Does one after the other, each in 1 ms, and the newest first: nothing may depend on the order.
class SlowSession final : public Session {
 public:
  explicit SlowSession(TestClock& clock) : clock_(clock) {}

  absl::Status Get(std::string_view key, std::string* value) override {
    const auto found = records_.find(std::string(key));
    if (found == records_.end()) return absl::NotFoundError("");
    *value = found->second;
    return absl::OkStatus();
  }
  absl::Status Put(std::string_view key, std::string_view value) override {
    records_[std::string(key)] = value;
    return absl::OkStatus();
  }
  void Begin(Request* request) override {
    if (in_flight_.empty()) next_end_ = clock_.Now() + std::chrono::milliseconds(1);
    in_flight_.push_back(request);
    most_ = std::max(most_, in_flight_.size());
  }
  void Advance(bool wait, std::vector<Request*>* ended) override {
    ASSERT_FALSE(in_flight_.empty());
    clock_.Advance(wait ? next_end_ - clock_.Now() : std::chrono::microseconds(10));
    if (clock_.Now() < next_end_) return;
    next_end_ = clock_.Now() + std::chrono::milliseconds(1);
    Request* const request = in_flight_.back();
    in_flight_.pop_back();
    request->status = request->is_put ? Put(request->key, request->value) : Get(request->key, request->found);
    ended->push_back(request);
  }
  std::size_t most() const { return most_; }

 private:
  TestClock& clock_;
  TimePoint next_end_{};
  std::map<std::string, std::string> records_;
  std::vector<Request*> in_flight_;
  std::size_t most_ = 0;
};

PhaseResult RunSlowly(PhaseKind phase, const Workload& workload, TestClock& clock,
                      const std::vector<std::unique_ptr<Session>>& sessions) {
  const auto shared = Shared::Make(1, workload.records);
  EXPECT_TRUE(shared.ok());
  const Team team{.sessions = sessions, .first_worker = 0, .workers = 1, .server_pid = 0, .meet = {}};
  return *RunPhase(phase, workload, team, **shared, clock, {});
}

TEST(Depth, SoManyAreInFlightAndEachIsTimedFromItsOwnBegin) {
  TestClock clock;
  std::vector<std::unique_ptr<Session>> sessions;
  sessions.push_back(std::make_unique<SlowSession>(clock));
  Workload workload;
  workload.mix = {.read = 1, .update = 0};
  workload.records = 50;
  workload.operations = 400;
  workload.depth = 4;
  workload.verify = true;
  EXPECT_EQ(RunSlowly(PhaseKind::kLoad, workload, clock, sessions).all_operations(), 50u);
  const PhaseResult run = RunSlowly(PhaseKind::kRun, workload, clock, sessions);
  EXPECT_EQ(run.operations[kRead], 400u);
  EXPECT_EQ(run.errors.total(), 0u);
  EXPECT_NEAR(run.seconds, 0.4, 1e-9);
  EXPECT_EQ(static_cast<const SlowSession&>(*sessions[0]).most(), 4u);
  // The newest ends first, after 1 ms; three older ones wait for all of the run.
  EXPECT_EQ(run.latency[kRead].min(), 1'000'000u);
  EXPECT_NEAR(static_cast<double>(run.latency[kRead].max()), 400e6, 1e6);
  EXPECT_LE(run.latency[kRead].Quantile(0.9), 1'010'000u);
}

TEST(Depth, WithARateLatencyRunsFromTheMomentAtWhichItWasDue) {
  // A store that takes 1 ms for each of operations that are due each 0.5 ms: the n-th waits for those before.
  TestClock clock;
  std::vector<std::unique_ptr<Session>> sessions;
  sessions.push_back(std::make_unique<SlowSession>(clock));
  Workload workload;
  workload.mix = {.read = 1, .update = 0};
  workload.records = 1;
  workload.operations = 100;
  workload.rate = 2000;
  workload.depth = 2;
  RunSlowly(PhaseKind::kLoad, workload, clock, sessions);
  const PhaseResult run = RunSlowly(PhaseKind::kRun, workload, clock, sessions);
  EXPECT_EQ(run.operations[kRead], 100u);
  // The first one is the last to end; of the others, number n is due at n / 2 ms, and ends at n.
  EXPECT_NEAR(static_cast<double>(run.latency[kRead].max()), 100e6, 1e5);
  EXPECT_NEAR(run.latency[kRead].mean(), 25.75e6, 1e5);
}

TEST(Depth, AnInsertCountsWhenItIsAcknowledgedInWhateverOrder) {
  TestClock clock;
  std::vector<std::unique_ptr<Session>> sessions;
  sessions.push_back(std::make_unique<SlowSession>(clock));
  Workload workload;
  workload.mix = {.read = 0.4, .update = 0, .insert = 0.3, .read_modify_write = 0.3};
  workload.distribution.kind = RequestDistribution::Kind::kLatest;
  workload.records = 10;
  workload.operations = 3000;
  workload.depth = 8;
  workload.verify = true;
  RunSlowly(PhaseKind::kLoad, workload, clock, sessions);
  const PhaseResult run = RunSlowly(PhaseKind::kRun, workload, clock, sessions);
  EXPECT_EQ(run.errors.total(), 0u);
  EXPECT_EQ(run.all_operations(), 3000u);
  EXPECT_GT(run.operations[kInsert], 700u);
  EXPECT_GT(run.operations[kReadModifyWrite], 700u);
}

TEST(Depth, AnInsertThatAllOthersOvertakeDoesNotHoldThemUpForEver) {
  TestClock clock;
  std::vector<std::unique_ptr<Session>> sessions;
  sessions.push_back(std::make_unique<SlowSession>(clock));
  Workload workload;
  workload.mix = {.read = 0, .update = 0, .insert = 1};
  workload.records = 1;
  workload.operations = InsertedRecords::kWindow + 100;
  workload.depth = 2;
  RunSlowly(PhaseKind::kLoad, workload, clock, sessions);
  const PhaseResult run = RunSlowly(PhaseKind::kRun, workload, clock, sessions);
  EXPECT_EQ(run.operations[kInsert], workload.operations);
}

// --- Scans, and other stores --------------------------------------------------------------------------

TEST_F(DepthTest, ScansShowWhatIsThere) {
  const std::string json_flag = JsonFlag();
  for (const char* target : {"--target=embedded", "--target=rocksdb", "--target=lmdb"}) {
    const std::string data_dir = "--data_dir=" + directory_ + "/" + (target + 9);
    const int status = Kvbench({"all", target, "--durability=logged", data_dir.c_str(), "--workload=e", "-p",
                                "scanlengthdistribution=zipfian", "--records=500", "--operations=1000",
                                "--threads=2", "--verify", json_flag.c_str()});
    if (status == EX_UNAVAILABLE && err_.find("was built without") != std::string::npos) continue;
    ASSERT_EQ(status, 0) << err_;
    EXPECT_NEAR(static_cast<double>(Report().phases.at(1).operations[kScan]), 950, 50) << target;
  }
}

TEST_F(DepthTest, AScanOfOthersValuesDoesNotVerify) {
  const std::string data_dir = directory_ + "/data";
  {
    const SteadyClock clock;
    TargetOptions options;
    options.address = kRocksdbTarget;
    options.store.data_dir = data_dir;
    options.store.durability = Durability::kLogged;
    const auto target = OpenTarget(options, clock);
    ASSERT_TRUE(target.ok()) << target.status();
    const auto session = (*target)->NewSession(/*depth=*/1);
    ValueMaker values(64);
    // The value of record 1 under the key of record 0.
    ASSERT_TRUE((*session)->Put(KeyText(0).view(), values.Make(1, 1)).ok());
  }
  const std::string flag = "--data_dir=" + data_dir;
  EXPECT_EQ(Kvbench({"run", "--target=rocksdb", flag.c_str(), "--records=1", "-p", "scanproportion=1", "-p",
                     "readproportion=0", "-p", "updateproportion=0", "--operations=10", "--verify"}),
            1);
  EXPECT_THAT(err_, HasSubstr("10 x wrong value"));
}

TEST_F(DepthTest, OtherStoresAreMissingWhatWasNotLoaded) {
  for (const char* target : {"--target=rocksdb", "--target=lmdb"}) {
    const std::string data_dir = "--data_dir=" + directory_ + "/" + (target + 9);
    const int status = Kvbench({"load", target, data_dir.c_str(), "--records=1", "--durability=synced"});
    if (status == EX_UNAVAILABLE && err_.find("was built without") != std::string::npos) continue;
    ASSERT_EQ(status, 0) << err_;
    for (const char* depth : {"--depth=1", "--depth=16"}) {
      EXPECT_EQ(Kvbench({"run", target, data_dir.c_str(), "--workload=c", "--records=10", "--operations=100",
                         "--distribution=sequential", "--verify", depth}),
                1);
      EXPECT_THAT(err_, HasSubstr("90 x not found")) << target << depth;
    }
  }
}

TEST_F(DepthTest, WrongAddressesOfOtherServers) {
  for (const char* target : {"--target=redis://", "--target=redis://host", "--target=redis://:1",
                             "--target=memcached://host:0", "--target=memcached://host:65536"}) {
    const int status = Kvbench({"all", target});
    if (status == EX_UNAVAILABLE && err_.find("was built without") != std::string::npos) continue;
    EXPECT_EQ(status, EX_USAGE) << target;
    EXPECT_THAT(err_, HasSubstr("://HOST:PORT")) << target;
  }
  const std::string nobody = "--target=redis://" + directory_ + "/nobody";
  EXPECT_EQ(Kvbench({"all", nobody.c_str()}), EX_UNAVAILABLE);
  EXPECT_EQ(Kvbench({"all", nobody.c_str(), "--server_pid=4194304"}), EX_UNAVAILABLE);
  EXPECT_THAT(err_, HasSubstr("no process 4194304"));
}

}  // namespace
}  // namespace remora::bench
