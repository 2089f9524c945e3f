#include "client/session/fork_guard.h"

#include <pthread.h>

namespace remora {

std::uint64_t Forks::count_ = 0;
const int Forks::registered_ = pthread_atfork(nullptr, nullptr, [] { ++count_; });

}  // namespace remora
