#include "client/cluster/side_by_side.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "store/base/clock.h"

namespace remora {

std::size_t SideBySide::PollAll(std::span<const ShardLane> lanes) {
  std::size_t ended = 0;
  for (const ShardLane& lane : lanes) ended += lane.client->Poll();
  return ended;
}

void SideBySide::Wait(std::span<const ShardLane> lanes) {
  const auto look = [&] { return PollAll(lanes) > 0; };
  const std::size_t threads = lanes.size() + 1;  // the servers' and this one
  if (rdma::AreMoreThanCpus(threads) ? poller_.SpinAndYield(look) : poller_.Spin(look)) return;
  for (const ShardLane& lane : lanes) lane.client->Arm();
  if (PollAll(lanes) == 0) {
    std::vector<pollfd> descriptors;
    std::optional<TimePoint> deadline;
    for (const ShardLane& lane : lanes) {
      // Without an operation in flight, the descriptor of a broken connection may be readable for ever.
      if (lane.client->in_flight() == 0) continue;
      descriptors.push_back({lane.client->fd(), POLLIN, 0});
      const std::optional<TimePoint> next = lane.client->next_deadline();
      if (next && (!deadline || *next < *deadline)) deadline = next;
    }
    int timeout_ms = -1;
    if (deadline) {
      const Duration left = std::max(*deadline - lanes.front().client->clock().Now(), Duration::zero());
      const Duration longest =
          std::min<Duration>(std::chrono::minutes(1), lanes.front().client->clock().LongestSleep());
      timeout_ms =
          static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(std::min(left, longest)).count());
    }
    if (!descriptors.empty()) {
      static_cast<void>(::poll(descriptors.data(), descriptors.size(), timeout_ms));
    }
  }
  for (const ShardLane& lane : lanes) lane.client->Disarm();
}

bool SideBySide::Run(std::span<ShardLane> lanes, Begin begin) {
  for (;;) {
    bool is_done = true;
    for (ShardLane& lane : lanes) {
      while (lane.begun < lane.count && lane.client->free_slots() > 0) begin(lane, lane.begun++);
    }
    const std::size_t ended = PollAll(lanes);
    for (const ShardLane& lane : lanes) {
      if (lane.begun < lane.count || lane.client->in_flight() > 0) is_done = false;
    }
    if (is_done) return true;
    if (ended > 0) continue;
    if (lanes.front().client->clock().IsInterrupted()) return false;
    Wait(lanes);
  }
}

}  // namespace remora
