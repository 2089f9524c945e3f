#include "server/loop_handover.h"

namespace remora {

void LoopHandover::Give(Loop& loop) {
  loop_ = &loop;
  state_.store(State::kFree, std::memory_order_release);
}

void LoopHandover::TakeBack() {
  State seen = State::kFree;
  while (!state_.compare_exchange_weak(seen, State::kOwned, std::memory_order_acquire)) {
    if (seen == State::kServing) state_.wait(State::kServing, std::memory_order_relaxed);
    seen = State::kFree;
  }
}

bool LoopHandover::TryServe(rdma::Listener& listener) {
  State seen = State::kFree;
  if (!state_.compare_exchange_strong(seen, State::kServing, std::memory_order_acquire)) return false;
  loop_->ServeForSleeper(listener);
  state_.store(State::kFree, std::memory_order_release);
  state_.notify_one();
  return true;
}

}  // namespace remora
