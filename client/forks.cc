#include "client/forks.h"

#include <pthread.h>

namespace remora {
namespace {

// Written in a child before it has a second thread.
std::uint64_t count = 0;

[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { ++count; });

}  // namespace

std::uint64_t Forks::Count() { return count; }

}  // namespace remora
