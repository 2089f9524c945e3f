// Orders to the server thread of a member of a cluster, and its reports. The thread that gives them
// (server/cluster/keeper.h) waits for the server thread, and never the other way round.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "server/replication/follower_connection.h"
#include "server/replication/link_thread.h"
#include "store/base/clock.h"
#include "store/base/mutex.h"

namespace remora {

class ClusterSlots;

struct MemberOrders {
  /// The epoch of which the server is to be the primary.
  struct Lead {
    std::uint64_t epoch = 0;
    /// No round of the primary before need have asked this member lately. It serves T from now on.
    bool was_unasked = false;
    std::uint64_t versions_from = 0;              // its first version, unless its own are later
    std::vector<FollowerAddress> followers{};     // the other members, as they are now
    std::shared_ptr<const ClusterSlots> slots{};  // those of the shard; null: it has all
  };
  std::uint64_t life = 0;  // of this member, for its primary
  /// It follows no primary of an earlier epoch.
  std::uint64_t min_epoch = std::numeric_limits<std::uint64_t>::max();
  /// It may take a copy of a primary's data in place of its own (K11 of server/cluster/keeper.h).
  bool may_copy = false;
  std::optional<Lead> lead{};
  /// Why the member does not do what an operator asks. Empty: nobody is to be told.
  std::string wish_fault{};
  std::shared_ptr<const std::string> topology{};  // of the cluster, for clients; null: none is known
  std::vector<bool> counts{};                     // by followers: a group is published once it has it
  bool has_minimum = false;                       // else no further group is published
  /// The last round of the lease line that may end. Nothing: all may.
  std::optional<std::uint64_t> confirmed{};
  // Sizes in the configuration in which the server leads. Its metrics show them.
  std::uint64_t members = 0;
  std::uint64_t in_sync = 0;
  std::uint64_t min_in_sync = 0;
};

/// The request of an operator to a member.
enum class MemberWish : std::uint8_t {
  kNone = 1,
  kTakesOver,  // from a primary that serves
  kForces,     // it takes over, although it may lack acknowledged writes
};

struct MemberReport {
  struct Follower {
    LinkState state = LinkState::kAway;
    std::uint64_t life = 0;          // of the member that acknowledged; 0: none has
    std::uint64_t acknowledged = 0;  // number of a group
    std::uint64_t answered = 0;      // the last round of the lease line
  };
  bool is_loading = false;
  bool is_empty = false;                // it never had a key or a group
  MemberWish wish = MemberWish::kNone;  // of an operator
  bool is_yielding = false;             // a primary: another member is to take over
  bool has_copy = false;                // a whole copy of a primary's data has come
  bool is_primary = false;
  bool is_open = false;     // it serves clients
  std::uint64_t epoch = 0;  // of its data
  std::uint64_t last = 0;   // number of its last group
  std::uint64_t published = 0;
  std::uint64_t begun = 0;  // the last round of the lease line
  /// When the server may serve. Nothing: it was not told to lead, or may serve.
  std::optional<TimePoint> opens_at{};
  std::vector<Follower> followers{};
  std::uint64_t asked = 0;     // number of the last question that had one (kFollowAsks)
  std::string failure{};       // why it cannot lead. Empty: it can, or was not told to
  std::string disk_failure{};  // why its disk takes no more writes until it is opened again. Empty: it does
};

/// A mailbox of one letter in each direction.
///
/// Thread safety: one thread calls Ask, the server thread Take and Report.
class Membership {
 public:
  /// Has the server thread follow these orders, and returns its report behind that. Nothing: it did not
  /// answer in time, and follows them later. `wake` wakes it.
  std::optional<MemberReport> Ask(MemberOrders orders, Duration timeout) {
    std::function<void()> wake;
    {
      const MutexLock lock(mutex_);
      orders_ = std::move(orders);
      report_.reset();
      wake = wake_;
      is_asked_.store(true, std::memory_order_release);
    }
    if (wake) wake();
    MutexLock lock(mutex_);
    if (!report_) lock.WaitFor(has_report_, timeout);
    return std::exchange(report_, std::nullopt);
  }
  void set_wake(std::function<void()> wake) {
    const MutexLock lock(mutex_);
    wake_ = std::move(wake);
  }

  bool is_asked() const { return is_asked_.load(std::memory_order_acquire); }
  MemberOrders Take() {
    is_asked_.store(false, std::memory_order_release);
    const MutexLock lock(mutex_);
    return orders_;
  }
  /// Hands over the report, unless there are newer orders.
  void Report(MemberReport report) {
    {
      const MutexLock lock(mutex_);
      if (is_asked()) return;
      report_ = std::move(report);
    }
    has_report_.notify_one();
  }

 private:
  std::atomic<bool> is_asked_ = false;
  Mutex mutex_;
  std::condition_variable has_report_;
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);
  MemberOrders orders_ ABSL_GUARDED_BY(mutex_);
  std::optional<MemberReport> report_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remora
