// How long the tests of transports wait.
#pragma once

#include <chrono>

namespace remora::rdma {

/// Longest time that anything may take before it counts as failed; never the time that something
/// takes.
constexpr std::chrono::seconds kPatience(60);

}  // namespace remora::rdma
