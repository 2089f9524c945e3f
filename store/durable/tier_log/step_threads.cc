#include "store/durable/tier_log/step_threads.h"

#include <chrono>
#include <cstddef>
#include <utility>

#include "store/base/start_thread.h"
#include "store/base/status_macros.h"

namespace remora {
namespace {

// Pause between two rounds of the applier. If it hurries, a longer pause merges more versions of a key; a
// shorter one leaves less work to a caller that waits for it.
constexpr std::chrono::milliseconds kApplyPause{100};

}  // namespace

StepThreads::~StepThreads() {
  {
    const MutexLock lock(mutex_);
    stops_ = true;
  }
  wanted_changed_.notify_all();
  if (applier_.joinable()) applier_.join();
  if (persister_.joinable()) persister_.join();
}

absl::Status StepThreads::Start(std::function<void()> apply, std::function<void()> persist) {
  const auto start = [this](Step step, std::function<void()> round) {
    return StartThread([this, step, round = std::move(round)] {
      return std::thread([this, step, round] {
        while (WaitFor(step)) round();
      });
    });
  };
  REMORA_ASSIGN_OR_RETURN(applier_, start(Step::kApply, std::move(apply)));
  REMORA_ASSIGN_OR_RETURN(persister_, start(Step::kPersist, std::move(persist)));
  return absl::OkStatus();
}

void StepThreads::Wake(Step step) {
  {
    const MutexLock lock(mutex_);
    wanted_[static_cast<std::size_t>(step)] = true;
  }
  wanted_changed_.notify_all();
}

bool StepThreads::WaitFor(Step step) {
  MutexLock lock(mutex_);
  bool& wanted = wanted_[static_cast<std::size_t>(step)];
  const auto until = std::chrono::steady_clock::now() + kApplyPause;
  while (!wanted && !stops_) {
    if (step == Step::kPersist) {
      lock.Wait(wanted_changed_);
    } else if (!lock.WaitUntil(wanted_changed_, until)) {
      break;
    }
  }
  wanted = false;
  return !stops_;
}

}  // namespace remora
