// Verdicts of kvctl doctor at their bounds, on facts of machines that are not this one.
#include "tools/kvctl/doctor/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "doctor_checks.h"
#include "rdma/address.h"
#include "server/main/descriptors.h"
#include "server/memory/system_memory.h"
#include "tools/json/json.h"
#include "tools/kvctl/doctor/check.h"
#include "tools/kvctl/doctor/devices.h"
#include "tools/kvctl/doctor/limits.h"
#include "tools/kvctl/doctor/loopback.h"
#include "tools/kvctl/doctor/machine.h"
#include "tools/kvctl/doctor/memory.h"
#include "tools/kvctl/doctor/perftest.h"
#include "tools/kvctl/doctor/reachability.h"
#include "tools/kvctl/doctor/time_limit.h"

namespace remora::doctor {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Verdict Memlock(const LimitFacts& facts, const Plan& plan, bool has_device) {
  Checks checks;
  JudgeLimits(facts, plan, has_device, &checks);
  return Find(checks, "memlock").verdict;
}

TEST(Doctor, LockedMemory) {
  EXPECT_EQ(Memlock({.memlock = 256 * kMebi}, kOverRdma, true), Verdict::kOk);
  EXPECT_EQ(Memlock({.memlock = 256 * kMebi - 1}, kOverRdma, false), Verdict::kProblem);
  EXPECT_EQ(Memlock({.memlock = 256 * kMebi - 1}, kLocal, true), Verdict::kProblem);
  EXPECT_EQ(Memlock({.memlock = 256 * kMebi - 1}, kLocal, false), Verdict::kWarning);
  EXPECT_EQ(Memlock({.memlock = 0, .may_lock_all = true}, kOverRdma, true), Verdict::kOk);
  EXPECT_EQ(Memlock({.memlock = kNoLimit}, kOverRdma, true), Verdict::kOk);
}

TEST(Doctor, Descriptors) {
  const auto judge = [](std::uint64_t descriptors) {
    Checks checks;
    JudgeLimits({.descriptors = descriptors}, kLocal, false, &checks);
    return Find(checks, "descriptors");
  };
  EXPECT_EQ(judge(kNoLimit).verdict, Verdict::kOk);
  // As kvserver does with --memory=256M and enough descriptors.
  EXPECT_THAT(judge(kNoLimit).found,
              HasSubstr("a local and a TCP address and 85 clients, as 256.0 MiB hold"));
  EXPECT_EQ(judge(700).verdict, Verdict::kOk);
  const std::uint64_t needed = *judge(kNoLimit).limit;
  EXPECT_GT(needed, 85u);
  EXPECT_LT(needed, 700u);
  EXPECT_EQ(judge(needed).verdict, Verdict::kOk);
  EXPECT_EQ(judge(needed - 1).verdict, Verdict::kWarning);
  EXPECT_EQ(judge(needed - 1).value, needed - 1);
  EXPECT_THAT(judge(needed - 1).remedy, HasSubstr("ulimit -n " + std::to_string(needed)));
  EXPECT_THAT(judge(needed - 1).remedy, HasSubstr("admits fewer clients"));
  // At the number with which kvserver admits one client at a local address.
  const std::vector<rdma::Address> addresses(1);
  ASSERT_EQ(addresses[0].kind, rdma::TransportKind::kLocal);
  const std::size_t least = DescriptorsNeeded(LimitFacts().open_descriptors, 1, true, addresses);
  EXPECT_TRUE(PlanDescriptors(least, LimitFacts().open_descriptors, 1, true, addresses).ok());
  EXPECT_EQ(judge(least).verdict, Verdict::kWarning);
  EXPECT_EQ(judge(least - 1).verdict, Verdict::kProblem);
  EXPECT_THAT(judge(least - 1).remedy, HasSubstr("does not start"));
}

TEST(Doctor, CountsAgree) {
  Checks checks = {PassedCheck("one", "is good")};
  EXPECT_THAT(ToText(checks), HasSubstr("1 check, 0 warnings, 0 problems"));
  checks[0].verdict = Verdict::kWarning;
  checks.push_back(PassedCheck("two", "is bad"));
  checks[1].verdict = Verdict::kProblem;
  EXPECT_THAT(ToText(checks), HasSubstr("2 checks, 1 warning, 1 problem\n"));
}

TEST(Doctor, Cpus) {
  for (const auto& [cpus, verdict] : std::map<unsigned, Verdict>{{1, Verdict::kWarning}, {2, Verdict::kOk}}) {
    Checks checks;
    JudgeLimits({.descriptors = kNoLimit, .cpus = cpus}, kLocal, false, &checks);
    EXPECT_EQ(Find(checks, "cpus").verdict, verdict) << cpus;
  }
}

TEST(Doctor, Memory) {
  const auto judge = [](std::uint64_t most, std::uint64_t available, const char* name) {
    Checks checks;
    SystemMemory system;
    system.most = most;
    system.available = available;
    JudgeMemory(system, {.shared = "advise"}, kLocal, &checks);
    return Find(checks, name);
  };
  EXPECT_EQ(judge(256 * kMebi, UINT64_MAX, "memory").verdict, Verdict::kOk);
  const Check more = judge(256 * kMebi - 1, UINT64_MAX, "memory");
  EXPECT_EQ(more.verdict, Verdict::kProblem);
  EXPECT_EQ(more.value, 256 * kMebi - 1);
  EXPECT_EQ(more.limit, 256 * kMebi);
  SystemMemory system;
  system.most = 1024 * kMebi;
  const std::uint64_t enough = 256 * kMebi + BesideMemory(system, /*is_durable=*/true);
  EXPECT_EQ(judge(1024 * kMebi, enough, "memory_available").verdict, Verdict::kOk);
  EXPECT_EQ(judge(1024 * kMebi, enough - 1, "memory_available").verdict, Verdict::kWarning);
  EXPECT_EQ(judge(UINT64_MAX, UINT64_MAX, "memory").verdict, Verdict::kOk) << "the system tells nothing";
}

TEST(Doctor, HugePages) {
  const auto judge = [](const PageFacts& pages, const char* name) {
    Checks checks;
    JudgeMemory({}, pages, kLocal, &checks);
    return Find(checks, name);
  };
  EXPECT_EQ(judge({.shared = "never"}, "huge_pages").verdict, Verdict::kOk) << "each is asked for";
  EXPECT_EQ(judge({.shared = "never", .can_collapse = false}, "huge_pages").verdict, Verdict::kWarning);
  EXPECT_EQ(judge({.shared = "within_size", .can_collapse = false}, "huge_pages").verdict, Verdict::kOk);
  EXPECT_EQ(judge({.shared = "deny"}, "huge_pages").verdict, Verdict::kWarning);
  EXPECT_EQ(judge({.shared = ""}, "huge_pages").verdict, Verdict::kWarning);
  EXPECT_EQ(judge({.shared = "advise"}, "reserved_pages").verdict, Verdict::kOk);
  EXPECT_EQ(judge({.shared = "advise", .reserved_free = 2 * kMebi}, "reserved_pages").verdict,
            Verdict::kWarning);
  EXPECT_TRUE(CanCollapse("6.1.0-18-amd64"));
  EXPECT_TRUE(CanCollapse("7.0"));
  EXPECT_FALSE(CanCollapse("6.0.19"));
  EXPECT_FALSE(CanCollapse("5.15.0"));
  EXPECT_FALSE(CanCollapse(""));
  EXPECT_EQ(ChosenWord("always [advise] never"), "advise");
  EXPECT_EQ(ChosenWord("] odd ["), "] odd [");
}

TEST(Doctor, ClockSource) {
  const auto judge = [](const std::string& source, const std::string& others) {
    Checks checks;
    MachineFacts facts;
    facts.clock_source = source;
    facts.clock_sources = others;
    facts.release = facts.architecture = facts.rocksdb = "1";
    JudgeMachine(facts, "1.2.3", &checks);
    return checks.front();
  };
  EXPECT_EQ(judge("tsc", "").verdict, Verdict::kOk);
  EXPECT_EQ(judge("kvm-clock", "tsc kvm-clock").verdict, Verdict::kOk);
  EXPECT_EQ(judge("", "").verdict, Verdict::kOk);
  EXPECT_EQ(judge("hpet", "hpet acpi_pm").verdict, Verdict::kWarning);
  EXPECT_THAT(judge("hpet", "tsc hpet").remedy, HasSubstr("echo tsc >"));
  EXPECT_THAT(judge("hpet", "hpet acpi_pm").remedy, Not(HasSubstr("echo tsc >")));
}

RdmaFacts OneDevice() {
  const PortFacts port = {.number = 1,
                          .state = "ACTIVE",
                          .is_active = true,
                          .is_ethernet = true,
                          .active_mtu = 1024,
                          .max_mtu = 4096,
                          .gid_index = 3,
                          .gid_type = "RoCE v2",
                          .netdev = "eth0"};
  return {.in_kernel = {"mlx5_0"},
          .devices = {{.name = "mlx5_0",
                       .failure = "",
                       .firmware = "1",
                       .max_mr_size = 256 * kMebi,
                       .memory_windows = true,
                       .ports = {port}}}};
}

Check JudgedRdma(const std::optional<RdmaFacts>& facts, const Plan& plan, const char* name) {
  Checks checks;
  JudgeDevices(facts, plan, &checks);
  return Find(checks, name);
}

TEST(Doctor, RdmaDevices) {
  EXPECT_EQ(JudgedRdma(RdmaFacts(), kLocal, "rdma_devices").verdict, Verdict::kOk);
  EXPECT_EQ(JudgedRdma(RdmaFacts(), kOverRdma, "rdma_devices").verdict, Verdict::kProblem);
  EXPECT_EQ(JudgedRdma(std::nullopt, kOverRdma, "rdma_devices").verdict, Verdict::kProblem);
  EXPECT_EQ(JudgedRdma(std::nullopt, kLocal, "rdma_devices").verdict, Verdict::kWarning);
  RdmaFacts facts = OneDevice();
  for (const char* const name : {"rdma_devices", "rdma.mlx5_0.max_mr_size", "rdma.mlx5_0.memory_windows",
                                 "rdma.mlx5_0.1.port", "rdma.mlx5_0.1.gid", "rdma.mlx5_0.1.mtu"}) {
    EXPECT_EQ(JudgedRdma(facts, kOverRdma, name).verdict, Verdict::kOk) << name;
  }
  facts.in_kernel.push_back("qedr0");
  EXPECT_EQ(JudgedRdma(facts, kOverRdma, "rdma_devices").verdict, Verdict::kProblem);
  EXPECT_THAT(JudgedRdma(facts, kLocal, "rdma_devices").found, HasSubstr("no driver for qedr0"));
  facts = OneDevice();
  facts.devices[0].max_mr_size -= 1;
  EXPECT_EQ(JudgedRdma(facts, kOverRdma, "rdma.mlx5_0.max_mr_size").verdict, Verdict::kProblem);
  facts.devices[0].memory_windows = false;
  EXPECT_EQ(JudgedRdma(facts, kOverRdma, "rdma.mlx5_0.memory_windows").verdict, Verdict::kWarning);
  facts.devices[0].failure = "Permission denied";
  EXPECT_EQ(JudgedRdma(facts, kOverRdma, "rdma.mlx5_0.open").verdict, Verdict::kProblem);
}

TEST(Doctor, RdmaPorts) {
  RdmaFacts facts = OneDevice();
  PortFacts& port = facts.devices[0].ports[0];
  port.active_mtu = 512;
  EXPECT_EQ(JudgedRdma(facts, kOverRdma, "rdma.mlx5_0.1.mtu").verdict, Verdict::kWarning);
  port.gid_index.reset();
  EXPECT_EQ(JudgedRdma(facts, kOverRdma, "rdma.mlx5_0.1.gid").verdict, Verdict::kProblem);
  EXPECT_THAT(JudgedRdma(facts, kOverRdma, "rdma.mlx5_0.1.gid").remedy, HasSubstr("dev eth0"));
  port.is_active = false;
  EXPECT_EQ(JudgedRdma(facts, kOverRdma, "rdma.mlx5_0.1.port").verdict, Verdict::kWarning);
  EXPECT_EQ(JudgedRdma(facts, kOverRdma, "rdma_devices").verdict, Verdict::kProblem) << "no port is active";
  EXPECT_TRUE(IsAddressGid("0000:0000:0000:0000:0000:ffff:0a62:0001"));
  EXPECT_TRUE(IsAddressGid("2001:0db8:0000:0000:0000:0000:0000:0001"));
  EXPECT_FALSE(IsAddressGid("fe80:0000:0000:0000:0000:0000:0000:0001"));
  EXPECT_FALSE(IsAddressGid("0000:0000:0000:0000:0000:0000:0000:0000"));
  EXPECT_FALSE(IsAddressGid(""));
}

TEST(Doctor, Loopback) {
  const auto judge = [](const std::optional<LoopbackFacts>& facts, const char* name) {
    Checks checks;
    JudgeLoopback(facts, "mlx5_0", &checks);
    return Find(checks, name);
  };
  EXPECT_EQ(judge(std::nullopt, "rdma_loopback").verdict, Verdict::kProblem);
  EXPECT_THAT(judge(LoopbackFacts(), "rdma_loopback").found, HasSubstr("there is no mlx5_0"));
  LoopbackFacts facts;
  facts.device = "mlx5_0";
  facts.times = {{.kind = "read", .count = 1000, .median_us = 2.25, .p99_us = 3}, {.kind = "write"}};
  EXPECT_THAT(judge(facts, "rdma.mlx5_0.loopback_read").found,
              HasSubstr("median 2.25 us, p99 3.00 us, of 1000"));
  facts.failure = "write: transport retry counter exceeded";
  EXPECT_EQ(judge(facts, "rdma.mlx5_0.loopback").verdict, Verdict::kProblem);
  EXPECT_EQ(judge(facts, "rdma.mlx5_0.loopback_read").verdict, Verdict::kOk) << "it is shown all the same";
}

// Of perftest 4.5 (Debian 12) with a soft-RoCE device, without its lines of addresses.
constexpr char kOutputOfReadLat[] =
    "Device not recognized to implement inline feature. Disabling it\n"
    "---------------------------------------------------------------------------------------\n"
    "---------------------------------------------------------------------------------------\n"
    "                    RDMA_Read Latency Test\n"
    " Dual-port       : OFF\t\tDevice         : rxe1\n"
    " Number of qps   : 1\t\tTransport type : IB\n"
    " Connection type : RC\t\tUsing SRQ      : OFF\n"
    " PCIe relax order: ON\n"
    " ibv_wr* API     : OFF\n"
    " TX depth        : 1\n"
    " Mtu             : 4096[B]\n"
    " Link type       : Ethernet\n"
    " GID index       : 1\n"
    " Outstand reads  : 128\n"
    " rdma_cm QPs\t : OFF\n"
    " Data ex. method : Ethernet\n"
    "---------------------------------------------------------------------------------------\n"
    "---------------------------------------------------------------------------------------\n"
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   "
    "99% percentile[usec]   99.9% percentile[usec] \n"
    " 64      1000          35.86          9975.06      154.95   \t       230.31      \t637.25 \t\t4581.22 "
    "\t\t9975.06\n"
    "---------------------------------------------------------------------------------------\n";

TEST(Doctor, TheOutputOfPerftest) {
  PerftestTimes times;
  ASSERT_TRUE(ReadPerftest(kOutputOfReadLat, 64, &times));
  EXPECT_EQ(times.typical_us, 154.95);
  EXPECT_EQ(times.p99_us, 4581.22);
  EXPECT_FALSE(ReadPerftest(kOutputOfReadLat, 65, &times)) << "no row of so many bytes";
  const std::string cut(kOutputOfReadLat, std::string_view(kOutputOfReadLat).find("154.95") + 6);
  EXPECT_FALSE(ReadPerftest(cut, 64, &times)) << "it ended within its row";
  EXPECT_FALSE(ReadPerftest("Couldn't connect to 127.0.0.1:18515\n", 64, &times));
  EXPECT_FALSE(ReadPerftest("", 64, &times));
}

TEST(Doctor, PerftestBesideTheLoopback) {
  LoopbackFacts loopback;
  loopback.device = "mlx5_0";
  const auto judge = [&](const std::optional<PerftestFacts>& facts, const char* name) {
    Checks checks;
    JudgePerftest(facts, loopback, &checks);
    return Find(checks, name);
  };
  EXPECT_EQ(judge(std::nullopt, "rdma.mlx5_0.perftest").verdict, Verdict::kWarning);
  EXPECT_EQ(judge(PerftestFacts(), "rdma.mlx5_0.perftest").verdict, Verdict::kOk);
  EXPECT_THAT(judge(PerftestFacts(), "rdma.mlx5_0.perftest").found, HasSubstr("perftest is not installed"));
  PerftestFacts facts = {.is_installed = true, .times = {}};
  facts.times.push_back(
      {.kind = "read", .program = "ib_read_lat", .typical_us = 2.5, .p99_us = 3, .failure = {}});
  facts.times.push_back(
      {.kind = "write", .program = "ib_write_lat", .typical_us = 1.25, .p99_us = 2, .failure = {}});
  facts.times.push_back({.kind = "send", .program = "ib_send_lat", .failure = "Couldn't connect"});
  const Check read = judge(facts, "rdma.mlx5_0.perftest_read");
  EXPECT_EQ(read.verdict, Verdict::kOk);
  EXPECT_EQ(read.value, 2u);
  EXPECT_EQ(read.found, "ib_read_lat: typical 2.50 us, p99 3.00 us, of 1000 of 64 bytes");
  EXPECT_THAT(judge(facts, "rdma.mlx5_0.perftest_write").found,
              HasSubstr("1.25 us, p99 2.00 us, of 1000 of 64 bytes, one way"));
  EXPECT_EQ(judge(facts, "rdma.mlx5_0.perftest_send").verdict, Verdict::kWarning);
  EXPECT_EQ(judge(facts, "rdma.mlx5_0.perftest_send").found, "ib_send_lat: Couldn't connect");
}

Check JudgedServer(const std::optional<ServerFacts>& facts, const char* name) {
  Checks checks;
  JudgeServer(facts, "tcp://host:1", &checks);
  return Find(checks, name);
}

TEST(Doctor, Server) {
  EXPECT_EQ(JudgedServer(std::nullopt, "server").verdict, Verdict::kProblem);
  EXPECT_THAT(JudgedServer(std::nullopt, "server").found, HasSubstr("no answer in time"));
  const ServerFacts rejected = {.status = absl::PermissionDeniedError("no token")};
  EXPECT_EQ(JudgedServer(rejected, "server").verdict, Verdict::kProblem);
  EXPECT_THAT(JudgedServer(rejected, "server").remedy, HasSubstr("--token_file"));
  ServerFacts facts = {.status = absl::OkStatus(), .connected = true, .connect_us = 900, .round_trip_us = 20};
  for (const char* const name : {"server", "round_trip", "loading", "writes", "space"}) {
    EXPECT_EQ(JudgedServer(facts, name).verdict, Verdict::kOk) << name;
  }
  facts.metrics = {{"loading", 1}, {"disk_failures", 1}, {"writes_put_off", 1}};
  EXPECT_EQ(JudgedServer(facts, "loading").verdict, Verdict::kWarning);
  EXPECT_EQ(JudgedServer(facts, "writes").verdict, Verdict::kWarning);
  EXPECT_EQ(JudgedServer(facts, "space").verdict, Verdict::kWarning);
  facts.metrics["disk_refuses"] = 1;
  EXPECT_EQ(JudgedServer(facts, "writes").verdict, Verdict::kProblem);
  facts.metrics["disk_refuses"] = 0;
  facts.metrics["memory_refuses"] = 1;
  EXPECT_EQ(JudgedServer(facts, "writes").verdict, Verdict::kProblem);
  EXPECT_THAT(JudgedServer(facts, "writes").remedy, HasSubstr("ulimit -v"));
  facts.metrics["replication_role"] = 1;
  const Check both = JudgedServer(facts, "writes");
  EXPECT_EQ(both.verdict, Verdict::kProblem) << "a follower, whose system gives it no memory";
  EXPECT_THAT(both.found, AllOf(HasSubstr("follows a primary"), HasSubstr("no memory")));
  EXPECT_THAT(both.remedy, AllOf(HasSubstr("kvctl --server=tcp://host:1 promote"), HasSubstr("ulimit -v")));
  facts.status = absl::DeadlineExceededError("no answer");
  EXPECT_EQ(JudgedServer(facts, "round_trip").verdict, Verdict::kProblem);
}

TEST(Doctor, WritesOfAServerInReplication) {
  ServerFacts facts = {.status = absl::OkStatus(), .connected = true, .connect_us = 900, .round_trip_us = 20};
  facts.metrics = {{"replication_role", 1}};
  const Check follower = JudgedServer(facts, "writes");
  EXPECT_EQ(follower.verdict, Verdict::kWarning);
  EXPECT_THAT(follower.found, HasSubstr("follows a primary"));
  EXPECT_THAT(follower.remedy, HasSubstr("kvctl --server=tcp://host:1 promote"));
  facts.metrics = {{"replication_role", 2}, {"followers", 1}, {"followers_away", 2}};
  const Check waiting = JudgedServer(facts, "writes");
  EXPECT_EQ(waiting.verdict, Verdict::kProblem);
  EXPECT_THAT(waiting.found, AllOf(HasSubstr("waits for its followers"), HasSubstr("are away: 2")));
  EXPECT_THAT(waiting.found, Not(HasSubstr("a follower is away"))) << "it says this once";
  EXPECT_EQ(waiting.value, 2u);
  EXPECT_THAT(waiting.remedy, HasSubstr("if one of them was promoted, stop this server"));
  facts.metrics["replication_role"] = 3;
  const Check primary = JudgedServer(facts, "writes");
  EXPECT_EQ(primary.verdict, Verdict::kProblem);
  EXPECT_THAT(primary.found, AllOf(HasSubstr("a follower is away"), HasSubstr("are away: 2")));
  EXPECT_THAT(primary.remedy, HasSubstr("without their --replicate_to"));
  facts.metrics["followers_away"] = 0;
  EXPECT_EQ(JudgedServer(facts, "writes").verdict, Verdict::kOk);
}

TEST(Doctor, ACallThatTakesTooLongIsLeftAlone) {
  is_call_left = false;  // of an earlier repetition
  EXPECT_EQ(Within<int>(std::chrono::minutes(10), [] { return 5; }), 5);
  EXPECT_FALSE(is_call_left);
  const auto never = [] {
    std::this_thread::sleep_for(std::chrono::hours(1));
    return 5;
  };
  EXPECT_EQ(Within<int>(std::chrono::milliseconds(1), never), std::nullopt);
  EXPECT_TRUE(is_call_left);
}

TEST(Doctor, Output) {
  Checks checks = {PassedCheck("good", "a \xff")};
  EXPECT_FALSE(HasProblem(checks));
  checks.push_back(PassedCheck("bad", "1 of 2"));
  checks[1].verdict = Verdict::kWarning;
  checks[1].remedy = "do it";
  EXPECT_FALSE(HasProblem(checks));
  checks[1].verdict = Verdict::kProblem;
  checks[1].value = 1;
  checks[1].limit = 2;
  EXPECT_TRUE(HasProblem(checks));
  checks[0].value = UINT64_MAX;
  EXPECT_EQ(ToText(checks),
            "ok       good: a \xff\nproblem  bad: 1 of 2; do it\n2 checks, 0 warnings, 1 problem\n");
  const std::string text = ToJson(checks, "1.2.3");
  EXPECT_EQ(text.back(), '\n');
  const json::Value all(json_loads(text.c_str(), 0, nullptr));
  ASSERT_NE(all, nullptr) << text;
  EXPECT_EQ(json_integer_value(json_object_get(all.get(), "problems")), 1);
  EXPECT_EQ(json_object_get(json_array_get(json_object_get(all.get(), "checks"), 0), "value"), nullptr);
  const json_t* const bad = json_array_get(json_object_get(all.get(), "checks"), 1);
  EXPECT_STREQ(json_string_value(json_object_get(bad, "verdict")), "problem");
  EXPECT_EQ(json_integer_value(json_object_get(bad, "limit")), 2);
  EXPECT_STREQ(json_string_value(json_object_get(bad, "remedy")), "do it");
}

TEST(Doctor, BytesHaveTheirUnit) {
  EXPECT_EQ(BytesText(1023), "1023 bytes");
  EXPECT_EQ(BytesText(1024), "1.0 KiB");
  EXPECT_EQ(BytesText(kMebi * 3 / 2), "1.5 MiB");
  EXPECT_EQ(BytesText(UINT64_MAX), "16777216.0 TiB");
}

}  // namespace
}  // namespace remora::doctor
