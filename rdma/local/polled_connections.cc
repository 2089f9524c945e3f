#include "rdma/local/polled_connections.h"

#include "rdma/local/server.h"

namespace remora::rdma {
namespace {

// Calls of Take between two searches for idle connections.
constexpr std::uint32_t kTakesPerSearch = 256;

}  // namespace

void PolledConnections::Remove(LocalServer* connection) {
  if (connection->is_parked()) --parked_;
  std::erase(polled_, connection);
}

void PolledConnections::Unpark(LocalServer* connection) {
  if (!connection->is_parked()) return;
  connection->Unpark();
  connection->set_busy_at(takes_);
  polled_.push_back(connection);
  --parked_;
}

std::size_t PolledConnections::Take(std::span<Completion> out) {
  if (++takes_ % kTakesPerSearch == 0) ParkIdle();
  if (polled_.empty()) return 0;
  first_ = (first_ + 1) % polled_.size();
  std::size_t count = 0;
  bool has_client_here = false;
  for (std::size_t i = 0; i < polled_.size() && count < out.size(); ++i) {
    const std::size_t at = first_ + i;
    LocalServer& connection = *polled_[at < polled_.size() ? at : at - polled_.size()];
    const std::size_t taken = connection.Take(out.subspan(count));
    if (taken == 0) continue;
    connection.set_busy_at(takes_);
    has_client_here |= connection.PeerIsHere();
    count += taken;
  }
  if (count > 0) has_client_here_ = has_client_here;
  return count;
}

void PolledConnections::AppendWakes(std::vector<SeenWord>& words) const {
  for (LocalServer* const connection : polled_) {
    if (!connection->CanWake()) continue;
    std::atomic<std::uint32_t>& wakes = connection->wakes();
    words.push_back({.word = &wakes, .seen = wakes.load(std::memory_order_acquire)});
  }
}

void PolledConnections::ParkIdle() {
  for (std::size_t i = 0; i < polled_.size() && polled_.size() > kAlwaysPolled;) {
    LocalServer& connection = *polled_[i];
    if (takes_ - connection.busy_at() < kIdlePolls || !connection.Park()) {
      ++i;
      continue;
    }
    polled_[i] = polled_.back();
    polled_.pop_back();
    ++parked_;
  }
}

}  // namespace remora::rdma
