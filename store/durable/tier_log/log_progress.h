// How far RocksDB is behind the commit log.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace remora {

struct LogProgress {
  std::uint64_t unapplied_bytes = 0;    // of the log, that RocksDB does not have
  std::uint64_t unpersisted_bytes = 0;  // of the log, that tables do not have
  /// All groups that are older are applied. 0: all groups are.
  std::chrono::nanoseconds lag{0};
  std::uint64_t slowed = 0;  // times that a writer slept (C10 of tier_log.h)
  std::chrono::nanoseconds slowed_for{0};
  /// Time of the applier's write to RocksDB, if one has just ended.
  std::optional<std::chrono::nanoseconds> write_time;
};

}  // namespace remora
