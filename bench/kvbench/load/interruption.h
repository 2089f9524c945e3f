// A signal that would end the process (kSignals) ends the phase that runs, and the bench reports its results
// so far. A second one ends the process at once.
#pragma once

#include <signal.h>

#include <array>
#include <atomic>

#include "store/base/clock.h"

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

  static constexpr std::array kSignals = {SIGINT,  SIGTERM, SIGHUP,    SIGXCPU, SIGUSR1,
                                          SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGPWR};

 private:
  std::array<struct sigaction, kSignals.size()> old_ = {};
};

/// Clock of the bench's clients. Once `stop` of the process's Interruption is set, a call that waits ends
/// with Cancelled, a second after the first one asks for that. So a signal is heard also where a server does
/// not answer, and calls that are answered as usual are not disturbed.
class BenchClock final : public SteadyClock {
 public:
  bool IsInterrupted() const override;
  Duration LongestSleep() const override;
};

/// For a process that another one ends: leaves these signals to that one, which a terminal sends to both.
/// `stop`, which that one sets, must outlive the process's clients.
void LeaveSignalsToParent(std::atomic<bool>& stop);

/// Leaves signals to the other threads, so that none of this one's calls is disturbed.
void BlockSignals();

}  // namespace remora::bench
