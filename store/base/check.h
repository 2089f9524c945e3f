// REMORA_CHECK: for faults that only a bug can cause. Crashing is better than publishing bad
// memory. Faults that a peer, a disk, a network or a caller can cause are an absl::Status instead.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace remora {

[[noreturn]] inline void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace remora

#define REMORA_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::remora::CheckFailed(#condition, __FILE__, __LINE__))
