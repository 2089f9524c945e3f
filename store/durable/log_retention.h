// How much of a log is kept for change feeds that are behind, once nothing else needs it.
#pragma once

#include <chrono>
#include <cstdint>

namespace remora {

/// Keeps at least so many bytes of the latest log, and all that was written within this time.
struct LogRetention {
  std::uint64_t bytes = 0;
  std::chrono::seconds time{0};
};

}  // namespace remora
