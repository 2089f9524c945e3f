// Retention of log files for slow change feeds, after the store itself no longer needs the files.
#pragma once

#include <chrono>
#include <cstdint>

namespace remora {

/// Keeps at least the latest `bytes` of the log, and everything written to it within the last `time`.
struct LogRetention {
  std::uint64_t bytes = 0;
  std::chrono::seconds time{0};
};

}  // namespace remora
