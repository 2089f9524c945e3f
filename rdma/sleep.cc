#include "rdma/sleep.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>

#include "store/base/check.h"

namespace remora::rdma {

absl::StatusOr<bool> SleepUntilReady(std::span<pollfd> fds, const Clock& clock, TimePoint deadline) {
  if (clock.IsInterrupted()) return absl::CancelledError(kInterrupted);
  const TimePoint now = clock.Now();
  if (now >= deadline) return false;
  const Duration left = std::min(deadline - now, clock.LongestSleep());
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
  const timespec timeout = {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  const int count = ppoll(fds.data(), fds.size(), &timeout, nullptr);
  REMORA_CHECK(count >= 0 || errno == EINTR || errno == ENOMEM);
  return count != 0 || clock.Now() < deadline;
}

}  // namespace remora::rdma
