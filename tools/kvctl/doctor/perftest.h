// perftest's latencies of an RDMA device, beside those of loopback.h: the yardstick that others know.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/kvctl/doctor/check.h"
#include "tools/kvctl/doctor/loopback.h"

namespace remora::doctor {

struct PerftestTimes {
  std::string kind;     // read, write, send
  std::string program;  // ib_read_lat, ...
  double typical_us = 0;
  double p99_us = 0;
  std::string failure;  // empty: the times hold
};

struct PerftestFacts {
  bool is_installed = false;  // all three programs are on the PATH
  std::vector<PerftestTimes> times;
};

/// Runs each of ib_read_lat, ib_write_lat and ib_send_lat twice, as server and as client, on the device and
/// port of `loopback`, with as many bytes. The two exchange their queue pairs over TCP, by 127.0.0.1; the
/// server listens on all addresses for some seconds. Takes 15 s at most for each program. REQUIRES: the
/// loopback succeeded.
PerftestFacts RunPerftest(const LoopbackFacts& loopback);

/// Reads the output of one of the programs: t_typical and the 99% percentile of the row of so many bytes.
/// Returns false if there is no such row.
bool ReadPerftest(std::string_view output, unsigned bytes, PerftestTimes* times);

/// Adds rdma.DEVICE.perftest_read, _write and _send, or rdma.DEVICE.perftest if it is not installed.
/// `facts`: nothing if they were not there in time.
void JudgePerftest(const std::optional<PerftestFacts>& facts, const LoopbackFacts& loopback, Checks* checks);

}  // namespace remora::doctor
