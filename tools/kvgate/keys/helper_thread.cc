#include "tools/kvgate/keys/helper_thread.h"

#include <utility>

#include "store/base/start_thread.h"
#include "store/base/status_macros.h"

namespace remora::kvgate {

absl::StatusOr<std::unique_ptr<HelperThread>> HelperThread::Start() {
  std::unique_ptr<HelperThread> helper(new HelperThread());
  REMORA_ASSIGN_OR_RETURN(helper->thread_,
                          StartThread([&helper] { return std::thread(&HelperThread::Run, helper.get()); }));
  return helper;
}

HelperThread::~HelperThread() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void HelperThread::Post(std::function<void()> job) {
  {
    const MutexLock lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

void HelperThread::Run() {
  for (;;) {
    std::function<void()> job;
    {
      MutexLock lock(mutex_);
      while (!stopping_ && jobs_.empty()) lock.Wait(changed_);
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace remora::kvgate
