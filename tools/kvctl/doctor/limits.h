// Limits of this process: locked memory, descriptors, CPUs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tools/kvctl/doctor/check.h"

namespace remora::doctor {

inline constexpr std::uint64_t kNoLimit = UINT64_MAX;

struct LimitFacts {
  std::uint64_t memlock = kNoLimit;  // RLIMIT_MEMLOCK, soft
  bool may_lock_all = false;         // CAP_IPC_LOCK: the limit does not count
  std::uint64_t descriptors = 0;     // RLIMIT_NOFILE, hard: the server raises the soft limit to it
  std::size_t open_descriptors = 3;
  unsigned cpus = 1;  // that this process may run on
};

LimitFacts ReadLimits();

/// Adds memlock, descriptors and cpus. `has_device`: this machine has an RDMA device.
void JudgeLimits(const LimitFacts& facts, const Plan& plan, bool has_device, Checks* checks);

}  // namespace remora::doctor
