#include "server/request/rate_limiter.h"

#include <algorithm>
#include <utility>

#include "server/request/request_decoder.h"

namespace remora {

bool RateLimiter::Delays(const PendingRequest& pending) {
  TokenUse& use = *pending.session->token_use();
  const auto waiting = delayed_.find(&use);
  if (waiting == delayed_.end() && use.TakeRequest(store_.clock().Now(), CountOf(pending.request))) {
    return false;
  }
  delayed_[&use].push_back(pending);
  store_.Add(Metric::kRequestsDelayed, 1);
  return true;
}

std::span<const PendingRequest> RateLimiter::TakeDue(std::size_t count) {
  const TimePoint now = store_.clock().Now();
  due_.clear();
  for (auto& [use, waiting] : delayed_) {
    while (!waiting.empty() && due_.size() < count &&
           use->TakeRequest(now, CountOf(waiting.front().request))) {
      due_.push_back(std::move(waiting.front()));
      waiting.pop_front();
    }
  }
  absl::erase_if(delayed_, [](const auto& entry) { return entry.second.empty(); });
  return due_;
}

std::optional<TimePoint> RateLimiter::next_turn() const {
  std::optional<TimePoint> next;
  for (const auto& [use, waiting] : delayed_) {
    next = next ? std::min(*next, use->MayTakeAt()) : use->MayTakeAt();
  }
  return next;
}

void RateLimiter::Forget(ClientSession& session) {
  for (PendingRequest& pending : due_) pending.Forget(session);
  const auto waiting = delayed_.find(session.token_use());
  if (waiting == delayed_.end()) return;
  std::erase_if(waiting->second, [&](const PendingRequest& pending) { return pending.session == &session; });
  if (waiting->second.empty()) delayed_.erase(waiting);
}

}  // namespace remora
