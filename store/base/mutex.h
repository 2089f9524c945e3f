// A mutex with annotations for clang's thread-safety analysis. The standard library's has none.
#pragma once

#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "store/base/clock.h"

namespace remora {

/// A std::mutex that MutexLock alone locks. Not recursive.
class ABSL_LOCKABLE Mutex {
 private:
  friend class MutexLock;
  std::mutex mutex_;
};

/// Holds a mutex while it exists, except between Unlock and Lock.
///
/// Thread safety: none; the thread that made it.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  /// Waits for the mutex and locks it. It must outlive this object.
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() ABSL_UNLOCK_FUNCTION() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  /// Releases the mutex. REQUIRES: this object holds it; for Lock, it does not.
  void Unlock() ABSL_UNLOCK_FUNCTION() { lock_.unlock(); }
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { lock_.lock(); }

  /// Releases the mutex until `wanted` is notified, or, spuriously, before; then takes it again.
  void Wait(std::condition_variable& wanted) { wanted.wait(lock_); }
  /// Waits as Wait does, but not beyond `until`. Returns false after `until`.
  bool WaitUntil(std::condition_variable& wanted, TimePoint until) {
    return wanted.wait_until(lock_, until) == std::cv_status::no_timeout;
  }
  /// Waits as Wait does, but no longer than `timeout`.
  void WaitFor(std::condition_variable& wanted, Duration timeout) { wanted.wait_for(lock_, timeout); }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace remora
