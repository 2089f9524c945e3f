// The obstacles that keep a server from being ready, as its metrics show them. /readyz, `kvctl doctor` and
// `kvctl top` have this one rule.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "store/format/memory/metric_registry.h"

namespace remora {

/// A reason why a server is not ready.
struct Obstacle {
  enum class Kind : std::uint8_t { kLoading = 1, kFollows, kWaits, kFollowerAway, kDisk, kMemory };
  Kind kind;
  Metric metric;
  std::uint64_t value;  // of the metric, if there is the obstacle; 0: any other than 0
  std::string_view text;
};

/// All obstacles. A server that has several of them reports the first.
inline constexpr std::array<Obstacle, 6> kObstacles = {{
    {Obstacle::Kind::kLoading, Metric::kLoading, 0, "the store is loading its keys"},
    {Obstacle::Kind::kFollows, Metric::kReplicationRole, 1,
     "the server follows a primary, and serves no clients"},
    {Obstacle::Kind::kWaits, Metric::kReplicationRole, 2,
     "the server waits for its followers before it serves clients; the log has their names"},
    {Obstacle::Kind::kFollowerAway, Metric::kFollowersAway, 0,
     "a follower is away, for which writes wait; the log has its name"},
    {Obstacle::Kind::kDisk, Metric::kDiskRejects, 0, "the disk takes no writes; the log has the reason"},
    {Obstacle::Kind::kMemory, Metric::kMemoryRejects, 0,
     "the system gives the server no memory, which then rejects writes; the log has the limits"},
}};

/// Returns whether a server has the obstacle whose metric has this value.
constexpr bool IsThere(const Obstacle& obstacle, std::uint64_t value) {
  return obstacle.value == 0 ? value != 0 : value == obstacle.value;
}

}  // namespace remora
