#include "rdma/local/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>

namespace remora::rdma {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

bool FutexWait(const std::atomic<std::uint32_t>& word, std::uint32_t seen, Duration longest) {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(longest).count();
  const timespec timeout = {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  return syscall(SYS_futex, &word, FUTEX_WAIT, seen, &timeout, nullptr, 0) == 0 || errno != ETIMEDOUT;
}

void FutexWake(const std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace remora::rdma
