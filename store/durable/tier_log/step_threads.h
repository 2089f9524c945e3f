// The two threads of a tier's log: one applies it to RocksDB, the other persists what is applied.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "store/base/mutex.h"

namespace remora {

/// Runs steps in threads. The applier's thread makes a round each time it is woken, and each 100 ms; the
/// persister's thread does so only when it is woken.
///
/// Thread safety: any thread may call Wake, at any time. One thread calls Start, once at most.
class StepThreads {
 public:
  enum class Step : std::uint8_t { kApply = 0, kPersist = 1 };

  StepThreads() = default;
  /// Waits for the rounds that have begun, and ends the threads.
  ~StepThreads();
  StepThreads(const StepThreads&) = delete;
  StepThreads& operator=(const StepThreads&) = delete;

  /// Starts the threads, which call `apply` and `persist` for a round.
  ///
  /// - ResourceExhausted: the system does not start a thread.
  absl::Status Start(std::function<void()> apply, std::function<void()> persist);
  /// Has the thread of the step make a round, if there is one.
  void Wake(Step step);

 private:
  /// Waits until the next round of the step. Returns false at the end.
  bool WaitFor(Step step);

  Mutex mutex_;
  std::condition_variable wanted_changed_;
  std::array<bool, 2> wanted_ ABSL_GUARDED_BY(mutex_) = {};  // by Step
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread applier_;
  std::thread persister_;
};

}  // namespace remora
