// Flags by which other threads, and signal handlers, tell the server thread of something, and the
// descriptors that wake it.
#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/transport.h"
#include "store/base/clock.h"

namespace remora {

/// Wakes the server thread, and tells it why.
///
/// Thread safety: the functions that tell are for any thread and, except for the synced writes, for
/// signal handlers. All others are the server thread's.
class WakeSignals {
 public:
  /// Errors as eventfd(2).
  static absl::StatusOr<std::unique_ptr<WakeSignals>> Create();
  ~WakeSignals();
  WakeSignals(const WakeSignals&) = delete;
  WakeSignals& operator=(const WakeSignals&) = delete;

  // --- Any thread

  /// Tells the server thread to end. This may be destroyed as soon as stopped() was true.
  void Stop();
  /// Tells it to read the auth tokens anew.
  void RequestReload();
  /// Tells it that the outcomes of synced writes have come.
  void ReportSynced();
  /// Wakes it: it has work that it finds by itself.
  void Wake();

  // --- The server thread

  bool stopped() const { return stop_.load(std::memory_order_acquire); }
  /// Returns true once for each RequestReload, or for several.
  bool TakeReload() { return reload_.exchange(false, std::memory_order_acquire); }
  bool has_synced() const { return synced_.load(std::memory_order_relaxed); }
  /// Returns true once for each ReportSynced, or for several.
  bool TakeSynced() {
    // A load costs less than an exchange, and mostly it is enough.
    return has_synced() && synced_.exchange(false, std::memory_order_acquire);
  }
  /// Returns how often it was told of something. It may wrap around.
  std::uint32_t news() const { return news_.load(std::memory_order_seq_cst); }
  /// Sleeps at the listener (Listener::SleepBriefly), unless it was told of something since news() was
  /// `seen`. That ends the sleep, too. Returns false if nothing came. REQUIRES: ArmBriefly of `listener` was
  /// the call before the last look for work, and news() before that look was `seen`.
  bool SleepBriefly(rdma::Listener& listener, std::uint32_t seen, Duration longest);
  /// Sleeps until one of `fds` or of this is readable, or the time is over (as poll(2)). Returns false if it
  /// is over. A signal that came since the last call ends it at once. Appends its own descriptors to `fds`.
  bool Sleep(std::vector<pollfd>& fds, int timeout_ms);

 private:
  WakeSignals() = default;

  /// Wakes the server thread from either sleep, or keeps it from falling asleep.
  void Signal(int fd);

  std::atomic<bool> stop_ = false;
  std::atomic<bool> synced_ = false;  // outcomes have come
  std::atomic<bool> reload_ = false;
  // Signal counts, then looks at the word. The sleeper stores the word, then looks at the count. All are
  // seq_cst, so one of them sees what the other has done.
  std::atomic<std::uint32_t> news_ = 0;
  std::atomic<std::atomic<std::uint32_t>*> brief_word_ =
      nullptr;                                // of the listener at which the thread sleeps
  std::atomic<std::uint32_t> notifiers_ = 0;  // threads that may be using that word
  int stop_fd_ = -1;                          // an eventfd, readable once Stop was called
  int wake_fd_ = -1;  // another one, since one of the two others was set last or Wake was called, until Sleep
                      // has returned
};

}  // namespace remora
