// The followers of a primary, for those who watch it (server/http/monitor.h).
//
// The server thread writes, and other threads read at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "store/base/mutex.h"

namespace remora {

/// The state of a primary's link to a follower.
enum class LinkState : std::uint8_t {
  kAway = 1,  // not connected, or it does not answer
  kConnected,
  kRejected,  // the follower and this primary do not fit together
  kCopies,    // it gets a copy of this primary's data
};

struct FollowerActivity {
  std::string address;
  LinkState state = LinkState::kAway;
  std::uint64_t acknowledged = 0;  // number of the last group that it has acknowledged
};

/// The states of all followers, which the server writes and a monitor reads.
///
/// Thread safety: any thread may call Read; the server's one thread calls the others.
class FollowerActivities {
 public:
  struct View {
    std::vector<FollowerActivity> followers{};  // empty: the server is no primary with followers
    std::uint64_t last_group = 0;               // that was handed to the links
  };

  /// The server is a primary now, with these followers.
  void Show(std::vector<FollowerActivity> followers) {
    const MutexLock lock(mutex_);
    view_.followers = std::move(followers);
  }
  /// REQUIRES: `index` is that of a follower of Show.
  void SetState(std::size_t index, LinkState state) {
    const MutexLock lock(mutex_);
    view_.followers[index].state = state;
  }
  void SetAcknowledged(std::size_t index, std::uint64_t group) {
    const MutexLock lock(mutex_);
    view_.followers[index].acknowledged = group;
  }
  void SetLastGroup(std::uint64_t group) {
    const MutexLock lock(mutex_);
    view_.last_group = group;
  }

  /// Returns a view of one moment, with the followers in the order of Show.
  View Read() const {
    const MutexLock lock(mutex_);
    return view_;
  }

 private:
  mutable Mutex mutex_;
  View view_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remora
