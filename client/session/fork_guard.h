// Whether this process is still the one in which something was made: a forked child has a copy of a client,
// and shares with its parent what the copy stands for.
#pragma once

#include <cstdint>

namespace remora {

/// Grows in each child of fork(2); the same as long as it is one process. One load.
class Forks {
 public:
  static std::uint64_t Count() { return count_; }

 private:
  static std::uint64_t count_;  // written in a child before it has a second thread
  [[maybe_unused]] static const int registered_;
};

inline constexpr const char* kForked =
    "the client was connected before a fork, and is the parent's: connect anew in the child";

}  // namespace remora
