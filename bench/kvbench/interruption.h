// SIGINT and SIGTERM end the phase that runs, and the bench reports its results so far.
#pragma once

#include <signal.h>

#include <atomic>

namespace remora::bench {

/// While it lives, the two signals set `stop`, in this process and in those that it forks, and end nothing.
/// One at a time.
class Interruption {
 public:
  /// `stop` must outlive this.
  explicit Interruption(std::atomic<bool>& stop);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  /// The signal that came first; 0: none.
  int signal() const;

 private:
  struct sigaction old_int_ = {};
  struct sigaction old_term_ = {};
};

/// Leaves signals to the other threads, so that none of this one's calls is disturbed.
void BlockSignals();

}  // namespace remora::bench
