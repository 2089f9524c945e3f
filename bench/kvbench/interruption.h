// SIGINT, SIGTERM and SIGHUP end the phase that runs, and the bench reports its results so far. A second one
// ends the process at once.
#pragma once

#include <signal.h>

#include <array>
#include <atomic>

namespace remora::bench {

/// While it lives, the first of the signals sets `stop`, and ends nothing. Another one ends the process with
/// the exit status 128 and its number, unless it comes so soon that one sender may have sent both. A SIGHUP
/// that is ignored (nohup) stays so. Before there is one, signals do what they do by default, since nothing
/// would be lost. One at a time.
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
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> old_ = {};
};

/// For a process that another one ends: leaves these signals to that one, which a terminal sends to both.
void LeaveSignalsToParent();

/// Leaves signals to the other threads, so that none of this one's calls is disturbed.
void BlockSignals();

}  // namespace remora::bench
