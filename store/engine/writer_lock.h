// The right to change a store, as clang's thread-safety analysis knows it.
//
// All parts of a store (write/, read/, reclaim/, recovery/) change under one lock, StoreCore::mutex. The
// analysis cannot tell that two parts have the same core_. So it follows a role instead of the lock: a thread
// that holds a WriterLock is the writer. The analysis does not distinguish the writers of several stores, but
// no part knows more than one store.
#pragma once

#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "store/base/clock.h"

namespace remora {

class ABSL_LOCKABLE WriterRole {};
inline constexpr WriterRole kWriter;

/// Annotation after the declaration of a function: only the writer may call it.
#define REMORA_WRITER ABSL_EXCLUSIVE_LOCKS_REQUIRED(::remora::kWriter)
/// Annotation after the name of a field: only the writer may use it.
#define REMORA_WRITERS ABSL_GUARDED_BY(::remora::kWriter)

/// Makes its thread the writer while it exists, except between Unlock and Lock.
class ABSL_SCOPED_LOCKABLE WriterLock {
 public:
  explicit WriterLock(std::mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(kWriter) : lock_(mutex) {}
  ~WriterLock() ABSL_UNLOCK_FUNCTION() {}
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

  void Unlock() ABSL_UNLOCK_FUNCTION() { lock_.unlock(); }
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { lock_.lock(); }

  /// Releases the lock until `wanted` is notified, or, spuriously, before; then takes it again.
  void Wait(std::condition_variable& wanted) { wanted.wait(lock_); }
  /// Waits as Wait does, but not beyond `until`. Returns false after `until`.
  bool WaitUntil(std::condition_variable& wanted, TimePoint until) {
    return wanted.wait_until(lock_, until) == std::cv_status::no_timeout;
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace remora
