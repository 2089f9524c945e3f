// Ends the process for what a program must never do with a client: its calls have no status to tell it by.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace remora {

/// Says what the program did, and what to do instead.
[[noreturn, gnu::noinline, gnu::cold]] inline void EndOnMisuse(const char* what) {
  std::fprintf(stderr, "remora: %s\n", what);
  std::abort();
}

}  // namespace remora
