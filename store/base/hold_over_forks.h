// Mutexes of a process that forks.
#pragma once

#include <pthread.h>

#include <optional>

#include "store/base/mutex.h"

namespace remora {

/// Has each thread that forks hold `mutex` meanwhile, from now on. So the child gets it unlocked, and what it
/// guards whole, whatever other threads of the parent did. Call it before there are threads, and once.
/// Returns 0, or as pthread_atfork(3).
template <Mutex& mutex>
int HoldOverForks() {
  static std::optional<MutexLock> held;
  return pthread_atfork([] { held.emplace(mutex); }, [] { held.reset(); }, [] { held.reset(); });
}

}  // namespace remora
