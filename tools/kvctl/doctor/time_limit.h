// A call that may wait for ever, as one on a network's file system whose server is gone.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "store/base/mutex.h"
#include "store/base/start_thread.h"

namespace remora::doctor {

/// True once a call was left alone. Then the process ends by _Exit: a destructor might wait for that call.
inline std::atomic<bool> is_call_left{false};

/// Returns what `call` returns, or nothing if it takes longer than `limit`, or no thread can be started. A
/// call that takes longer goes on: it must own what it uses. The end of the process ends it.
template <typename Result>
std::optional<Result> Within(std::chrono::milliseconds limit, std::function<Result()> call) {
  struct State {
    Mutex mutex;
    std::condition_variable changed;
    std::optional<Result> result ABSL_GUARDED_BY(mutex);
  };
  const auto state = std::make_shared<State>();
  auto thread = StartThread([&] {
    return std::thread([state, call = std::move(call)] {
      Result result = call();
      const MutexLock lock(state->mutex);
      state->result = std::move(result);
      state->changed.notify_all();
    });
  });
  if (!thread.ok()) return std::nullopt;
  thread->detach();
  MutexLock lock(state->mutex);
  const TimePoint until = std::chrono::steady_clock::now() + limit;
  while (!state->result.has_value() && lock.WaitUntil(state->changed, until)) {
  }
  if (!state->result.has_value()) is_call_left = true;
  return std::move(state->result);
}

}  // namespace remora::doctor
