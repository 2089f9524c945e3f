// REMORA_CHECK: for faults that only a bug can cause. Crashing is better than publishing bad
// memory. Faults that a peer, a disk, a network or a caller can cause are an absl::Status instead.
#pragma once

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace remora {

/// A program's own way to write the line of a check that failed, for one whose errors have a form. Null: it
/// goes to standard error. The function allocates nothing, and may be called by any thread.
inline std::atomic<void (*)(const char* line)> check_failure_sink = nullptr;

/// Writes a line with the place and the condition of a check that failed, and aborts the process.
[[noreturn]] inline void CheckFailed(const char* condition, const char* file, int line) {
  std::array<char, 512> text;
  std::snprintf(text.data(), text.size(), "%s:%d: check failed: %s", file, line, condition);
  if (auto* const sink = check_failure_sink.load()) {
    sink(text.data());
  } else {
    std::fprintf(stderr, "%s\n", text.data());
  }
  std::abort();
}

}  // namespace remora

/// Evaluates the condition once, in every build. Ends the process with a line if it is false.
#define REMORA_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::remora::CheckFailed(#condition, __FILE__, __LINE__))
