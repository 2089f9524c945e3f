// The memory that this machine has, and that this process's control group lets it have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace remora {

/// Memory of the system, in bytes. A value that the system does not tell counts as no limit.
struct SystemMemory {
  std::uint64_t most = UINT64_MAX;       // that it can ever have, swap aside
  std::string whose = "this machine";    // which of the two has no more
  std::uint64_t available = UINT64_MAX;  // of the machine's, right now
};

/// Reads /proc/meminfo, and memory.max or memory.limit_in_bytes of the control group and of those
/// above it. `root`: where these files are, for tests.
SystemMemory ReadSystemMemory(const std::string& root = "");

/// For a server that was not told: 256 MiB, or half of what there is.
std::size_t DefaultMemory(const SystemMemory& system);

/// ResourceExhausted: there is never so much (says the numbers, and what to do).
absl::Status CheckMemory(std::size_t memory, const SystemMemory& system);

}  // namespace remora
