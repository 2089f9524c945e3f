// Flags by which other threads, and signal handlers, tell the server thread of something, and the
// descriptors that wake it.
#pragma once

#include <poll.h>

#include <atomic>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

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
  /// Sleeps until one of `fds` or of this is readable, or the time is over (as poll(2)). Returns false if it
  /// is over. A signal that came since the last call ends it at once. Appends its own descriptors to `fds`.
  bool Sleep(std::vector<pollfd>& fds, int timeout_ms);

 private:
  WakeSignals() = default;

  std::atomic<bool> stop_ = false;
  std::atomic<bool> synced_ = false;  // outcomes have come
  std::atomic<bool> reload_ = false;
  int stop_fd_ = -1;  // an eventfd, readable once Stop was called
  int wake_fd_ = -1;  // another one, since one of the two others was set last or Wake was called, until Sleep
                      // has returned
};

}  // namespace remora
