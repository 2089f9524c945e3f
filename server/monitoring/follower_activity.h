// The followers of a primary, for those who watch it (server/http/monitor.h).
//
// The server thread writes, and other threads read at any time. Each number is right by itself; two of them
// may be of different moments.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace remora {

/// The state of a primary's link to a follower.
enum class LinkState : std::uint8_t {
  kNone = 0,  // the server is no primary yet
  kAway,      // not connected, or it does not answer
  kConnected,
  kRejected,  // the follower and this primary do not fit together
};

struct FollowerActivity {
  std::string address;
  LinkState state = LinkState::kNone;
  std::uint64_t acknowledged = 0;  // number of the last group that it has acknowledged
};

/// The states of all followers, which the server writes and a monitor reads.
///
/// Thread safety: Read and last_group may be called from any thread; all else by the server's one thread.
class FollowerActivities {
 public:
  /// Has places for the followers at these addresses.
  explicit FollowerActivities(std::vector<std::string> addresses)
      : addresses_(std::move(addresses)), places_(new Place[addresses_.size()]) {}
  FollowerActivities(const FollowerActivities&) = delete;
  FollowerActivities& operator=(const FollowerActivities&) = delete;

  /// REQUIRES: `index` is that of an address.
  void SetState(std::size_t index, LinkState state) {
    places_[index].state.store(state, std::memory_order_relaxed);
  }
  void SetAcknowledged(std::size_t index, std::uint64_t group) {
    places_[index].acknowledged.store(group, std::memory_order_relaxed);
  }
  void SetLastGroup(std::uint64_t group) { last_group_.store(group, std::memory_order_relaxed); }

  /// Returns the number of the last group that was handed to the links.
  std::uint64_t last_group() const { return last_group_.load(std::memory_order_relaxed); }
  /// Returns the followers in the order of the addresses. None: the server is no primary with followers.
  std::vector<FollowerActivity> Read() const {
    std::vector<FollowerActivity> followers;
    for (std::size_t i = 0; i < addresses_.size(); ++i) {
      const LinkState state = places_[i].state.load(std::memory_order_relaxed);
      if (state == LinkState::kNone) continue;
      followers.push_back({.address = addresses_[i],
                           .state = state,
                           .acknowledged = places_[i].acknowledged.load(std::memory_order_relaxed)});
    }
    return followers;
  }

 private:
  struct Place {
    std::atomic<LinkState> state = LinkState::kNone;
    std::atomic<std::uint64_t> acknowledged = 0;
  };

  const std::vector<std::string> addresses_;
  const std::unique_ptr<Place[]> places_;
  std::atomic<std::uint64_t> last_group_ = 0;
};

}  // namespace remora
