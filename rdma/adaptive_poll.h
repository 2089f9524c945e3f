// Adaptive polling: how long a thread polls for an event before it sleeps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "absl/status/statusor.h"
#include "rdma/transport.h"
#include "store/base/clock.h"

namespace remora::rdma {

/// Decides in which cases an attempt is due. Each failure doubles the number of cases without one, from `min`
/// up to 1024. A success resets it.
///
/// Thread safety: none.
class Backoff {
 public:
  explicit Backoff(int min = 8) : min_(min), skips_(min) {}

  bool IsDue() {
    if (skips_left_ == 0) return true;
    --skips_left_;
    return false;
  }
  /// Notes the result of an attempt, and returns it.
  bool Note(bool succeeded) {
    skips_left_ = succeeded ? 0 : skips_;
    skips_ = succeeded ? min_ : std::min(2 * skips_, kMax);
    return succeeded;
  }

 private:
  static constexpr int kMax = 1024;

  int min_;
  int skips_left_ = 0;  // cases before the next attempt
  int skips_;           // cases without one after a failed attempt
};

/// Returns whether so many threads, which poll for each other, are more than the CPUs that this process may
/// use. Then each should yield between polls. False: the number of CPUs is not known.
bool AreMoreThanCpus(std::size_t threads);

/// Polls for an event, and learns how long polling pays. Each thread that waits repeatedly keeps
/// one.
///
/// Thread safety: none.
class AdaptivePoller {
 public:
  /// Polls, with pauses between, until `look` returns true. Returns false when it is time to sleep.
  ///
  /// The first phase takes some 20 to 50 us, about as long as falling asleep and being woken. So a wait costs
  /// at most twice as much as the better of the two. If the event did not come, the next wait is without
  /// polling, and twice as many after each further failure, up to 1024. If threads are more than CPUs,
  /// polling keeps the others from running.
  ///
  /// The second phase takes five times as long in all, the time that a list of writes may take. It
  /// fails if the thread shares its CPU with the server, or waits for a disk. Then the next 8 polling waits
  /// leave it out, and twice as many after each further failure, up to 1024.
  ///
  /// `pays` is the transport's hint whether the event can come while this thread polls (PollingPays). If not,
  /// Spin polls once. The hint may be wrong, so Spin sometimes polls through the first phase all the same.
  /// It does so after 8 such waits, and after twice as many after each failure, up to 1024.
  ///
  /// `cost` is the time of one poll, in polls of memory (PollCost). If a poll is a system call, Spin polls
  /// less often, so that its phases take the same time. And where it would poll once, it does not poll: the
  /// system call that sleeps looks first, too.
  template <typename Look>
  bool Spin(const Look& look, bool pays = true, int cost = 1) {
    return Spin(look, pays, cost, [](int) { Pause(); });
  }

  /// Polls as Spin does, and lets other threads run between polls. Use it only if AreMoreThanCpus. A program
  /// that never sleeps would take the CPU for milliseconds.
  template <typename Look>
  bool SpinAndYield(const Look& look) {
    return Spin(look, /*pays=*/true, /*cost=*/1, [](int poll) { PauseOrYield(poll); });
  }

 private:
  static constexpr int kSpins = 1000;
  static constexpr int kMoreSpins = 4000;

  template <typename Look, typename Between>
  bool Spin(const Look& look, bool pays, int cost, const Between& between) {
    const int spins = std::max(kSpins / cost, 1), more_spins = kMoreSpins / cost;
    const auto look_once = [&] { return cost == 1 && look(); };
    if (!pays) {
      return against_hint_.IsDue() ? against_hint_.Note(PollTimes(spins, look, between)) : look_once();
    }
    if (!polling_.IsDue()) return look_once();
    return polling_.Note(PollTimes(spins, look, between) ||
                         (longer_.IsDue() && longer_.Note(PollTimes(more_spins, look, between))));
  }

  /// Calls `between` behind each poll that found nothing, with the number of the poll.
  template <typename Look, typename Between>
  static bool PollTimes(int times, const Look& look, const Between& between) {
    for (int i = 0; i < times; ++i) {
      if (look()) return true;
      between(i);
    }
    return false;
  }

  /// Executes the CPU's pause instruction, which it expects between polls of one word.
  static void Pause();
  /// Yields behind one poll of 64, some microseconds, and pauses behind the others.
  static void PauseOrYield(int poll);

  Backoff polling_{1};    // of polling at all
  Backoff longer_;        // of the second phase
  Backoff against_hint_;  // of polling although the hint says that it does not pay
};

/// Polls `connection` until at least one completion comes: spins for a while, then sleeps.
/// DeadlineExceeded when none came in time. The clock is first read after the spinning.
absl::StatusOr<std::size_t> PollUntil(ClientConnection& connection, std::span<Completion> out,
                                      TimePoint deadline, AdaptivePoller& spinner);

}  // namespace remora::rdma
