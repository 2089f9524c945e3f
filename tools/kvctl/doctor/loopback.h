// Requests of an RDMA device to itself: READs, WRITEs and SENDs between two of its queue pairs.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tools/kvctl/doctor/check.h"

namespace remora::doctor {

/// Size of each request.
inline constexpr unsigned kLoopbackBytes = 64;

/// Requests of one kind, one after the other.
struct LoopbackTimes {
  std::string kind;       // read, write, send
  std::size_t count = 0;  // of requests; 0: none was completed
  double median_us = 0;
  double p99_us = 0;
};

struct LoopbackFacts {
  std::string device;                   // empty: there is none of that name, or none with an active port
  unsigned port = 1;                    // of the device
  std::optional<unsigned> gid_index{};  // of the port, on Ethernet
  std::string failure;                  // the step that failed, and its reason; empty: none
  std::vector<LoopbackTimes> times;
};

/// Runs at most a thousand requests of each kind, for some seconds at most. `device`: empty: the first one
/// with an active port. May wait for the device's driver. Registers a page, and leaves nothing behind.
LoopbackFacts RunLoopback(const std::string& device);

/// Adds rdma.DEVICE.loopback_read, _write and _send, or rdma_loopback if nothing can be tried. `facts`:
/// nothing if the driver did not answer. `asked`: the name that the user gave.
void JudgeLoopback(const std::optional<LoopbackFacts>& facts, const std::string& asked, Checks* checks);

}  // namespace remora::doctor
