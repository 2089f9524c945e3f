#include "rdma/adaptive_poll.h"

#include <cstddef>
#include <thread>

#include "store/base/status_macros.h"

namespace remora::rdma {

bool AreMoreThanCpus(std::size_t threads) {
  static const std::size_t cpus = std::thread::hardware_concurrency();
  return cpus != 0 && threads > cpus;
}

void AdaptivePoller::Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void AdaptivePoller::PauseOrYield(int poll) {
  constexpr int kPollsPerYield = 64;
  if (poll % kPollsPerYield == kPollsPerYield - 1) {
    std::this_thread::yield();
  } else {
    Pause();
  }
}

absl::StatusOr<std::size_t> PollUntil(ClientConnection& connection, std::span<Completion> out,
                                      TimePoint deadline, AdaptivePoller& spinner) {
  std::size_t count = 0;
  const auto look = [&] {
    count = connection.Poll(out);
    return count > 0;
  };
  if (spinner.Spin(look, connection.PollingPays(), connection.PollCost())) return count;
  do {
    REMORA_RETURN_IF_ERROR(connection.Wait(deadline));
  } while (!look());
  return count;
}

}  // namespace remora::rdma
