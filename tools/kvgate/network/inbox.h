// Work that other threads hand to a thread with an event loop.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "store/base/mutex.h"

namespace remora::kvgate {

/// A queue of functions, with a descriptor that wakes their thread.
///
/// Thread safety: any thread may call Post; the owner alone calls the rest.
class Inbox {
 public:
  /// ResourceExhausted: there is no descriptor.
  static absl::StatusOr<std::unique_ptr<Inbox>> Make();
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  /// Adds work, and makes fd() readable.
  void Post(std::function<void()> work);
  /// Does all work that was posted. Returns whether there was any.
  bool Drain();
  int fd() const { return fd_; }

 private:
  explicit Inbox(int fd) : fd_(fd) {}

  const int fd_;
  Mutex mutex_;
  std::vector<std::function<void()>> work_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remora::kvgate
