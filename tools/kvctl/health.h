// The readiness of a server and its part in replication, by its metrics: for kvctl doctor and kvctl top.
// top.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/monitoring/readiness.h"

namespace remora {

/// Returns a server's metric by its name. 0: the server has none of that name.
using MetricValues = std::function<std::uint64_t(std::string_view name)>;

/// Returns the obstacles that a server has, in the order of kObstacles. None: it is ready, as /readyz says.
std::vector<Obstacle> ObstaclesOf(const MetricValues& values);

/// Returns "waiting primary, epoch 2, followers 1 of 2, groups pending 3"; of a follower, its groups applied.
/// Empty: the server has no part in replication.
std::string ReplicationText(const MetricValues& values);

}  // namespace remora
