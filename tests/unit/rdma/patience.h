// How long the tests of transports wait.
#pragma once

#include <chrono>

namespace remora::rdma {

/// How long anything may take before it counts as failed; never how long something takes.
constexpr std::chrono::seconds kPatience(60);

}  // namespace remora::rdma
