// Detects a forked child. It has a copy of each client of its parent, and shares with the parent the
// connection behind the copy.
#pragma once

#include <cstdint>

namespace remora {

/// Count of the forks that led to this process: it is constant in one process, and increases in each child of
/// fork(2). Reading it costs one load.
class Forks {
 public:
  static std::uint64_t Count() { return count_; }

 private:
  static std::uint64_t count_;  // written in a child before it has a second thread
  [[maybe_unused]] static const int registered_;
};

inline constexpr const char* kUsedAfterFork =
    "a client that was connected before a fork belongs to the parent; connect a new one in the child";

}  // namespace remora
