// The thread of a primary that brings its groups to one follower: it connects, again and again, and drives a
// FollowerLink.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/monitoring/follower_activity.h"
#include "server/replication/copy_sender.h"
#include "server/replication/follower_connection.h"
#include "server/replication/follower_link.h"
#include "server/replication/group_cursor.h"
#include "server/replication/history.h"
#include "store/base/clock.h"
#include "store/base/mutex.h"
#include "store/durable/store_copy.h"

namespace remora {

/// Brings the groups of a primary to one follower. The class has more than 15 fields, because some are of the
/// thread alone, and the others are what it shares with the server thread.
///
/// Thread safety: any thread may call Wake, acknowledged and status; the server thread calls the others.
class LinkThread {
 public:
  /// How a follower gets a copy of the primary's data.
  struct Copies {
    /// Like ServerStore::BeginCopy; any thread. Empty: no follower gets one.
    std::function<absl::StatusOr<std::unique_ptr<StoreCopy>>()> begin{};
    std::function<void(std::uint64_t bytes)> on_sent{};
    std::uint64_t rate = 0;  // bytes per second; 0: no limit
  };
  struct Source {
    GroupSource groups;
    History history{};
    bool is_synced = false;  // the primary's level is synced
    std::chrono::milliseconds lease_time{0};
    Copies copies{};
  };
  /// `on_change` is called in the thread when acknowledged(), answered() or status() has changed. The source
  /// outlives the thread. ResourceExhausted: the system starts no thread, or has no descriptor.
  static absl::StatusOr<std::unique_ptr<LinkThread>> Start(FollowerAddress to, const Source& source,
                                                           std::function<void()> on_change);
  /// Ends the thread, which may take as long as a connection attempt.
  ~LinkThread();
  LinkThread(const LinkThread&) = delete;
  LinkThread& operator=(const LinkThread&) = delete;

  /// Tells the thread to end, without waiting for it.
  void Stop();
  /// Returns whether the thread has ended, so that the destructor does not wait.
  bool has_ended() const { return has_ended_.load(std::memory_order_acquire); }
  /// Tells it that a group has come.
  void Wake();

  const rdma::Address& address() const { return to_.address; }
  /// Asks the follower in this round of the lease line. Any thread; rounds increase.
  void Ask(std::uint64_t round);
  /// Returns the last round that the follower has answered; 0: none.
  std::uint64_t answered() const { return answered_.load(std::memory_order_acquire); }
  /// Returns the number up to which the follower has acknowledged all groups; 0 before it has connected.
  std::uint64_t acknowledged() const { return acknowledged_.load(std::memory_order_acquire); }
  /// Returns the life of the member that acknowledged. Read it before and behind acknowledged(): if it is the
  /// same, both belong together.
  std::uint64_t life() const;
  struct Status {
    LinkState state = LinkState::kAway;
    std::string text;        // for the log
    std::uint64_t life = 0;  // that the follower told last
  };
  Status status() const;
  /// Returns how often status() has changed.
  std::uint64_t changes() const { return changes_.load(std::memory_order_acquire); }

 private:
  LinkThread(FollowerAddress to, const Source& source, std::function<void()> on_change)
      : to_(std::move(to)), source_(source), on_change_(std::move(on_change)), cursor_(source.groups) {}
  void Run();
  /// Connects again and again, until Stop.
  void ServeAlways();
  /// Serves the follower until the connection ends, and returns why.
  absl::Status Serve();
  /// Has the follower compare the histories. Returns its answer, which is not kOk if it takes a copy.
  absl::StatusOr<Reply> Follow(FollowerConnection& connection);
  /// Returns what this primary says of itself.
  std::string Introduction() const;
  /// Sends a copy of the data, and the groups since. Returns why the connection is to end.
  absl::Status SendCopy(FollowerConnection& connection);
  /// Sends the files that the follower has not of an earlier copy. Returns how many it has. `has_earlier`: it
  /// has some.
  absl::StatusOr<std::size_t> SendFiles(CopySender& sender, StoreCopy& copy, bool has_earlier,
                                        const std::function<absl::Status()>& between);
  /// Tells the follower why this primary does not go on.
  void TellFailure(FollowerConnection& connection, std::string_view why);
  absl::StatusOr<Reply> Call(FollowerConnection& connection, const Request& request,
                             std::string_view payload);
  /// Sends what there is to send. Returns false if that is nothing.
  absl::StatusOr<bool> SendGroups(FollowerConnection& connection, FollowerLink& link);
  absl::StatusOr<bool> TakeReplies(FollowerConnection& connection, FollowerLink& link);
  /// Sleeps until a group or a reply comes.
  void Sleep(FollowerConnection& connection, const FollowerLink& link);
  void Pause(Duration pause);
  void SetStatus(LinkState state, std::string text);

  const FollowerAddress to_;
  const Source& source_;
  const std::function<void()> on_change_;
  const SteadyClock clock_;
  int wake_fd_ = -1;  // an eventfd
  std::atomic<bool> is_stopped_ = false;
  std::atomic<bool> has_ended_ = false;
  std::atomic<bool> is_asleep_ = false;
  std::atomic<std::uint64_t> acknowledged_ = 0;
  std::atomic<std::uint64_t> asked_ = 0;     // round
  std::atomic<std::uint64_t> answered_ = 0;  // round
  std::atomic<std::uint64_t> changes_ = 0;
  mutable Mutex mutex_;
  Status shown_ ABSL_GUARDED_BY(mutex_);

  // Only the thread uses these.
  GroupCursor cursor_;
  TimePoint last_answer_;
  bool has_connected_ = false;    // since the last pause
  bool has_failed_copy_ = false;  // the same
  // Tables that it has sent in copies, with their checksums. The store gives a name once, and changes no
  // table.
  std::map<std::string, std::uint64_t, std::less<>> sent_tables_{};
  std::thread thread_;
};

}  // namespace remora
