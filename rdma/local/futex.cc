#include "rdma/local/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>

#include "store/base/check.h"

namespace remora::rdma {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

bool FutexWait(const std::atomic<std::uint32_t>& word, std::uint32_t seen, Duration longest) {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(longest).count();
  const timespec timeout = {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  return syscall(SYS_futex, &word, FUTEX_WAIT, seen, &timeout, nullptr, 0) == 0 || errno != ETIMEDOUT;
}

bool HasFutexWaitAny() {
  // Without words the call is a wrong one, which a system that has it says.
  return syscall(SYS_futex_waitv, nullptr, 0, 0, nullptr, 0) < 0 && errno == EINVAL;
}

bool FutexWaitAny(std::span<const SeenWord> words, Duration longest) {
  // The call for one word costs less.
  if (words.size() == 1) return FutexWait(*words[0].word, words[0].seen, longest);
  REMORA_CHECK(words.size() <= kMaxFutexWords);
  std::array<futex_waitv, kMaxFutexWords> waits;
  for (std::size_t i = 0; i < words.size(); ++i) {
    waits[i] = {.val = words[i].seen,
                .uaddr = reinterpret_cast<std::uintptr_t>(words[i].word),
                .flags = FUTEX_32,
                .__reserved = 0};
  }
  timespec until = {};
  clock_gettime(CLOCK_MONOTONIC, &until);
  const auto ns = until.tv_nsec + std::chrono::duration_cast<std::chrono::nanoseconds>(longest).count();
  until = {.tv_sec = until.tv_sec + ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  return syscall(SYS_futex_waitv, waits.data(), words.size(), 0, &until, CLOCK_MONOTONIC) >= 0 ||
         errno != ETIMEDOUT;
}

void FutexWake(const std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void FutexNotify(std::atomic<std::uint32_t>& word) {
  word.fetch_add(1, std::memory_order_release);
  FutexWake(word);
}

}  // namespace remora::rdma
