// Ends the process when a program misuses a client in a way that no call could report by a status.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace remora {

/// Prints `what`, which says what the program did and what to do instead, and aborts the process.
[[noreturn, gnu::noinline, gnu::cold]] inline void EndOnMisuse(const char* what) {
  std::fprintf(stderr, "remora: %s\n", what);
  std::abort();
}

}  // namespace remora
