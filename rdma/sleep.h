// How a client sleeps until something comes.
#pragma once

#include <poll.h>

#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/base/clock.h"

namespace remora::rdma {

/// Sleeps until one of `fds` is ready, or for no reason: true. False: the deadline has passed. Cancelled:
/// Clock::IsInterrupted.
absl::StatusOr<bool> SleepUntilReady(std::span<pollfd> fds, const Clock& clock, TimePoint deadline);

}  // namespace remora::rdma
