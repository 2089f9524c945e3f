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
  std::uint64_t available = UINT64_MAX;  // right now: in use by nobody, but for files that can be read again
  std::string whose_available = "this machine";
};

/// Reads /proc/meminfo, and of the control group and those above it memory.max, memory.current and
/// memory.stat, or in version 1 memory.limit_in_bytes and memory.usage_in_bytes. `root`: where these
/// files are, for tests.
SystemMemory ReadSystemMemory(const std::string& root = "");

/// Returns StoreOptions::write_buffer_bytes: less than its default where there is less than 1 GiB.
std::size_t WriteBufferFor(const SystemMemory& system);

/// Returns the bytes that a server takes beside its memory: for the program, and with a durable tier
/// for RocksDB's buffers and cache.
std::size_t BesideMemory(const SystemMemory& system, bool is_durable);

/// Returns the memory of a server without --memory: 256 MiB, or half of what there is, or less if RocksDB
/// would not fit beside it; at least 20 MiB.
std::size_t DefaultMemory(const SystemMemory& system);

/// Returns whether so much fits now, beside the rest of the server. If not, the system may kill the server
/// once its memory fills.
bool FitsAvailable(std::size_t memory, const SystemMemory& system, bool is_durable);

/// ResourceExhausted: there is never so much (says the numbers, and what to do).
absl::Status CheckMemory(std::size_t memory, const SystemMemory& system);

/// ResourceExhausted: there is never so much for a change log beside the memory. REQUIRES: CheckMemory was
/// OK.
absl::Status CheckChangeLog(std::size_t change_log, std::size_t memory, const SystemMemory& system);

}  // namespace remora
