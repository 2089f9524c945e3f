#include "bench/kvbench/load/interruption.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "store/base/check.h"

namespace remora::bench {
namespace {

// `timeout` sends one signal to its child, and to its group.
constexpr std::int64_t kOneSenderMs = 200;
// Longest time that a call of an interrupted run waits for a server that does not answer.
constexpr std::int64_t kLastWaitMs = 1000;

// For the handler.
std::atomic<std::atomic<bool>*> stop_flag = nullptr;
std::atomic<int> first_signal = 0;
std::atomic<std::int64_t> first_ms = 0;  // 0: none came
// When a call first asked whether it shall end, and it shall; 0: none did.
std::atomic<std::int64_t> asked_ms = 0;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free &&
              std::atomic<std::atomic<bool>*>::is_always_lock_free);

std::int64_t NowMs() {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000 + 1;
}

void Hear(int number) {
  const std::int64_t now = NowMs();
  std::int64_t none = 0;
  if (!first_ms.compare_exchange_strong(none, now)) {
    if (now - none >= kOneSenderMs) ::_exit(128 + number);
    return;
  }
  first_signal = number;
  stop_flag.load()->store(true);
}

}  // namespace

Interruption::Interruption(std::atomic<bool>& stop) {
  first_signal = 0;
  first_ms = 0;
  asked_ms = 0;
  REMORA_CHECK(stop_flag.exchange(&stop) == nullptr);
  struct sigaction action = {};
  action.sa_handler = Hear;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    REMORA_CHECK(::sigaction(kSignals[i], nullptr, &old_[i]) == 0);
    const bool stays = kSignals[i] == SIGHUP && old_[i].sa_handler == SIG_IGN;
    if (!stays) REMORA_CHECK(::sigaction(kSignals[i], &action, nullptr) == 0);
  }
}

Interruption::~Interruption() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &old_[i], nullptr);
  stop_flag = nullptr;
}

int Interruption::signal() const { return first_signal; }

bool BenchClock::IsInterrupted() const {
  const std::atomic<bool>* const stop = stop_flag.load(std::memory_order_relaxed);
  if (stop == nullptr || !stop->load(std::memory_order_relaxed)) return false;
  const std::int64_t now = NowMs();
  std::int64_t asked = 0;
  return !asked_ms.compare_exchange_strong(asked, now) && now - asked >= kLastWaitMs;
}

Duration BenchClock::LongestSleep() const { return std::chrono::milliseconds(100); }

void LeaveSignalsToParent(std::atomic<bool>& stop) {
  for (const int number : Interruption::kSignals) ::signal(number, SIG_IGN);
  stop_flag = &stop;
}

void BlockSignals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

}  // namespace remora::bench
