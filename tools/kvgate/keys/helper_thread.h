// A thread for calls that wait for the server, so that no connection waits with them.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "store/base/mutex.h"

namespace remora::kvgate {

/// Runs jobs one after the other in a thread of its own. The destructor waits for all that were posted.
///
/// Thread safety: any thread may call Post.
class HelperThread {
 public:
  /// ResourceExhausted: the system does not start a thread.
  static absl::StatusOr<std::unique_ptr<HelperThread>> Start();
  ~HelperThread();
  HelperThread(const HelperThread&) = delete;
  HelperThread& operator=(const HelperThread&) = delete;

  void Post(std::function<void()> job);

 private:
  HelperThread() = default;
  void Run();

  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace remora::kvgate
