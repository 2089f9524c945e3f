#include "bench/kvbench/interruption.h"

#include <pthread.h>

#include "store/base/check.h"

namespace remora::bench {
namespace {

// For the handler.
std::atomic<std::atomic<bool>*> stop_flag = nullptr;
std::atomic<int> first_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::atomic<bool>*>::is_always_lock_free);

void Hear(int number) {
  int none = 0;
  first_signal.compare_exchange_strong(none, number);
  stop_flag.load()->store(true);
}

}  // namespace

Interruption::Interruption(std::atomic<bool>& stop) {
  first_signal = 0;
  REMORA_CHECK(stop_flag.exchange(&stop) == nullptr);
  struct sigaction action = {};
  action.sa_handler = Hear;
  action.sa_flags = SA_RESTART;
  REMORA_CHECK(::sigaction(SIGINT, &action, &old_int_) == 0);
  REMORA_CHECK(::sigaction(SIGTERM, &action, &old_term_) == 0);
}

Interruption::~Interruption() {
  ::sigaction(SIGINT, &old_int_, nullptr);
  ::sigaction(SIGTERM, &old_term_, nullptr);
  stop_flag = nullptr;
}

int Interruption::signal() const { return first_signal; }

void BlockSignals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

}  // namespace remora::bench
