// A mutex with annotations for clang's thread-safety analysis. The standard library's mutex has none.
#pragma once

#include <mutex>

#include "absl/base/thread_annotations.h"

namespace remora {

class ABSL_LOCKABLE LogMutex {
 public:
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// Locks a LogMutex for its own lifetime.
class ABSL_SCOPED_LOCKABLE LogMutexLock {
 public:
  explicit LogMutexLock(LogMutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_->lock();
  }
  ~LogMutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->unlock(); }
  LogMutexLock(const LogMutexLock&) = delete;
  LogMutexLock& operator=(const LogMutexLock&) = delete;

 private:
  LogMutex* const mutex_;
};

}  // namespace remora
